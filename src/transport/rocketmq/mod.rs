//! RocketMQ, through its client library in Rust.

mod admin;
mod batch;
mod capacity;
mod classify;
mod client;
mod client_lifecycle;
mod config;
#[cfg(feature = "serde")]
mod configured;
mod connection;
mod decode;
mod error;
mod half;
mod health;
mod library;
mod nodes;
mod queues;
mod record;
#[cfg(all(
    any(feature = "postgres", feature = "mysql", feature = "sqlite"),
    any(feature = "r2d2", feature = "deadpool", feature = "bb8", feature = "mobc")
))]
mod requests;
mod send_queue;
#[cfg(test)]
mod tests;
mod topics;
mod work;

pub use admin::RocketMqTopic;
pub use config::{RocketMqConfig, RocketMqConfigError};
pub use decode::RocketMqRecord;
pub(crate) use half::{CheckRequest, CheckResponse, HalfProducer, HalfSent};
#[cfg(all(
    any(feature = "postgres", feature = "mysql", feature = "sqlite"),
    any(feature = "r2d2", feature = "deadpool", feature = "bb8", feature = "mobc")
))]
pub(crate) use requests::{Answer, Line, QueuedRecord, Requests, Route};

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use self::admin::TopicSpec;
use self::classify::CallError;
use self::client::Client;
use self::error::NotSent;
use self::library::Library;
use self::send_queue::{PendingOutcome, QueuedMessage};
use super::{FailureClass, Outcome, OutcomeSender, Transport, TransportError};
use crate::message::Envelope;
use crate::topic::Topic;

/// Publishes to RocketMQ through its remoting protocol; tested with Apache RocketMQ 5.3.3.
///
/// ```no_run
/// use diesel_outbox::transport::{RocketMqConfig, RocketMqTopic, RocketMqTransport};
///
/// let rocketmq = RocketMqTransport::builder(RocketMqConfig::new("10.0.0.1:9876;10.0.0.2:9876").group("shop"))
///     .create_topic(RocketMqTopic::new("orders").queues(8))
///     .build()?;
/// # Ok::<_, diesel_outbox::transport::RocketMqConfigError>(())
/// ```
///
/// **A message** has the payload as its body, the kind as its tag, the message id and the key as its keys, the key as its
/// sharding key, and the [headers](super::header) as properties. The [RocketMQ guide](crate::guide::rocketmq) explains headers
/// that cannot be properties.
///
/// **Order.** Messages of one key are in one queue, in the order they were handed over as long as none fails. It is the
/// queue that every RocketMQ client chooses for that sharding key. Adding queues or brokers moves keys.
///
/// **Batches.** Each queue has one request in flight; messages that arrive meanwhile go with the next one. A single
/// message is sent alone, at once.
///
/// **Durability.** A message is delivered when the broker confirms it. With `SYNC_FLUSH` it is then on disk; with
/// `ASYNC_FLUSH`, the broker's default, it is in memory.
///
/// **Shutdown.** Dropping it abandons what it still holds: outcome senders report a failure. Call [`flush`](Transport::flush)
/// first; the relay's `shutdown` does.
pub struct RocketMqTransport {
    client: Arc<Client>,
    topics: Vec<TopicSpec>,
    _library: Library,
}

impl RocketMqTransport {
    /// A transport with these settings. Connects in the background; an unreachable cluster is no error.
    ///
    /// # Errors
    /// Returns an error for a setting that cannot work, or if the client library cannot run on this machine.
    pub fn new(config: RocketMqConfig) -> Result<Self, RocketMqConfigError> {
        Self::builder(config).build()
    }

    /// A builder with these settings, for further options.
    pub fn builder(config: RocketMqConfig) -> RocketMqTransportBuilder {
        RocketMqTransportBuilder { config, topics: Vec::new() }
    }

    /// Runs a task that talks to the cluster on the client library's runtime.
    async fn run_on_library_runtime<T, F>(&self, run: impl FnOnce(Arc<Client>) -> F) -> Result<T, TransportError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, TransportError>> + Send + 'static,
    {
        let ran = self.client.runtime.spawn(run(Arc::clone(&self.client))).await;
        ran.unwrap_or_else(|error| Err(TransportError::new(FailureClass::Temporary, error)))
    }
}

