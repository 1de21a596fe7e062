use std::sync::Arc;

use crate::enqueue::EnqueueError;
use crate::message::MessageId;
use crate::store::StoreError;

/// Why an admin operation failed, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// No delayed message of that id is waiting: it was sent, cancelled or dead-lettered before, or was never delayed.
    #[error(
        "no delayed message {message_id} is waiting: it was sent, cancelled or dead-lettered before, it was not delayed, or \
         its transaction did not commit"
    )]
    NotDelayed {
        /// The message.
        message_id: MessageId,
    },
    /// A relay is sending the message, or has tried to.
    #[error("a relay holds the message {message_id}: it is being sent, or waits for its next attempt")]
    AlreadyClaimed {
        /// The message.
        message_id: MessageId,
    },
    /// There is no live message of that id.
    #[error(
        "the message {message_id} is not live: it was sent, cancelled or dead-lettered before, or its transaction did not commit"
    )]
    NotLive {
        /// The message.
        message_id: MessageId,
    },
    /// The topic is not configured in this outbox, and the tables hold nothing of it.
    #[error("topic {topic:?} is not configured, and the tables have no messages of it: use one of {known:?}")]
    NoSuchTopic {
        /// The topic.
        topic: String,
        /// The configured topics, and those that have live messages.
        known: Vec<String>,
    },
    /// No live message of that id is waiting, outside of ordered topics.
    #[error(
        "no message {message_id} is waiting: it was sent, cancelled or dead-lettered before, or its topic is ordered"
    )]
    NotWaiting {
        /// The message.
        message_id: MessageId,
    },
    /// The message is not a dead letter.
    #[error("the message {message_id} is not a dead letter: it never was, or it was redriven or purged before")]
    NotDeadLetter {
        /// The message.
        message_id: MessageId,
    },
    /// There is no message of that id, live or dead, outside of the lanes of ordered topics. In a lane, the owner retries the first
    /// message of each key, and does so at once when the topic is [paused](crate::admin::Admin::pause) and
    /// [resumed](crate::admin::Admin::resume).
    #[error(
        "there is no message {message_id} to send again: it was sent, cancelled or purged before, or it waits in a lane of an \
         ordered topic, whose owner retries the first message of each key by itself; to retry every key at once, pause that \
         topic and resume it"
    )]
    NotFound {
        /// The message.
        message_id: MessageId,
    },
    /// The edited message is refused, as enqueue would refuse it. The dead letter stays.
    #[error(transparent)]
    Refused(#[from] EnqueueError),
    /// The edited message is delayed, but a redrive sends now.
    #[error("the message that is to replace {message_id} is delayed, but a redrive sends at once: remove the delay")]
    DelayedRedrive {
        /// The dead letter.
        message_id: MessageId,
    },
    /// The filter has no condition, so every dead letter would be deleted.
    #[error(
        "the filter has no condition, so every dead letter would be deleted: pass `DeadLetterFilter::everything()` if you mean that"
    )]
    NoFilter,
    /// The filter can match no dead letter.
    #[error(
        "the filter can match no dead letter: set `dead_from` to a time before `dead_before`, and use no text with a NUL"
    )]
    ImpossibleFilter,
    /// The cursor is no position in this list.
    #[error("{cursor:?} is no position in this list: pass on the `next` of one of its pages")]
    WrongCursor {
        /// The cursor.
        cursor: String,
    },
    /// A page of size 0.
    #[error("a page of 0 entries is not possible: ask for at least 1")]
    EmptyPage,
    /// The topic is not configured in this outbox, so no relay would pause it.
    #[error("topic {topic:?} is not configured, so it cannot be paused: use one of {configured:?}")]
    UnknownTopic {
        /// The topic.
        topic: String,
        /// The configured topics.
        configured: Vec<String>,
    },
    /// There is no parked record of that row.
    #[error("there is no parked record {id}: it was processed or discarded before, or never parked")]
    NotParked {
        /// The row.
        id: i64,
    },
    /// No consumer of that name has used these tables.
    #[error("no consumer {consumer:?} has used these tables{}", use_one_of(.known))]
    NoSuchConsumer {
        /// The consumer.
        consumer: String,
        /// Those that have.
        known: Vec<String>,
    },
    /// The topic is not paused.
    #[error("topic {topic:?} is not paused: it never was, or it was resumed before")]
    NotPaused {
        /// The topic.
        topic: String,
    },
    /// No message of that id is in the history.
    #[error(
        "the message {message_id} is not in the history: it is not sent yet, its topic does not keep sent messages, or it was pruned"
    )]
    NotInHistory {
        /// The message.
        message_id: MessageId,
    },
    /// The history has no message of that id that is still unprocessed.
    #[error(
        "there is no sent message {message_id} to send again: it is processed, is not in the history, or is being sent"
    )]
    NotUnprocessed {
        /// The message.
        message_id: MessageId,
    },
    /// The topic's consumers are not configured to report what they have processed.
    #[error(
        "the consumers of topic {topic:?} are not configured to report what they have processed: give it .keep_sent_days(..) and \
         .processed_within(..)"
    )]
    ReportsNotExpected {
        /// The topic.
        topic: Arc<str>,
    },
    /// A rate of 0.
    #[error("a rate of 0 messages per transaction or per second would never end: set both to at least 1")]
    ZeroRate,
    /// A canary redrive with a step of 0 messages.
    #[error("a step of 0 messages would show nothing: give each step of the canary at least 1")]
    EmptyStep,
    /// The store has no admin operations.
    #[error("this store has no admin operations: use the store of PostgreSQL, MySQL, SQLite or memory")]
    Unsupported,
    /// The database could not be reached, or the operation failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn use_one_of(known: &[String]) -> String {
    match known {
        [] => ", nor has any other".to_owned(),
        known => format!(": use one of {known:?}"),
    }
}

impl AdminError {
    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Store(error) => error.is_retriable(),
            Self::NotDelayed { .. }
            | Self::NotFound { .. }
            | Self::Refused(_)
            | Self::DelayedRedrive { .. }
            | Self::NoFilter
            | Self::ImpossibleFilter
            | Self::EmptyPage
            | Self::WrongCursor { .. }
            | Self::AlreadyClaimed { .. }
            | Self::NotWaiting { .. }
            | Self::NotLive { .. }
            | Self::NoSuchTopic { .. }
            | Self::NotDeadLetter { .. }
            | Self::UnknownTopic { .. }
            | Self::NotParked { .. }
            | Self::NoSuchConsumer { .. }
            | Self::NotPaused { .. }
            | Self::NotInHistory { .. }
            | Self::NotUnprocessed { .. }
            | Self::ReportsNotExpected { .. }
            | Self::ZeroRate
            | Self::EmptyStep
            | Self::Unsupported => false,
        }
    }
}
