use std::sync::Arc;
use std::time::Duration;

/// What the client library said, in our words and its codes: its own texts may hold what a broker echoed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(super) struct DescribedError(pub(super) Arc<str>);

/// What kept a message from being sent, or from being known as stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotSent {
    #[error("topic {topic:?} cannot be one of RocketMQ's, which have 1 to 127 of a-z, A-Z, 0-9, _ and -")]
    TopicName { topic: Arc<str> },
    #[error("the name servers know no topic {topic:?}")]
    UnknownTopic { topic: Arc<str> },
    #[error("no broker takes messages of topic {topic:?}")]
    NoQueue { topic: Arc<str> },
    #[error("the payload has {bytes} bytes, above message_bytes_max")]
    TooLarge { bytes: usize },
    #[error("key, kind and headers take {bytes} bytes as properties, above the 32,767 that a broker stores")]
    PropertiesTooLarge { bytes: usize },
    #[error("topic {topic:?} is delayed by the broker, which takes no half messages for it")]
    HalfDelayed { topic: Arc<str> },
    #[error(
        "topic {topic:?} is ordered by key, and a broker that delays its messages gives them out in any order: \
         leave out broker_delay, or ordered_by_key"
    )]
    OrderedDelayed { topic: Arc<str> },
    #[error("waited {waited:?} for its turn")]
    Overdue { waited: Duration },
    #[error("the transport is going away")]
    Closing,
}
