use std::sync::Arc;

use rdkafka::types::RDKafkaErrorCode as Code;

/// The client's error for a message or request. Codes only: their texts are fixed and hold no user data.
#[derive(Debug, thiserror::Error)]
#[error("{code}{}", remedy(.code))]
pub(super) struct BrokerError {
    pub(super) code: Code,
}

/// What to do, if the client's own text does not say.
fn remedy(code: &Code) -> &'static str {
    match code {
        Code::InvalidTimestamp => {
            "; a record's timestamp is this machine's time of sending, so its clock or the broker's is wrong: set both by NTP, or the \
             topic's message.timestamp.type to LogAppendTime, or widen its message.timestamp.after.max.ms and .before.max.ms"
        }
        _ => "",
    }
}

/// The cause of an outage, in the client's words without secrets.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unreachable(pub(super) Arc<str>);

/// Why a message could not be handed to the client.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotSent {
    #[error("the partitions of topic {topic:?} are not known yet")]
    CountUnknown { topic: Arc<str> },
    #[error("partition_with chose partition {chosen} of topic {topic:?}, which has {count}")]
    NoSuchPartition { topic: Arc<str>, chosen: i32, count: i32 },
    #[error("partition_with panicked for a message of topic {topic:?}")]
    PartitionFnPanicked { topic: Arc<str> },
    #[error(
        "partition {partition} of topic {topic:?} is stalled while others make progress: it has no leader, or its broker hangs"
    )]
    Stalled { topic: Arc<str>, partition: i32 },
}
