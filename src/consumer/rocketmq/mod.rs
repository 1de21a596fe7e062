//! RocketMQ, by its remoting protocol.

mod calls;
mod commits;
mod members;
mod queues;
mod reader;
mod source;

use std::fmt;
use std::sync::Arc;

use self::calls::Member;
use self::source::RocketMqSource;
use super::error::ConsumerStartError;
use super::options::Options;
use super::running::RunningConsumer;
use super::setters::{consumer_options, consumer_start};
use super::source::{MakeSource, Source};
use super::worker::MakeWorker;
use crate::transport::{Requests, RocketMqConfig};

/// Processes records of RocketMQ, each in one database transaction with its claim.
///
/// ```no_run
/// # #[cfg(all(feature = "r2d2", feature = "sqlite"))] {
/// use std::time::Duration;
/// use diesel::prelude::*;
/// use diesel::r2d2::{ConnectionManager, Pool};
/// use diesel_outbox::consumer::{HandlerError, RocketMqConsumer};
/// use diesel_outbox::transport::RocketMqConfig;
///
/// #[derive(serde::Deserialize)]
/// struct OrderPlaced { order_id: i64, total_cents: i64 }
///
/// let pool = Pool::new(ConnectionManager::<SqliteConnection>::new("billing.db"))?;
/// let consumer = RocketMqConsumer::new(RocketMqConfig::new("10.0.0.1:9876;10.0.0.2:9876"), "billing").topic("orders");
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
pub struct RocketMqConsumer {
    config: RocketMqConfig,
    options: Options,
}

impl RocketMqConsumer {
    /// A consumer in this group. Its settings may be those of a relay: what is of producers alone has no effect. Progress in the
    /// database is kept under the group's name.
    pub fn new(config: RocketMqConfig, group: impl Into<Arc<str>>) -> Self {
        Self { config, options: Options::new("rocketmq", group.into()) }
    }

    /// Adds a topic, without the namespace. Each member of the group must have the same topics.
    pub fn topic(mut self, topic: impl Into<Arc<str>>) -> Self {
        self.options.topics.push(topic.into());
        self
    }

    consumer_options!();

    consumer_start!();

    fn run(self, workers: &MakeWorker) -> Result<RunningConsumer, ConsumerStartError> {
        let Self { config, options } = self;
        if options.topics.is_empty() {
            return Err(ConsumerStartError::NoTopic);
        }
        let requests = Requests::start(config, &options.consumer)?;
        let member = Arc::new(Member::new(requests, options.topics.clone(), &options.consumer));
        let start_from = options.start_from;
        let source: MakeSource =
            Box::new(
                move |listener| Ok(Box::new(RocketMqSource::new(member, start_from, listener)) as Box<dyn Source>),
            );
        RunningConsumer::start(options, source, workers).map_err(|problem| ConsumerStartError::Client { problem })
    }
}

impl fmt::Debug for RocketMqConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocketMqConsumer").field("options", &self.options).finish_non_exhaustive()
    }
}