#[async_trait]
impl Transport for RocketMqTransport {
    /// As configured.
    fn system(&self) -> &'static str {
        "rocketmq"
    }

    fn delivery_timeout(&self) -> Duration {
        self.client.config.delivery_timeout
    }

    /// Creates or checks the topics given to the builder, and reads the queues of `topics`.
    ///
    /// A missing topic that is to be neither created nor checked is no error: its messages fail as
    /// [`FailureClass::Topic`]. A name that brokers refuse is an error, and so is a
    /// [`broker_delay`](RocketMqConfig::broker_delay) of an ordered topic.
    async fn prepare(&self, topics: &[Topic]) -> Result<(), TransportError> {
        let names: Vec<Arc<str>> = topics.iter().map(Topic::shared_name).collect();
        if let Some(name) = names.iter().find(|name| !self.client.topics.of(name, &self.client.config).is_legal) {
            return Err(TransportError::new(FailureClass::Topic, NotSent::TopicName { topic: Arc::clone(name) }));
        }
        let is_delayed = |topic: &&Topic| self.client.config.broker_delays.contains_key(topic.name());
        if let Some(topic) = topics.iter().filter(|topic| topic.lane_count().is_some()).find(is_delayed) {
            return Err(TransportError::new(
                FailureClass::Topic,
                NotSent::OrderedDelayed { topic: topic.shared_name() },
            ));
        }
        self.probe().await?;
        let specs = self.topics.clone();
        self.run_on_library_runtime(|client| async move {
            admin::prepare(&client, &specs).await?;
            for name in &names {
                work::read(Arc::clone(&client), client.topics.of(name, &client.config)).await;
            }
            Ok(())
        })
        .await
    }

    /// As configured.
    fn in_flight_max(&self) -> usize {
        self.client.config.in_flight_max
    }

    fn send(&self, envelope: Envelope, sender: OutcomeSender) {
        hand_over(&self.client, vec![(envelope, sender)]);
    }

    fn send_all(&self, messages: Vec<(Envelope, OutcomeSender)>) {
        hand_over(&self.client, messages);
    }

    async fn probe(&self) -> Result<(), TransportError> {
        self.run_on_library_runtime(|client| async move {
            client.probe().await.map_err(|call_error: CallError| call_error.error())
        })
        .await
    }

    fn outage(&self) -> Option<FailureClass> {
        self.client.health.outage().map(|outage| outage.class())
    }

    async fn flush(&self, within: Duration) -> usize {
        self.client.in_flight.wait_until_none(within).await
    }
}

/// Queues messages. Those whose outcome is already clear are reported at once.
fn hand_over(client: &Arc<Client>, messages: Vec<(Envelope, OutcomeSender)>) {
    let handed_at = Instant::now();
    let mut entries = Vec::with_capacity(messages.len());
    for (envelope, sender) in messages {
        if let Some(outage) = client.health.outage() {
            sender.complete(Outcome::Failed(outage));
        } else if let Some(permit) = client.capacity.enter() {
            let held = PendingOutcome { sender: sender.tracked_by(&client.in_flight), permit };
            entries.push(QueuedMessage { envelope, held, handed_at });
        } else {
            sender.complete(Outcome::Busy);
        }
    }
    work::hand_over(client, entries);
}

impl Drop for RocketMqTransport {
    fn drop(&mut self) {
        // A request that is already running still reports, or ends with the library's runtime.
        self.client.close();
    }
}

impl fmt::Debug for RocketMqTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocketMqTransport").field("config", &self.client.config).finish_non_exhaustive()
    }
}

/// Builds a [`RocketMqTransport`].
#[derive(Debug)]
pub struct RocketMqTransportBuilder {
    config: RocketMqConfig,
    topics: Vec<TopicSpec>,
}

impl RocketMqTransportBuilder {
    /// Creates the topic when the relay starts, on the brokers that lack it. On the others it is
    /// [checked](Self::check_topic). A broker that goes down meanwhile is left out, as long as another one answers.
    #[must_use]
    pub fn create_topic(mut self, topic: RocketMqTopic) -> Self {
        self.topics.push(TopicSpec { topic, create: true });
        self
    }

    /// Checks when the relay starts that the topic exists and is as given. Otherwise the relay does not start, and the
    /// error lists every difference.
    #[must_use]
    pub fn check_topic(mut self, topic: RocketMqTopic) -> Self {
        self.topics.push(TopicSpec { topic, create: false });
        self
    }

    /// Builds the transport. Connects in the background; an unreachable cluster is no error.
    ///
    /// # Errors
    /// Returns an error for a setting that cannot work, or if the client library cannot run on this machine.
    pub fn build(self) -> Result<RocketMqTransport, RocketMqConfigError> {
        let Self { config, topics } = self;
        config.check()?;
        let (library, runtime, clients) = Library::start()?;
        let open = client_lifecycle::connector(clients, config.clone());
        let client = Arc::new(Client::new(config, runtime, open));
        Ok(RocketMqTransport { client, topics, _library: library })
    }
}
