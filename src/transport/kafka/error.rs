use std::sync::Arc;

use rdkafka::types::RDKafkaErrorCode as Code;

/// What the client said of one message or request. Codes only: their texts are fixed and hold nothing of ours.
#[derive(Debug, thiserror::Error)]
#[error("{code}{}", remedy(.code))]
pub(super) struct BrokerError {
    pub(super) code: Code,
}

/// What to do, where the client's own words leave that open.
fn remedy(code: &Code) -> &'static str {
    match code {
        Code::InvalidTimestamp => {
            "; records have this machine's time of sending, so either its clock is wrong, or the broker's: set both by NTP, or the \
             topic's message.timestamp.type to LogAppendTime, or widen its message.timestamp.after.max.ms and .before.max.ms"
        }
        _ => "",
    }
}

/// What an outage is made of, in the client's words without secrets.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unreachable(pub(super) Arc<str>);

/// A message that could not even be handed to the client.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotSent {
    #[error("how many partitions topic {topic:?} has is not known yet")]
    CountUnknown { topic: Arc<str> },
    #[error("partition_with chose partition {chosen} of topic {topic:?}, which has {count}")]
    NoSuchPartition { topic: Arc<str>, chosen: i32, count: i32 },
    #[error("partition_with panicked at a message of topic {topic:?}")]
    PartitionFnPanicked { topic: Arc<str> },
    #[error("partition {partition} of topic {topic:?} takes nothing while others do: it has no leader, or is behind")]
    Stalled { topic: Arc<str>, partition: i32 },
}
