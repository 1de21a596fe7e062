//! Kafka, through librdkafka.

mod config;
mod context;
mod partitions;
mod source;

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "r2d2")]
use diesel::connection::LoadConnection;
#[cfg(feature = "r2d2")]
use diesel::r2d2::{ConnectionManager, Pool, R2D2Connection};

use self::source::KafkaSource;
use super::database::ConsumerBackend;
#[cfg(feature = "r2d2")]
use super::database::sync_workers;
#[cfg(any(feature = "deadpool", feature = "bb8", feature = "mobc"))]
use super::database::{AsyncBackendOf, AsyncConnectionOf, AsyncPool, async_workers};
use super::error::{ConsumerStartError, HandlerError};
use super::options::Options;
use super::record::Record;
use super::running::RunningConsumer;
use super::setters::consumer_options;
use super::source::{MakeSource, Source};
use super::worker::MakeWorker;
#[cfg(any(feature = "deadpool", feature = "bb8", feature = "mobc"))]
use crate::enqueue::AsyncOutboxBackend;
#[cfg(feature = "r2d2")]
use crate::enqueue::OutboxBackend;
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
/// assert!(consumer.shutdown(Duration::from_secs(10)).is_clean());
/// # }
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[must_use = "it reads nothing before `start`"]
pub struct KafkaConsumer {
    config: KafkaConfig,
    topics: Vec<Arc<str>>,
    options: Options,
}

impl KafkaConsumer {
    /// A consumer in this group. Its settings may be those of a relay: what is of producers alone is left out. Progress in the
    /// database is kept under the group's name.
    pub fn new(config: KafkaConfig, group: impl Into<Arc<str>>) -> Self {
        Self { config, topics: Vec::new(), options: Options::new(group.into()) }
    }

    /// Adds a topic.
    pub fn topic(mut self, topic: impl Into<Arc<str>>) -> Self {
        self.topics.push(topic.into());
        self
    }

    consumer_options!();

    /// Starts it with a pool of Diesel's connections. The handler runs in the transaction; it must neither commit nor roll back.
    ///
    /// Each worker is a thread with a connection, and the loop has one more: the pool needs one more than
    /// [`workers`](Self::workers).
    ///
    /// # Errors
    /// Returns an error if a setting is refused, or if there is no topic. An unreachable cluster or database is no error.
    #[cfg(feature = "r2d2")]
    pub fn start<C, F, E>(
        self,
        pool: Pool<ConnectionManager<C>>,
        handler: F,
    ) -> Result<RunningConsumer, ConsumerStartError>
    where
        C: R2D2Connection + LoadConnection + Send + 'static,
        C::Backend: ConsumerBackend + OutboxBackend<C>,
        F: Fn(&mut C, &Record) -> Result<(), E> + Send + Sync + 'static,
        E: Into<HandlerError> + 'static,
    {
        let workers = sync_workers(pool, handler, self.options.build_inbox()?, &self.options);
        self.run(&workers)
    }

    /// Starts it with a pool of diesel-async's connections, as [`start`](Self::start) does. Call it on tokio's
    /// multi-thread runtime: the connections live there, and the handlers' futures run on the workers' threads.
    ///
    /// # Errors
    /// As for [`start`](Self::start); and without such a runtime.
    #[cfg(any(feature = "deadpool", feature = "bb8", feature = "mobc"))]
    pub fn start_async<P, F, E>(self, pool: P, handler: F) -> Result<RunningConsumer, ConsumerStartError>
    where
        P: AsyncPool,
        AsyncBackendOf<P>: ConsumerBackend + AsyncOutboxBackend<AsyncConnectionOf<P>>,
        F: AsyncFn(&mut AsyncConnectionOf<P>, &Record) -> Result<(), E> + Send + Sync + 'static,
        E: Into<HandlerError> + 'static,
    {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| ConsumerStartError::NoRuntime)?;
        // Whoever blocks its only thread, as a shutdown does, would stop the connections.
        if runtime.runtime_flavor() == tokio::runtime::RuntimeFlavor::CurrentThread {
            return Err(ConsumerStartError::NoRuntime);
        }
        let workers = async_workers(pool, handler, self.options.build_inbox()?, &self.options, runtime);
        self.run(&workers)
    }

    fn run(self, workers: &MakeWorker) -> Result<RunningConsumer, ConsumerStartError> {
        let Self { config, topics, options } = self;
        if topics.is_empty() {
            return Err(ConsumerStartError::NoTopic);
        }
        let client = config::client(&config, &options.consumer)?;
        let (secrets, start_from) = (Secrets::of(config.settings()), options.start_from);
        let source: MakeSource = Box::new(move |listener| {
            let source = KafkaSource::new(&client, secrets, topics, start_from, listener)?;
            Ok(Box::new(source) as Box<dyn Source>)
        });
        RunningConsumer::start(options, source, workers).map_err(|problem| ConsumerStartError::Client { problem })
    }
}

impl fmt::Debug for KafkaConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaConsumer")
            .field("topics", &self.topics)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
