//! The interface of a transport for fenced topics.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::OutcomeSender;
use super::exactly_once::OutboxRow;
use crate::message::Envelope;

/// A lane of an ordered topic under the name that the broker knows: the same on every node, and unique to the lane.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LaneName {
    /// The outbox: its table of live messages, with the schema if one is named. For one of
    /// [`Relays`](crate::relay::Relays), a slash and the relay's name follow.
    pub outbox: Arc<str>,
    /// The topic.
    pub topic: Arc<str>,
    /// The lane's number.
    pub lane: u16,
}

/// `outbox/topic/lane`. It is unique: neither a table nor a topic has a slash in its name, and a relay's name stands
/// between slashes. Dashes, which both may have, would make the relay `eu` with topic `west-orders` equal to `eu-west`
/// with `orders`.
impl fmt::Display for LaneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.outbox, self.topic, self.lane)
    }
}

/// A lane's connection to the broker. Once the lane is fenced again, the broker accepts nothing more from this one.
/// Made by [`Transport::fence`](super::Transport::fence).
///
/// If a message fails, the later ones of its [`KeySequence`] fail with it, and no others.
pub trait FencedLane: fmt::Debug + Send + Sync {
    /// Hands messages to the client, in this order. Never blocks, never waits for the broker.
    ///
    /// Several messages of one key may be in flight. Before a message is reported as anything but delivered, its
    /// sequence is [failed](KeySequence::fail). No message of a failed sequence is sent: each is reported as
    /// [`Aborted`](super::FailureClass::Aborted). The broker may still store a message that was reported as failed. It
    /// does so before anything that the lane sends after it is fenced again, or never.
    ///
    /// If the broker refuses because the lane was fenced again, the outcome is [`Fenced`](super::FailureClass::Fenced).
    fn send_all(&self, messages: Vec<FencedMessage>);

    /// Whether it accepts messages. It closes before it reports the first outcome that shows so, and never reopens:
    /// further messages are reported as failed, and the lane must be fenced again.
    fn is_open(&self) -> bool;
}

/// A message that is sent through a fenced lane.
#[derive(Debug)]
pub struct FencedMessage {
    /// What to send.
    pub envelope: Envelope,
    /// Where its outcome goes.
    pub sender: OutcomeSender,
    /// The messages of its key that it follows.
    pub sequence: KeySequence,
    /// Its row, on a lane of [`fence_exactly_once`](super::Transport::fence_exactly_once).
    pub row: Option<OutboxRow>,
}

/// Messages of one key that follow each other: none is sent after one that failed. A cheap handle.
///
/// ```
/// use diesel_outbox::transport::KeySequence;
/// let (first, second) = (KeySequence::new(), KeySequence::new());
/// let later = first.clone();
/// first.fail();
/// assert!(later.has_failed() && !second.has_failed());
/// ```
#[derive(Debug, Clone, Default)]
pub struct KeySequence(Arc<AtomicBool>);

impl KeySequence {
    /// A sequence without messages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Marks the sequence as failed: no later message may be delivered.
    pub fn fail(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether one of its messages failed.
    pub fn has_failed(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Equal if they are the same sequence, whatever their state.
impl PartialEq for KeySequence {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for KeySequence {}

impl Hash for KeySequence {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}
