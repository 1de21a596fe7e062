//! Proves that the tables of [`diesel_outbox`] and a topic agree, or says in what they do not.
//!
//! A [`Verification`] compares live rows, dead letters and the history with the records of a topic, by message id. It needs a history
//! ([`Topic::keep_sent_days`](diesel_outbox::Topic::keep_sent_days)): otherwise nothing says what was sent.
//!
//! | verdict | meaning |
//! |---|---|
//! | [`Lost`](Finding::Lost) | the history says that it was sent, but the topic does not have it |
//! | [`Phantom`](Finding::Phantom) | the topic has it, but no table does |
//! | [`Reordered`](Finding::Reordered) | the first copies of two messages of a key, on an ordered topic, are not in the order of their rows |
//! | [`Altered`](Finding::Altered) | key, kind, headers or payload of the record differ from the row |
//! | [`Early`](Finding::Early) | it was sent before its delivery time |
//! | [`Doubled`](Finding::Doubled) | the topic has it more than once, which is allowed |
//! | [`Unprocessed`](Finding::Unprocessed) | its consumer has not reported it as processed (HTTP, which has no topic to read) |
//!
//! What cannot be told is a [`Doubt`] with its reason: records or rows that retention has removed, a compacted topic, an open
//! transaction, a partition that could not be read, a topic without a history. A comparison of nothing is not clean either.
//!
//! ```no_run
//! # #[cfg(feature = "kafka")]
//! # async fn verify(admin: diesel_outbox::admin::Admin, yesterday: std::time::SystemTime) -> Result<(), diesel_outbox_verify::VerifyError> {
//! use diesel_outbox::transport::KafkaConfig;
//! use diesel_outbox_verify::{KafkaSource, Verification};
//!
//! let mut topic = KafkaSource::new(&KafkaConfig::new("kafka:9092"));
//! let report = Verification::of(&admin, "orders").since(yesterday).run(&mut topic, |_progress| {}).await?;
//! assert!(report.is_clean(), "{:?} {:?}", report.findings, report.cannot_tell);
//! # Ok(())
//! # }
//! ```
//!
//! # Beside relays
//!
//! It only reads, and relays may run meanwhile. Messages enqueued after it began are not judged. Others move between tables while these
//! are read, so each finding is looked up again by its message id before it is reported.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `kafka` | `KafkaSource` |
//! | `rocketmq` | `RocketMqSource` |
#![forbid(unsafe_code)]
// The types of the client of RocketMQ are nested deeply.
#![cfg_attr(feature = "rocketmq", recursion_limit = "256")]

mod candidates;
mod check;
mod compare;
mod comparison;
mod content;
mod doubt;
mod entry;
mod error;
mod finding;
#[cfg(feature = "kafka")]
mod kafka;
mod limits;
mod lookup;
mod order;
mod progress;
mod record;
mod report;
mod reports;
#[cfg(feature = "rocketmq")]
mod rocketmq;
mod rows;
mod serialize;
mod sorter;
mod source;
mod spilling;
#[cfg(test)]
mod tests;
mod verification;

pub use content::Part;
pub use doubt::Doubt;
pub use error::VerifyError;
pub use finding::{Finding, RecordPlace, RowPlace, Table};
#[cfg(feature = "kafka")]
pub use kafka::KafkaSource;
pub use progress::{Phase, Progress};
pub use record::Record;
pub use report::{Compared, Count, Counts, Report};
#[cfg(feature = "rocketmq")]
pub use rocketmq::RocketMqSource;
pub use source::{Compaction, OpenTransaction, Partition, RecordSource, SourceError, TopicState};
pub use verification::Verification;
