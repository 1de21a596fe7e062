//! What a transport has to do for a fenced topic.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Receipt;
use crate::message::Envelope;

/// A lane of an ordered topic, as the broker is to know it: the same on every node, and of no other lane.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LaneName {
    /// The outbox: its table of live messages, with its schema where one is named; and behind a slash the relay's name where it is
    /// one of [`Relays`](crate::relay::Relays).
    pub outbox: Arc<str>,
    /// The topic.
    pub topic: Arc<str>,
    /// The lane's number.
    pub lane: u16,
}

/// `outbox/topic/lane`. No two lanes have the same: neither a table nor a topic has a slash in its name, and what a relay's name may
/// have stands between them. With dashes, which both have, the relay `eu` with the topic `west-orders` was `eu-west` with `orders`.
impl fmt::Display for LaneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.outbox, self.topic, self.lane)
    }
}

/// The way to the broker for one lane, of which the broker takes nothing any more once the lane was fenced anew. From
/// [`Transport::fence`](super::Transport::fence).
///
/// A message that fails takes the later ones of its [`KeySequence`] with it, and no others.
pub trait FencedLane: fmt::Debug + Send + Sync {
    /// Hands messages to the client, in this order. Never blocks, never waits for the broker.
    ///
    /// Several messages of one key may be under way. Before a message is reported as anything but delivered its run is
    /// [failed](KeySequence::fail), and no message of a failed run is sent: each is reported as
    /// [`Aborted`](super::FailureClass::Aborted). A copy that the broker has of a message that was reported as failed is there
    /// before whatever the lane sends once it is fenced anew, or never.
    ///
    /// Where the broker refuses because the lane was fenced anew, that is reported as
    /// [`Fenced`](super::FailureClass::Fenced).
    fn send_all(&self, messages: Vec<FencedMessage>);

    /// Whether it takes messages. Once it does not, before the first outcome that says so, it never does again: what it is given
    /// is reported as failed, and the lane has to be fenced anew.
    fn is_open(&self) -> bool;
}

/// A message on its way through a fenced lane.
#[derive(Debug)]
pub struct FencedMessage {
    /// What to send.
    pub envelope: Envelope,
    /// Where its outcome goes.
    pub receipt: Receipt,
    /// What it follows upon.
    pub sequence: KeySequence,
}

/// Messages of one key that follow upon each other: none goes behind one that failed. A cheap handle.
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
    /// Of no message yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One of its messages was not delivered: no later one may be.
    pub fn fail(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether one of its messages failed.
    pub fn has_failed(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The same one, and not one that came as far.
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
