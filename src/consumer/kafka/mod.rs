//! Kafka, through librdkafka.

mod config;
mod context;
mod partitions;
mod source;

use std::fmt;
use std::sync::Arc;

use self::source::KafkaSource;
use super::error::ConsumerStartError;
use super::options::Options;
use super::running::RunningConsumer;
use super::setters::{consumer_options, consumer_start};
use super::source::{MakeSource, Source};
use super::worker::MakeWorker;
use crate::transport::{KafkaConfig, Secrets};

/// Processes records of Kafka, each in one database transaction with its claim.
///
/// ```no_run
/// # #[cfg(all(feature = "r2d2", feature = "sqlite"))] {
/// use std::time::Duration;
/// use diesel::prelude::*;
/// use diesel::r2d2::{ConnectionManager, Pool};
/// use diesel_outbox::consumer::{HandlerError, KafkaConsumer};
/// use diesel_outbox::transport::KafkaConfig;
///
/// #[derive(serde::Deserialize)]
/// struct OrderPlaced { order_id: i64, total_cents: i64 }
///
/// let pool = Pool::new(ConnectionManager::<SqliteConnection>::new("billing.db"))?;
/// let consumer = KafkaConsumer::new(KafkaConfig::new("localhost:9092"), "billing").topic("orders");
/// consumer.migrate(&mut *pool.get()?)?; // creates its tables
/// let consumer = consumer.start(pool, |conn, record| {
///     let placed: OrderPlaced = record.decode()?;
///     diesel::sql_query("INSERT INTO invoices VALUES (?, ?)")
///         .bind::<diesel::sql_types::BigInt, _>(placed.order_id)
///         .bind::<diesel::sql_types::BigInt, _>(placed.total_cents)
///         .execute(conn)?;
///     Ok::<_, HandlerError>(())
/// })?;
/// // .. until the process is told to end
/// assert!(consumer.shutdown_blocking(Duration::from_secs(10)).is_clean());
/// # }
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[must_use = "it reads nothing before `start`"]
pub struct KafkaConsumer {
    config: KafkaConfig,
    options: Options,
}

impl KafkaConsumer {
    /// A consumer in this group. Its settings may be those of a relay: what is of producers alone is left out. Progress in the
    /// database is kept under the group's name.
    pub fn new(config: KafkaConfig, group: impl Into<Arc<str>>) -> Self {
        Self { config, options: Options::new("kafka", group.into()) }
    }

    /// Adds a topic.
    pub fn topic(mut self, topic: impl Into<Arc<str>>) -> Self {
        self.options.topics.push(topic.into());
        self
    }

    consumer_options!();

    /// How often a record may end the process, alone in it, before it has failed for good; 3 by default.
    pub fn crashes_max(mut self, crashes: u32) -> Self {
        self.options.crashes_max = crashes.max(1);
        self
    }

    consumer_start!();

    fn run(self, workers: &MakeWorker) -> Result<RunningConsumer, ConsumerStartError> {
        let Self { config, options } = self;
        if options.topics.is_empty() {
            return Err(ConsumerStartError::NoTopic);
        }
        let client = config::client(&config, &options.consumer)?;
        let (secrets, start_from) = (Secrets::of(config.settings()), options.start_from);
        let logs_statistics = config.settings().any(|(name, _)| name == config::STATISTICS);
        let topics = options.topics.clone();
        let source: MakeSource = Box::new(move |listener| {
            let source = KafkaSource::new(&client, secrets, topics, start_from, listener, logs_statistics)?;
            Ok(Box::new(source) as Box<dyn Source>)
        });
        RunningConsumer::start(options, source, workers).map_err(|problem| ConsumerStartError::Client { problem })
    }
}

impl fmt::Debug for KafkaConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaConsumer").field("options", &self.options).finish_non_exhaustive()
    }
}
