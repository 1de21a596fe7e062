use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// The outcome of a message that was handed to a transport.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The broker has it.
    Delivered,
    /// The client did not accept it, because its queue is full. Nothing was sent, and no attempt is spent.
    Busy,
    /// It was not delivered, as far as the client can tell.
    Failed(TransportError),
}

/// What a failure is about. Each class is handled in one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureClass {
    /// The broker refuses this record for good, or its batch because of one such record. It is sent once more alone,
    /// then it becomes a dead letter.
    RecordRefused,
    /// A failure of this record that may differ next time. It spends an attempt.
    Record,
    /// Time-out, leader election, quota: says nothing about the record, which may even be stored. It waits and spends
    /// no attempt.
    Temporary,
    /// The topic does not exist or is not writable. The topic backs off.
    Topic,
    /// No broker can be reached: an outage.
    Connection,
    /// The broker rejects our credentials: an outage that the user must fix.
    Authentication,
    /// The client failed and was replaced. What it held may be stored.
    Fatal,
    /// Not this message's fault: an earlier message of its key failed, or its [lane](super::FencedLane) is closed. Only
    /// for fenced topics. Nothing is written, and it is sent again.
    Aborted,
    /// Another owner fenced its lane: the broker accepts nothing more of the lane from this process. Only for fenced
    /// topics.
    Fenced,
}

impl FailureClass {
    /// Every class.
    pub const ALL: &[Self] = &[
        Self::RecordRefused,
        Self::Record,
        Self::Temporary,
        Self::Topic,
        Self::Connection,
        Self::Authentication,
        Self::Fatal,
        Self::Aborted,
        Self::Fenced,
    ];

    /// Whether the failure is about the whole broker rather than a message or topic.
    pub const fn is_outage(self) -> bool {
        matches!(self, Self::Connection | Self::Authentication | Self::Fatal)
    }

    /// Whether it spends an attempt. A refusal does not: it may be about another record of the batch, and a message
    /// that was sent alone needs no count.
    pub const fn spends_attempt(self) -> bool {
        matches!(self, Self::Record)
    }

    /// The name in rows, metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RecordRefused => "record_refused",
            Self::Record => "record",
            Self::Temporary => "temporary",
            Self::Topic => "topic",
            Self::Connection => "connection",
            Self::Authentication => "authentication",
            Self::Fatal => "fatal",
            Self::Aborted => "aborted",
            Self::Fenced => "fenced",
        }
    }
}

impl Serialize for FailureClass {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for FailureClass {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
        Self::ALL.iter().copied().find(|class| class.as_str() == name).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|class| class.as_str()).collect();
            serde::de::Error::custom(format_args!("{name:?} is not a failure class: give one of {}", known.join(", ")))
        })
    }
}

/// A failure of a transport, classified.
///
/// ```
/// use diesel_outbox::transport::{FailureClass, TransportError};
/// let error = TransportError::new(FailureClass::Temporary, std::io::Error::other("leader not available"));
/// assert!(error.is_retriable());
/// assert_eq!(error.to_string(), "temporary: leader not available");
/// ```
#[derive(Debug, Clone)]
pub struct TransportError {
    class: FailureClass,
    source: Arc<dyn Error + Send + Sync>,
    retry_after: Option<Duration>,
    attempts: Option<Attempts>,
}

/// Attempts that replace those of the topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attempts {
    pub(crate) max: u32,
    /// Until the next one.
    pub(crate) wait: Duration,
}

impl TransportError {
    /// A failure of a class with the client's error. Its text is stored in the row and logged: it must hold no secrets.
    pub fn new(class: FailureClass, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { class, source: source.into().into(), retry_after: None, attempts: None }
    }

    /// Sets how long the receiver asks the relay to wait, at most an hour.
    ///
    /// With [`FailureClass::Topic`] the topic backs off for so long and nothing is written. With
    /// [`FailureClass::Temporary`] and [`FailureClass::Record`] the message waits at least so long. An outage ends with
    /// a successful probe, whatever this says.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Sets how many attempts a message has after such a failure, and how long it waits for the next one. This replaces
    /// its topic's [`attempts_max`](crate::Topic::attempts_max) and [retry policy](crate::Topic::retry). For a
    /// transport whose receivers take longer to fix than other causes of failure. Counts with [`FailureClass::Record`]
    /// only. Every attempt that the message has spent counts towards `max`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use diesel_outbox::transport::{FailureClass, TransportError};
    /// let refused = TransportError::new(FailureClass::Record, std::io::Error::other("the receiver answered 422"));
    /// let refused = refused.with_attempts(20, Duration::from_secs(8));
    /// ```
    #[must_use]
    pub fn with_attempts(mut self, max: u32, wait: Duration) -> Self {
        self.attempts = Some(Attempts { max, wait });
        self
    }

    /// The attempts that replace those of the topic.
    pub(crate) const fn attempts(&self) -> Option<Attempts> {
        self.attempts
    }

    /// How long the receiver asks the relay to wait, if it does.
    pub const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// What the failure is about.
    pub const fn class(&self) -> FailureClass {
        self.class
    }

    /// Whether the same message may succeed later.
    pub const fn is_retriable(&self) -> bool {
        !matches!(self.class, FailureClass::RecordRefused)
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class.as_str(), self.source)
    }
}

// The client's error is in the text, so the source is that error's source.
impl Error for TransportError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.source()
    }
}
