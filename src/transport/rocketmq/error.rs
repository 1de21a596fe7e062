use std::sync::Arc;
use std::time::Duration;

/// A client library error in our words and its codes: its own texts may repeat what a broker echoed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(super) struct DescribedError(pub(super) Arc<str>);

/// Why a message was not sent, or is not known to be stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotSent {
    #[error("topic {topic:?} is not a RocketMQ topic name: use 1 to 127 of a-z, A-Z, 0-9, _ and -")]
    TopicName { topic: Arc<str> },
    #[error("the name servers know no topic {topic:?}")]
    UnknownTopic { topic: Arc<str> },
    #[error("no broker accepts messages of topic {topic:?}")]
    NoQueue { topic: Arc<str> },
    #[error("the payload has {bytes} bytes, above message_bytes_max")]
    TooLarge { bytes: usize },
    #[error("key, kind and headers take {bytes} bytes as properties, above the 32,767 that a broker stores")]
    PropertiesTooLarge { bytes: usize },
    #[error("topic {topic:?} has a broker_delay, and the broker accepts no half messages for it")]
    HalfDelayed { topic: Arc<str> },
    #[error(
        "topic {topic:?} is ordered by key, and a broker delivers delayed messages in any order: \
         leave out broker_delay, or ordered_by_key"
    )]
    OrderedDelayed { topic: Arc<str> },
    #[error("waited {waited:?} in the send queue")]
    Overdue { waited: Duration },
    #[error("the transport was closed")]
    Closing,
}
