//! A live message with all its columns, and how to find it.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::dead_letter::FailedAttempt;
use super::row::is_in_no_column;
use crate::codec::{self, CodecError};
use crate::lane::NodeId;
use crate::message::{HeaderError, Headers, MessageId};
use crate::serialize;

/// A message that is not sent yet, or not settled yet, with everything that is known of it.
///
/// Serializable as a [`DeadLetter`](super::DeadLetter) is, with payload and headers.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LiveMessage {
    /// The primary key of its row. Within a lane, messages are sent in the order of these.
    pub id: i64,
    /// Its message id.
    pub message_id: MessageId,
    /// Its topic.
    pub topic: Arc<str>,
    /// What it waits for.
    pub state: LiveState,
    /// On an ordered topic, the lane of its key.
    pub lane: Option<u16>,
    /// Its key: what it is about.
    pub key: Option<String>,
    /// Its kind: what happened.
    pub kind: String,
    /// Its headers as stored. Those of a poisoned message may not be valid headers.
    #[serde(rename = "headers", serialize_with = "serialize::headers")]
    pub headers_json: String,
    /// Its payload; `None` is a tombstone.
    #[serde(serialize_with = "serialize::payload")]
    pub payload: Option<Vec<u8>>,
    /// When it was enqueued, by the database's clock.
    #[serde(serialize_with = "serialize::instant")]
    pub created_at: SystemTime,
    /// From when on any relay may send it, by the database's clock. `None` in a lane: there its owner decides.
    #[serde(serialize_with = "serialize::instant_or_none")]
    pub due_at: Option<SystemTime>,
    /// When a delayed message is to be sent.
    #[serde(serialize_with = "serialize::instant_or_none")]
    pub deliver_at: Option<SystemTime>,
    /// Attempts spent.
    pub attempts: u32,
    /// Failures so far.
    pub failures: u32,
    /// The last failures, oldest first.
    pub errors: Vec<FailedAttempt>,
    /// In a lane, the relay that owns the lane. The table does not say who holds another message.
    pub owner: Option<NodeId>,
    /// Until when a relay holds it, by the database's clock: in a lane until the lease of the lane ends, otherwise if it is
    /// [leased](LiveState::Leased). A relay renews its leases.
    #[serde(serialize_with = "serialize::instant_or_none")]
    pub leased_until: Option<SystemTime>,
    /// Where it stands in the index.
    #[serde(skip)]
    pub(crate) position: LivePosition,
}

impl LiveMessage {
    /// Its headers.
    ///
    /// # Errors
    /// The column holds no valid headers: the next attempt will dead-letter the message.
    pub fn headers(&self) -> Result<Headers, HeaderError> {
        Headers::from_json(&self.headers_json)
    }

    /// The event, for a payload that the JSON codec wrote. A tombstone is read as `null`.
    ///
    /// # Errors
    /// The payload is not JSON of this type.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, CodecError> {
        codec::decode_json(self.payload.as_deref())
    }

    /// Its last failure, if it has failed.
    pub fn last_error(&self) -> Option<&FailedAttempt> {
        self.errors.last()
    }
}

// Without the payload and header values, as everywhere.
impl fmt::Debug for LiveMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveMessage")
            .field("id", &self.id)
            .field("message_id", &self.message_id)
            .field("topic", &self.topic)
            .field("state", &self.state)
            .field("lane", &self.lane)
            .field("key", &self.key)
            .field("kind", &self.kind)
            .field("headers", &Headers::shown(&self.headers_json))
            .field("payload_bytes", &self.payload.as_ref().map(Vec::len))
            .field("created_at", &self.created_at)
            .field("due_at", &self.due_at)
            .field("deliver_at", &self.deliver_at)
            .field("attempts", &self.attempts)
            .field("failures", &self.failures)
            .field("errors", &self.errors)
            .field("owner", &self.owner)
            .field("leased_until", &self.leased_until)
            .finish_non_exhaustive()
    }
}

