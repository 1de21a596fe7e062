use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use serde::Serialize;

use crate::record::Record;

/// Reads a topic. Implemented for Kafka (`KafkaSource`) and RocketMQ (`RocketMqSource`), and by you for a transport of your own.
#[async_trait]
pub trait RecordSource: Send {
    /// Finds the partitions of the topic and their ends. From then on, [`next`](Self::next) reads what is between: records stored from
    /// `from` on, or all of them.
    ///
    /// # Errors
    /// The topic is unknown, or the broker cannot be reached. One partition that cannot be read is no error:
    /// [`Partition::unread`].
    async fn open(&mut self, topic: &str, from: Option<SystemTime>) -> Result<TopicState, SourceError>;

    /// The next records, those of one partition in their order; none if every partition is read up to its end.
    ///
    /// # Errors
    /// The broker cannot be reached.
    async fn next(&mut self) -> Result<Vec<Record>, SourceError>;

    /// Takes the ends anew, so that [`next`](Self::next) reads what was added meanwhile.
    ///
    /// # Errors
    /// The broker cannot be reached.
    async fn move_ends(&mut self) -> Result<(), SourceError>;

    /// What is known of the topic now: a partition may have failed while it was read.
    fn state(&self) -> TopicState;
}

/// What is known of a topic.
#[derive(Debug, Clone, Default)]
pub struct TopicState {
    /// Its partitions, or its queues on all brokers.
    pub partitions: Vec<Partition>,
    /// Whether the broker removes records that are not old.
    pub compaction: Compaction,
    /// How long a record stays invisible after it was sent.
    pub delay: Duration,
}

/// Whether a broker removes records of which a later one has the same key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Compaction {
    /// It does not.
    #[default]
    Off,
    /// It does.
    On,
    /// It is not known, because of this problem.
    Unknown(String),
}

/// A partition, and how much of it is read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Partition {
    /// Its name: `3`, or `broker-a/3`.
    pub name: String,
    /// Its first offset. Above 0, older records were removed.
    pub first: i64,
    /// Where the reading begins.
    pub begin: i64,
    /// Where it ends: before this offset.
    pub end: i64,
    /// Why it could not be read, or not as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
    /// A transaction that stayed open, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_transaction: Option<OpenTransaction>,
}

impl Partition {
    /// Whether records were removed that could be of the period.
    pub(crate) fn is_cut(&self) -> bool {
        self.first > 0 && self.begin <= self.first
    }
}

/// A transaction of a producer that has neither committed nor aborted: nothing behind its first record can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct OpenTransaction {
    /// Up to where the partition can be read.
    pub last_stable: i64,
    /// Up to where it has records.
    pub high_watermark: i64,
}

/// Why a topic cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The brokers have no such topic.
    #[error("the brokers at {brokers} have no topic {topic:?}: check the address and the name")]
    NoSuchTopic {
        /// The topic.
        topic: String,
        /// The brokers.
        brokers: String,
    },
    /// The settings of the reader cannot work.
    #[error("the reader cannot be made: {problem}")]
    Settings {
        /// What is wrong.
        problem: String,
    },
    /// The broker did not answer, or refused.
    #[error("topic {topic:?} cannot be read: {problem}")]
    Broker {
        /// The topic.
        topic: String,
        /// What happened.
        problem: String,
    },
}
