//! A topic and how the outbox treats it. The defaults are in `limits/topics.rs`.

use std::sync::Arc;
use std::time::Duration;

use self::error::TopicProblem;
use crate::limits::{
    ATTEMPTS_MAX, KAFKA_PROGRESS_PREFIX, LANES, LANES_MAX, MESSAGE_BYTES_MAX, STALENESS, STALENESS_MIN, TOPIC_CHARS_MAX,
};
use crate::retention::{Keep, Retention};
use crate::retry::{Exponential, RetryPolicy};

/// A topic and its policies.
///
/// ```
/// use std::time::Duration;
/// use diesel_outbox::Topic;
/// use diesel_outbox::retry::Fixed;
///
/// let orders = Topic::new("orders")
///     .staleness(Duration::from_secs(5))
///     .retry(Fixed::seconds(&[10, 30, 60, 120, 300]))
///     .attempts_max(5);
/// assert_eq!(orders.name(), "orders");
/// ```
#[derive(Debug, Clone)]
pub struct Topic {
    name: Arc<str>,
    staleness: Duration,
    retry: Arc<dyn RetryPolicy>,
    attempts_max: u32,
    message_bytes_max: usize,
    via: Arc<str>,
    is_ordered: bool,
    /// Set by the application; only for an ordered topic.
    lanes: Option<u16>,
    on_failed_key: Option<OnFailedKey>,
    serializes: bool,
    is_fenced: bool,
    is_exactly_once: bool,
    retention: Retention,
}

/// What happens to a key of an ordered topic when its message is refused for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFailedKey {
    /// The key's later messages wait while the message is retried, until it is delivered or removed. Nothing is sent
    /// out of order. The default.
    BlockKey,
    /// The message becomes a dead letter, and the next one is sent. If the dead letter is redriven, it comes after
    /// those.
    DeadLetter,
}

/// The name of the transport that is given to a relay without a name, and of topics that name none.
pub(crate) const DEFAULT_TRANSPORT: &str = "default";