/// What a live message waits for. Each has one state, except that a blocked one is also in its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LiveState {
    /// The next free relay sends it. An open claim may have locked it.
    Due,
    /// A relay holds it, or the process that has just enqueued it. If it sends nothing until [`LiveMessage::leased_until`], the
    /// message is due.
    Leased,
    /// It is to be sent later, at [`LiveMessage::deliver_at`].
    Delayed,
    /// It has failed, and waits for its next attempt, or a relay is making it: nothing tells the two apart. In a lane, its key waits
    /// behind it.
    Retrying,
    /// It waits for its turn in a lane of an ordered topic, or is being sent.
    InLane,
    /// It waits in a lane behind a message of its key that has failed. Only a page of this state finds that out: other pages show such
    /// a message as [`InLane`](Self::InLane).
    Blocked,
}

/// Selects live messages of a topic: those that meet all of its conditions.
///
/// An index serves the topic, the states [`Due`](LiveState::Due) and [`InLane`](LiveState::InLane), and on an ordered topic the lane of
/// the key. Other conditions are checked row by row, on a bounded number of rows per page
/// ([`Admin::live_messages`](crate::admin::Admin::live_messages)).
///
/// ```
/// use diesel_outbox::admin::{LiveFilter, LiveState};
/// let failing = LiveFilter::of("orders").state(LiveState::Retrying).kind("order.placed").header("tenant", "7");
/// assert_ne!(failing, LiveFilter::of("orders"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveFilter {
    pub(crate) topic: Arc<str>,
    pub(crate) state: Option<LiveState>,
    pub(crate) key: Option<Arc<str>>,
    pub(crate) kind: Option<Arc<str>>,
    pub(crate) header: Option<(Arc<str>, Arc<str>)>,
}

impl LiveFilter {
    /// All live messages of a topic, to be narrowed.
    pub fn of(topic: impl Into<Arc<str>>) -> Self {
        Self { topic: topic.into(), state: None, key: None, kind: None, header: None }
    }

    /// Only in this state.
    #[must_use]
    pub fn state(mut self, state: LiveState) -> Self {
        self.state = Some(state);
        self
    }

    /// Only of this key.
    #[must_use]
    pub fn key(mut self, key: impl Into<Arc<str>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Only of this kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<Arc<str>>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Only with this header: the whole value, which is text.
    #[must_use]
    pub fn header(mut self, name: impl Into<Arc<str>>, value: impl Into<Arc<str>>) -> Self {
        self.header = Some((name.into(), value.into()));
        self
    }

    /// Whether the filter can match no live message at all.
    pub(crate) fn is_impossible(&self) -> bool {
        let (name, value) = self.header.as_ref().map(|(name, value)| (name, value)).unzip();
        [self.key.as_ref(), self.kind.as_ref(), name, value].into_iter().flatten().any(|text| is_in_no_column(text))
    }
}

/// A position in a page of live messages, after which the next page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LiveCursor {
    pub(crate) position: LivePosition,
    /// The row whose followers are being read, in a page of blocked messages.
    pub(crate) head: Option<i64>,
}

impl LiveCursor {
    /// After a row, in a page that has no heads.
    pub(crate) fn at(position: LivePosition) -> Self {
        Self { position, head: None }
    }
}

/// Where a row stands in the index of a topic: by lane (-1 for none), `due_at` and row id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LivePosition {
    /// Its lane; -1 outside of lanes.
    pub lane: i32,
    /// Its `due_at`, in the store's unit of instants.
    pub due_at: i64,
    /// Its row id.
    pub id: i64,
}

/// A count that stops at a limit. It prints as `12`, or as `at least 10000`.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # use diesel_outbox::store::MemoryStore;
/// # use diesel_outbox::{Outbox, Topic};
/// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
/// # let admin = outbox.admin(MemoryStore::new());
/// let counted = admin.count_live("orders").await?;
/// assert_eq!(counted.due.to_string(), "0");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BoundedCount {
    /// How many were counted.
    pub count: usize,
    /// Whether there may be more.
    pub more: bool,
}

impl fmt::Display for BoundedCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_least = if self.more { "at least " } else { "" };
        write!(f, "{at_least}{}", self.count)
    }
}

/// How many live messages a topic has in each state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LiveCount {
    /// [`LiveState::Due`]
    pub due: BoundedCount,
    /// [`LiveState::Leased`]
    pub leased: BoundedCount,
    /// [`LiveState::Delayed`]
    pub delayed: BoundedCount,
    /// [`LiveState::Retrying`], in lanes or not.
    pub retrying: BoundedCount,
    /// [`LiveState::InLane`], blocked or not.
    pub in_lanes: BoundedCount,
}

#[cfg(test)]
mod tests;
