use std::error::Error;
use std::fmt;
use std::time::Duration;

/// What became of a message handed to a transport.
#[derive(Debug)]
pub enum Outcome {
    /// The broker has it.
    Delivered,
    /// The client took nothing, because its own queue is full. Nothing was sent and nothing is spent.
    Busy,
    /// It was not delivered, as far as the client can tell.
    Failed(TransportError),
}

/// What a failure is about; each class has one treatment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureClass {
    /// The broker refuses this record for good, or its batch because of one such record: it is tried once more alone,
    /// then given up.
    RecordRefused,
    /// An answer about this record that may differ next time: spends an attempt.
    Record,
    /// Time-out, leader election, quota: says nothing about the record, which may even be stored. Waits, spends nothing.
    Temporary,
    /// The topic does not exist or may not be written: the topic is left alone for a while.
    Topic,
    /// No broker can be reached: an outage.
    Connection,
    /// The broker is there and does not know us: an outage with another remedy.
    Authentication,
    /// The client is broken and has been replaced; what it held may be stored.
    Fatal,
    /// Not its own fault: it was to follow upon a message of its key that failed, or its [lane](super::FencedLane) sends nothing
    /// more. Only of fenced topics. Nothing is written, and it goes again.
    Aborted,
    /// Its lane was fenced by somebody else: the broker takes nothing of it from this process any more. Only of fenced topics.
    Fenced,
}

impl FailureClass {
    /// Every class.
    pub const ALL: [Self; 9] = [
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

    /// Whether the failure is of the whole broker rather than of a message or topic.
    pub const fn is_outage(self) -> bool {
        matches!(self, Self::Connection | Self::Authentication | Self::Fatal)
    }

    /// Whether it spends an attempt. A refusal does not: it may be about another record of the batch, and one of a message that was
    /// alone needs no count.
    pub const fn spends_attempt(self) -> bool {
        matches!(self, Self::Record)
    }

    /// The name under which it stands in rows, metrics and logs.
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

/// A failure of a transport, classified.
///
/// ```
/// use diesel_outbox::transport::{FailureClass, TransportError};
/// let error = TransportError::new(FailureClass::Temporary, std::io::Error::other("leader not available"));
/// assert!(error.is_retriable());
/// assert_eq!(error.to_string(), "temporary: leader not available");
/// ```
#[derive(Debug)]
pub struct TransportError {
    class: FailureClass,
    source: Box<dyn Error + Send + Sync>,
    retry_after: Option<Duration>,
    attempts: Option<Attempts>,
}

/// What a transport has in the place of a topic's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attempts {
    pub(crate) max: u32,
    /// Until the next one.
    pub(crate) wait: Duration,
}

impl TransportError {
    /// A failure of a class, with what the client said. That text is kept on the row and logged: no secrets in it.
    pub fn new(class: FailureClass, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { class, source: source.into(), retry_after: None, attempts: None }
    }

    /// Says for how long the receiver asks to be left alone; at most [`RETRY_AFTER_MAX`] counts.
    ///
    /// With [`FailureClass::Topic`] the topic is left alone for so long and nothing is written, with
    /// [`FailureClass::Temporary`] and [`FailureClass::Record`] the message waits at least so long. An outage ends when
    /// a probe says so, whatever it asks for.
    ///
    /// [`RETRY_AFTER_MAX`]: crate::limits::RETRY_AFTER_MAX
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Says how many attempts a message has that fails so, and how long it waits for the next one, in the place of its topic's
    /// [`attempts_max`](crate::Topic::attempts_max) and [retry policy](crate::Topic::retry): for a transport whose receivers take
    /// another time to be mended than what else a topic's messages fail at. Counts with [`FailureClass::Record`] only, and every
    /// attempt that the message has spent counts towards `max`.
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

    /// What it has in the place of its topic's attempts.
    pub(crate) const fn attempts(&self) -> Option<Attempts> {
        self.attempts
    }

    /// For how long the receiver asks to be left alone, where it says so.
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

impl Error for TransportError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}
