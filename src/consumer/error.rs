use std::any::Any;
use std::error::Error;
use std::fmt;

use crate::codec::CodecError;
use crate::limits::{CONSUMER_GROUP_CHARS_MAX, INBOX_CONSUMER_CHARS_MAX};

/// Why a handler could not process a record.
///
/// Every error becomes one by `?`, and the record is tried again. One that would fail each time is
/// [`permanent`](Self::permanent), as a [`CodecError`] always is.
///
/// ```
/// use diesel_outbox::CodecError;
/// use diesel_outbox::consumer::HandlerError;
/// assert!(HandlerError::from(diesel::result::Error::NotFound).is_retriable());
/// assert!(!HandlerError::from(CodecError::new("no such unit")).is_retriable());
/// assert!(!HandlerError::permanent("unknown customer").is_retriable());
/// ```
pub struct HandlerError {
    source: Box<dyn Error + Send + Sync>,
    is_retriable: bool,
}

impl HandlerError {
    /// An error that may be over at the next attempt.
    pub fn retriable(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { source: source.into(), is_retriable: true }
    }

    /// An error that each attempt would meet: the record is not tried again.
    pub fn permanent(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { source: source.into(), is_retriable: false }
    }

    /// Whether the record is tried again.
    pub fn is_retriable(&self) -> bool {
        self.is_retriable
    }

    /// The cause.
    pub fn get_ref(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.source
    }

    /// The database's error, if that is the cause.
    pub(crate) fn into_database_error(self) -> Result<diesel::result::Error, Self> {
        let Self { source, is_retriable } = self;
        match source.downcast() {
            Ok(error) if is_retriable => Ok(*error),
            Ok(error) => Err(Self { source: error, is_retriable }),
            Err(source) => Err(Self { source, is_retriable }),
        }
    }
}

// It is no `Error` itself, so that every other one can become it.
impl<E: Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        let is_retriable = !(&error as &dyn Any).is::<CodecError>();
        Self { source: Box::new(error), is_retriable }
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerError").field("source", &self.source).field("is_retriable", &self.is_retriable).finish()
    }
}

/// Why a consumer did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConsumerStartError {
    /// No topic was named.
    #[error("the consumer has no topic: name at least one with `topic(..)`")]
    NoTopic,
    /// The tables cannot hold the group's name.
    #[error(
        "the group's name {group:?} cannot be used: progress is kept under it, so give 1 to {CONSUMER_GROUP_CHARS_MAX} characters without U+0000"
    )]
    Group {
        /// The name.
        group: String,
    },
    /// The group's name cannot be that of the inbox, and the consumer was given no inbox of another name.
    #[error(
        "the group's name {group:?} cannot be the name of an inbox, which has 1 to {INBOX_CONSUMER_CHARS_MAX} of A-Z, a-z, 0-9 and \
         . _ - : /: choose another group, or give the consumer an inbox, .inbox(Inbox::builder(\"another-name\").build()?)"
    )]
    GroupAsInbox {
        /// The name.
        group: String,
    },
    /// A function for the inbox's keys, and no inbox.
    #[error(
        "inbox_key has no use with Progress::Offsets, which has no inbox: leave it out, or choose Progress::Inbox or Progress::InboxAndOffsets"
    )]
    KeyWithoutInbox,
    /// A setting of the Kafka client is wrong.
    #[cfg(feature = "kafka")]
    #[error(transparent)]
    Kafka(#[from] crate::transport::KafkaConfigError),
    /// A setting of the RocketMQ client is wrong, or the client cannot run on this machine.
    #[cfg(feature = "rocketmq")]
    #[error(transparent)]
    RocketMq(#[from] crate::transport::RocketMqConfigError),
    /// The inbox of the group's name cannot be built: give the consumer one with `inbox(..)`.
    #[error(transparent)]
    Inbox(#[from] crate::inbox::InboxBuildError),
    /// The tables could not be made.
    #[error(transparent)]
    Migrate(#[from] crate::migrations::MigrateError),
    /// Async connections need tokio's multi-thread runtime.
    #[error(
        "the consumer was started outside of tokio's multi-thread runtime: call start_async on one, or start with a pool of r2d2"
    )]
    NoRuntime,
    /// The client or a thread could not be created.
    #[error("the consumer cannot start: {problem}")]
    Client {
        /// What the client library or the system says.
        problem: String,
    },
}
