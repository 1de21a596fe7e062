use std::fmt;
use std::time::SystemTime;

use diesel_outbox::MessageId;
use serde::Serialize;

use crate::serialize::{instant, instant_or_none, shown};

/// Why something cannot be told. Each names what it leaves open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Doubt {
    /// There was nothing to compare: no message of the period was sent, and the topic has none.
    NothingToCompare,
    /// The history has no message of the topic: rows were deleted when they were sent.
    HistoryNotKept {
        /// Records of which no table has a message. They may well have had rows.
        records: u64,
    },
    /// Rows of older messages were removed from the history, or were never kept.
    HistoryRetention {
        /// Records of which no table has a message, and which are older than every sent message of the history.
        records: u64,
        /// The time of the first record that has a row in the history.
        #[serde(serialize_with = "instant_or_none")]
        since: Option<SystemTime>,
    },
    /// Older records were removed from the topic.
    TopicRetention {
        /// Sent messages without a record that were enqueued before the topic's first record.
        messages: u64,
        /// The topic is complete for messages enqueued from then on.
        #[serde(serialize_with = "instant")]
        since: SystemTime,
    },
    /// The topic is compacted: a record is removed when a later one has its key. Neither losses nor the order can be told.
    Compaction {
        /// Sent messages without a record.
        messages: u64,
        /// Why it is not known whether the topic is compacted, if it is not.
        #[serde(skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
    },
    /// A transaction of a producer is open: what is behind its beginning cannot be read.
    OpenTransaction {
        /// The partition.
        partition: String,
        /// Up to where it was read.
        last_stable: i64,
        /// Up to where it has records.
        high_watermark: i64,
    },
    /// A partition could not be read, or not as a whole.
    UnreadPartition {
        /// The partition.
        partition: String,
        /// What happened.
        problem: String,
    },
    /// Sent messages without a record that may be in a partition that could not be read.
    Unread {
        /// How many.
        messages: u64,
    },
    /// Keys with records in several partitions, as after partitions were added: offsets of two partitions have no order.
    KeyInSeveralPartitions {
        /// How many keys.
        keys: u64,
        /// A message of the first one.
        example: MessageId,
    },
    /// The consumers of these messages do not report what they have processed.
    NotReported {
        /// How many messages.
        messages: u64,
    },
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingToCompare => {
                f.write_str("no message of the period was sent, and the topic has none: nothing was compared")
            }
            Self::HistoryNotKept { records } => write!(
                f,
                "the history has no message of the topic, so {records} records cannot be told from phantoms, and nothing can be found \
                 lost: keep sent messages (Topic::keep_sent_days)"
            ),
            Self::HistoryRetention { records, since } => {
                write!(f, "{records} records have no row, and may be older than the history")?;
                since.map_or(Ok(()), |since| write!(f, ", which begins with a record of {}", shown(since)))
            }
            Self::TopicRetention { messages, since } => write!(
                f,
                "{messages} sent messages have no record, and were enqueued before {}, from when on the topic has all: older records \
                 were removed",
                shown(*since)
            ),
            Self::Compaction { messages, problem: None } => write!(
                f,
                "the topic is compacted: {messages} sent messages have no record, which a later one of their key may have replaced, and \
                 the order of keys cannot be told"
            ),
            Self::Compaction { messages, problem: Some(problem) } => write!(
                f,
                "it is not known whether the topic is compacted ({problem}): {messages} sent messages have no record, and the order of \
                 keys cannot be told"
            ),
            Self::OpenTransaction { partition, last_stable, high_watermark } => write!(
                f,
                "a transaction is open in partition {partition}: offsets from {last_stable} to {high_watermark} cannot be read before \
                 its producer ends it"
            ),
            Self::UnreadPartition { partition, problem } => write!(f, "partition {partition} was not read: {problem}"),
            Self::Unread { messages } => {
                write!(
                    f,
                    "{messages} sent messages have no record in what was read of the topic, and may be in the rest"
                )
            }
            Self::KeyInSeveralPartitions { keys, example } => write!(
                f,
                "{keys} keys have records in several partitions, so their order cannot be told: message {example} is of one"
            ),
            Self::NotReported { messages } => write!(
                f,
                "{messages} messages are of consumers that do not report what they have processed (Topic::processed_within)"
            ),
        }
    }
}
