use std::sync::Arc;

use crate::enqueue::EnqueueError;
use crate::message::MessageId;
use crate::store::StoreError;

/// Why something could not be done to messages, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// No delayed message of that id waits: it was sent, cancelled or given up before, or was never delayed.
    #[error(
        "no delayed message {message_id} waits: it was sent, cancelled or given up before, it was not delayed, or its \
         transaction did not commit"
    )]
    NotDelayed {
        /// The message.
        message_id: MessageId,
    },
    /// A relay is sending the message, or tried to before.
    #[error("a relay has the message {message_id} in hand: it is being sent, or waits for its next attempt")]
    AlreadyClaimed {
        /// The message.
        message_id: MessageId,
    },
    /// No live message of that id waits, outside of ordered topics.
    #[error("no message {message_id} waits: it was sent, cancelled or given up before, or its topic is ordered")]
    NotWaiting {
        /// The message.
        message_id: MessageId,
    },
    /// The message is no dead letter.
    #[error("the message {message_id} is no dead letter: it was not given up, or was redriven or purged before")]
    NotDeadLetter {
        /// The message.
        message_id: MessageId,
    },
    /// No message of that id is there, live or dead, outside of the lanes of ordered topics. There the first message of each key is
    /// tried again by its lane's owner, and at once when the topic is [paused](crate::admin::Admin::pause) and
    /// [resumed](crate::admin::Admin::resume).
    #[error(
        "no message {message_id} is there to be sent again: it was sent, cancelled or purged before, or it waits in a lane of \
         an ordered topic, whose owner tries the first message of each key by itself; pause that topic and resume it, and every \
         key is tried at once"
    )]
    NotFound {
        /// The message.
        message_id: MessageId,
    },
    /// The edited message is refused, as enqueue would refuse it. The letter stays.
    #[error(transparent)]
    Refused(#[from] EnqueueError),
    /// The edited message is delayed, and a redrive sends now.
    #[error("the message that is to replace {message_id} is delayed: a redrive sends now, so give it without a delay")]
    DelayedRedrive {
        /// The dead letter.
        message_id: MessageId,
    },
    /// Everything would be purged because nothing was said.
    #[error(
        "the filter has no condition, and every dead letter would be gone: say `DeadLetterFilter::everything()` if that is meant"
    )]
    NoFilter,
    /// No letter can be found by the filter.
    #[error("the filter finds nothing whatever there is: what it calls `dead_from` does not lie before `dead_before`")]
    ImpossibleFilter,
    /// A page of nothing.
    #[error("a page of 0 letters would look like the last one: ask for at least 1")]
    EmptyPage,
    /// The topic is none of the outbox's, and so no relay would obey.
    #[error("topic {topic:?} is not configured, so nothing of it can be paused; configured are {configured:?}")]
    UnknownTopic {
        /// The topic.
        topic: String,
        /// The topics there are.
        configured: Vec<String>,
    },
    /// The topic is not paused.
    #[error("topic {topic:?} is not paused: it never was, or was resumed before")]
    NotPaused {
        /// The topic.
        topic: String,
    },
    /// No message of that id is in the history.
    #[error(
        "the message {message_id} is not in the history: it is not sent yet, its topic does not keep what was sent, or its time is over"
    )]
    NotInHistory {
        /// The message.
        message_id: MessageId,
    },
    /// No message of that id is in the history that its consumer has not marked.
    #[error(
        "no sent message {message_id} is there to be sent again: it is marked as processed, or is not in the history, or is being sent"
    )]
    NotUnprocessed {
        /// The message.
        message_id: MessageId,
    },
    /// The topic's consumers do not say what they have processed.
    #[error(
        "the topic {topic:?} is not configured to be confirmed: give it .keep_sent_days(..) and .processed_within(..)"
    )]
    NotConfirmed {
        /// The topic.
        topic: Arc<str>,
    },
    /// A rate of nothing.
    #[error("a redrive of 0 messages at once, or in a second, would never end: give at least 1 of each")]
    ZeroRate,
    /// The store has no such operations.
    #[error("this store has no operations for single messages: implement `Store::admin` for it")]
    Unsupported,
    /// The store keeps no history.
    #[error("this store keeps no history: implement `Store::history` for it")]
    NoHistory,
    /// The database could not be asked, or did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
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
            | Self::AlreadyClaimed { .. }
            | Self::NotWaiting { .. }
            | Self::NotDeadLetter { .. }
            | Self::UnknownTopic { .. }
            | Self::NotPaused { .. }
            | Self::NotInHistory { .. }
            | Self::NotUnprocessed { .. }
            | Self::NotConfirmed { .. }
            | Self::ZeroRate
            | Self::NoHistory
            | Self::Unsupported => false,
        }
    }
}