impl Topic {
    /// A topic with the default policies. Its name is checked by
    /// [`OutboxBuilder::build`](crate::OutboxBuilder::build).
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            staleness: STALENESS,
            retry: Arc::new(Exponential::default()),
            attempts_max: ATTEMPTS_MAX,
            message_bytes_max: MESSAGE_BYTES_MAX,
            via: DEFAULT_TRANSPORT.into(),
            is_ordered: false,
            lanes: None,
            on_failed_key: None,
            serializes: false,
            is_fenced: false,
            is_exactly_once: false,
            retention: Retention::default(),
        }
    }

    /// Sends messages of one key in the order in which they were enqueued, across nodes, retries and restarts. Every
    /// message needs a key then.
    ///
    /// [The guide](crate::guide::ordering) says what this guarantees and what not. Keys are independent of each other:
    /// many are in flight at once, one message of each.
    ///
    /// ```
    /// use diesel_outbox::{OnFailedKey, Topic};
    ///
    /// let orders = Topic::new("orders").ordered_by_key().lanes(32).on_failed_key(OnFailedKey::DeadLetter);
    /// # let _ = orders;
    /// ```
    #[must_use]
    pub fn ordered_by_key(mut self) -> Self {
        self.is_ordered = true;
        self
    }

    /// The number of lanes that the keys of an ordered topic are spread over: 16 by default, 1 to 1,024. It is also the
    /// most nodes that can share the topic. It is stored in the database at the first start: a relay with another
    /// number refuses to start, and says what to do.
    #[must_use]
    pub fn lanes(mut self, lanes: u16) -> Self {
        self.lanes = Some(lanes);
        self
    }

    /// Sets what happens to a key of an ordered topic when its message is refused for good.
    #[must_use]
    pub fn on_failed_key(mut self, policy: OnFailedKey) -> Self {
        self.on_failed_key = Some(policy);
        self
    }

    /// Makes transactions that enqueue messages of one key of this ordered topic wait for each other, from the enqueue
    /// to the COMMIT. This gives them an order even if nothing else in the transactions does.
    ///
    /// PostgreSQL takes an advisory lock in the same round trip. MySQL and MariaDB take a row lock in an extra round
    /// trip. SQLite lets one transaction write at a time anyway.
    #[must_use]
    pub fn serialize_by_key(mut self) -> Self {
        self.serializes = true;
        self
    }

    /// Makes the broker refuse what an earlier owner of a lane of this ordered topic still sends. So a new owner can
    /// send at once, and several messages of one key can be in flight.
    ///
    /// Needs a transport that supports it. Kafka's does, with a transaction for each batch of messages; consumers must
    /// then read with `isolation.level=read_committed`. [The guide](crate::guide::ordering) lists the benefits and
    /// costs.
    ///
    /// ```
    /// use diesel_outbox::Topic;
    ///
    /// let ledger = Topic::new("ledger").ordered_by_key().lanes(8).fenced();
    /// # let _ = ledger;
    /// ```
    #[must_use]
    pub fn fenced(mut self) -> Self {
        self.is_fenced = true;
        self
    }

    /// Makes a relay send no row of this [fenced](Self::fenced) topic twice, whatever crashes.
    ///
    /// Each Kafka transaction also stores which rows it delivers, in the topic `outbox-progress.` followed by this topic's name,
    /// which the relay creates. Whoever takes a lane over reads them there, and settles those rows without sending them.
    /// [The guide](crate::guide::exactly_once) lists what it costs and which duplicates remain.
    ///
    /// ```
    /// use diesel_outbox::Topic;
    ///
    /// let ledger = Topic::new("ledger").ordered_by_key().lanes(8).fenced().exactly_once();
    /// # let _ = ledger;
    /// ```
    #[must_use]
    pub fn exactly_once(mut self) -> Self {
        self.is_exactly_once = true;
        self
    }

    /// How long a new message is leased to the process that enqueued it, before a sweeper may take it: `t`.
    ///
    /// It bounds the delay that a crash between COMMIT and send causes. At least two seconds.
    #[must_use]
    pub fn staleness(mut self, staleness: Duration) -> Self {
        self.staleness = staleness;
        self
    }

    /// How long a failed message waits for its next attempt. After a failure that says nothing about the message, such as a time-out,
    /// at most 30 seconds.
    #[must_use]
    pub fn retry(mut self, policy: impl RetryPolicy) -> Self {
        self.retry = Arc::new(policy);
        self
    }

    /// The number of attempts after which a message becomes a dead letter.
    ///
    /// Only failures of the message itself count: an outage, a time-out or a leader election never does.
    #[must_use]
    pub fn attempts_max(mut self, attempts: u32) -> Self {
        self.attempts_max = attempts;
        self
    }

    /// The most bytes of payload, key and headers together; a larger message is an error at enqueue. Keep it at or
    /// below the broker's limit, or the message fails there.
    #[must_use]
    pub fn message_bytes_max(mut self, bytes: usize) -> Self {
        self.message_bytes_max = bytes;
        self
    }

    /// The transport for its messages: the one given under this name to
    /// [`RelayBuilder::transport_named`](crate::relay::RelayBuilder::transport_named). By default, and under the name
    /// `default`, it is the one given to [`RelayBuilder::transport`](crate::relay::RelayBuilder::transport).
    ///
    /// The relay looks it up when it starts. Rows do not store it, so a topic can change its transport while messages
    /// wait.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use diesel_outbox::store::MemoryStore;
    /// use diesel_outbox::transport::MemoryTransport;
    /// use diesel_outbox::{Outbox, Topic};
    ///
    /// let outbox = Outbox::builder()
    ///     .topic(Topic::new("orders"))
    ///     .topic(Topic::new("order-webhooks").via("webhooks"))
    ///     .build()?;
    /// let relay = outbox.relay().store(MemoryStore::new())
    ///     .transport(MemoryTransport::new())
    ///     .transport_named("webhooks", MemoryTransport::new())
    ///     .start().await?;
    /// assert_eq!(relay.status().transports.len(), 2);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn via(mut self, transport: impl Into<Arc<str>>) -> Self {
        self.via = transport.into();
        self
    }

    /// Keeps sent messages in a [history](crate::guide::history) for this many days and less than one more; up to ten
    /// years. By default they are deleted.
    ///
    /// ```
    /// use std::time::Duration;
    /// use diesel_outbox::Topic;
    ///
    /// let orders = Topic::new("orders").keep_sent_days(30).processed_within(Duration::from_secs(600));
    /// # let _ = orders;
    /// ```
    #[must_use]
    pub fn keep_sent_days(mut self, days: u32) -> Self {
        self.retention.sent_days = Some(days);
        self
    }

    /// Removes dead letters that are older than this many days. It must not exceed
    /// [`keep_sent_days`](Self::keep_sent_days) if both are set. By default dead letters stay until somebody handles
    /// them, however short the history is.
    #[must_use]
    pub fn keep_dead_days(mut self, days: u32) -> Self {
        self.retention.dead_days = Some(days);
        self
    }

    /// Expects consumers to report processed messages ([`Admin::report_processed`](crate::admin::Admin::report_processed))
    /// within this time. A message that is not reported by then is late. Needs
    /// [`keep_sent_days`](Self::keep_sent_days), and longer than this.
    #[must_use]
    pub fn processed_within(mut self, window: Duration) -> Self {
        self.retention.processed_within = Some(window);
        self
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    pub(crate) fn shared_transport_name(&self) -> Arc<str> {
        Arc::clone(&self.via)
    }

    /// The name of its transport.
    pub fn transport_name(&self) -> &str {
        &self.via
    }

    /// Whether its messages are sent in order by key.
    pub fn is_ordered(&self) -> bool {
        self.lane_count().is_some()
    }

    /// Whether its sent messages are kept in the history.
    pub fn keeps_sent(&self) -> bool {
        self.keep().is_some()
    }

    pub(crate) fn staleness_duration(&self) -> Duration {
        self.staleness
    }

    pub(crate) fn retry_policy(&self) -> &dyn RetryPolicy {
        &*self.retry
    }

    pub(crate) fn attempts_limit(&self) -> u32 {
        self.attempts_max
    }

    pub(crate) fn message_bytes_limit(&self) -> usize {
        self.message_bytes_max
    }

    /// How many lanes it has; `None` if it is not ordered.
    pub(crate) fn lane_count(&self) -> Option<u16> {
        self.is_ordered.then(|| self.lanes.unwrap_or(LANES))
    }

    pub(crate) fn on_failed_key_policy(&self) -> OnFailedKey {
        self.on_failed_key.unwrap_or(OnFailedKey::BlockKey)
    }

    pub(crate) fn is_serialized_by_key(&self) -> bool {
        self.serializes
    }

    pub(crate) fn is_fenced(&self) -> bool {
        self.is_fenced
    }

    pub(crate) fn is_exactly_once(&self) -> bool {
        self.is_exactly_once
    }

    pub(crate) fn retention(&self) -> Retention {
        self.retention
    }

    /// How its sent messages are kept, if they are.
    pub(crate) fn keep(&self) -> Option<Keep> {
        self.retention.keep()
    }

    fn has_settings_of_ordered(&self) -> bool {
        self.lanes.is_some()
            || self.on_failed_key.is_some()
            || self.serializes
            || self.is_fenced
            || self.is_exactly_once
    }

    pub(crate) fn check(&self) -> Result<(), TopicProblem> {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let name = &*self.name;
        let chars_max = TOPIC_CHARS_MAX - if self.is_exactly_once { KAFKA_PROGRESS_PREFIX.len() } else { 0 };
        let problem = if name.is_empty() || name.len() > chars_max || name == "." || name == ".." {
            TopicProblem::NameLength { chars_max }
        } else if !name.chars().all(legal) {
            TopicProblem::NameCharacters
        } else if self.staleness < STALENESS_MIN {
            TopicProblem::Staleness(self.staleness)
        } else if self.attempts_max == 0 {
            TopicProblem::AttemptsMax
        } else if self.message_bytes_max == 0 {
            TopicProblem::MessageBytesMax
        } else if !self.is_ordered && self.has_settings_of_ordered() {
            TopicProblem::NotOrdered
        } else if self.is_exactly_once && !self.is_fenced {
            TopicProblem::NotFenced
        } else if self.lanes.is_some_and(|lanes| lanes == 0 || lanes > LANES_MAX) {
            TopicProblem::Lanes
        } else if let Err(problem) = self.retention.check() {
            TopicProblem::Retention(problem)
        } else {
            return Ok(());
        };
        Err(problem)
    }
}

#[cfg(feature = "serde")]
mod configured;
mod error;
#[cfg(test)]
mod tests;
