use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::unsent::UnsentCheck;
use super::{Inner, Outbox, RegisteredType};
use crate::codec::CodecError;
use crate::enqueue::EnqueueInterceptor;
use crate::limits::KEEP_DAYS_MAX;
use crate::message::OutboxMessage;
use crate::naming::TableNames;
use crate::retention::AuditPolicy;
use crate::topic::Topic;

/// Configures and builds an [`Outbox`]. From [`Outbox::builder`].
///
/// ```
/// use std::time::Duration;
/// use diesel_outbox::{Outbox, TableNames, Topic};
///
/// let outbox = Outbox::builder()
///     .topic(Topic::new("orders").staleness(Duration::from_secs(5)))
///     .topic(Topic::new("payments"))
///     .tables(TableNames::default().prefix("shop_outbox_")?)
///     .build()?;
/// assert_eq!(outbox.topics().len(), 2);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
#[must_use = "an outbox is there only after `build`"]
pub struct OutboxBuilder {
    topics: Vec<Topic>,
    tables: TableNames,
    is_without_topics: bool,
    outside_transaction: bool,
    transaction_pooling: bool,
    messages: Vec<RegisteredType>,
    audit: AuditPolicy,
    interceptors: Vec<Arc<dyn EnqueueInterceptor>>,
    has_fingerprints: bool,
}

impl Outbox {
    /// Starts to configure an outbox. It needs at least one topic.
    pub fn builder() -> OutboxBuilder {
        OutboxBuilder::default()
    }
}

impl OutboxBuilder {
    /// Adds a topic. A message for any other topic is refused at enqueue.
    pub fn topic(mut self, topic: Topic) -> Self {
        self.topics.push(topic);
        self
    }

    /// Allows an outbox without topics, for a tool that does not know those of the application. It can enqueue nothing. Its
    /// [`Admin`](crate::admin::Admin) takes the topics, and the lanes of ordered ones, from the database.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # use diesel_outbox::store::MemoryStore;
    /// use diesel_outbox::Outbox;
    /// let admin = Outbox::builder().allow_no_topics().build()?.admin(MemoryStore::new());
    /// assert!(admin.topics().await?.is_empty());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn allow_no_topics(mut self) -> Self {
        self.is_without_topics = true;
        self
    }

    /// Registers a message type. This is optional, and does three things: [`build`](Self::build) fails if the type's topic is not
    /// configured or its codec is not ready, [`Admin::payload_text`](crate::admin::Admin::payload_text) can show payloads of the type
    /// as text, and relays know the type's [`fingerprints`](Self::fingerprints).
    pub fn message<M: OutboxMessage>(mut self) -> Self {
        let type_name = std::any::type_name::<M>();
        self.messages.push(RegisteredType {
            type_name,
            topic: M::TOPIC,
            kinds: M::KINDS,
            fingerprints: M::FINGERPRINTS,
            payload_text: M::payload_text,
            check_codec: M::check_codec,
        });
        self
    }

    /// Sets the schema and the prefix of the tables. The outbox, its relays and their stores use these names.
    pub fn tables(mut self, tables: TableNames) -> Self {
        self.tables = tables;
        self
    }

    /// Shows each message to `interceptor` before it is written. It may add headers, or refuse the message. Several are called
    /// in the order in which they were registered.
    pub fn interceptor(mut self, interceptor: impl EnqueueInterceptor) -> Self {
        self.interceptors.push(Arc::new(interceptor));
        self
    }

    /// Sends the fingerprint of each derived event's shape in the header `outbox-fingerprint`. Consumers tell by it which version of
    /// the type a message has, and a relay logs `fingerprint_unknown` if a row has a shape that none of the
    /// [registered](Self::message) types has. See [schemas](crate::guide::schemas).
    ///
    /// Off by default: the header costs 40 bytes in each row, and a twentieth of what sending a small message costs.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] {
    /// # use diesel::prelude::*;
    /// # use diesel_migrations::MigrationHarness;
    /// use diesel_outbox::{Outbox, OutboxMessage, Topic};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize, OutboxMessage)]
    /// #[outbox(topic = "orders")]
    /// struct OrderPlaced { order_id: i64 }
    ///
    /// # let mut conn = SqliteConnection::establish(":memory:")?;
    /// # conn.run_pending_migrations(diesel_outbox::migrations::MIGRATIONS).unwrap();
    /// let outbox = Outbox::builder().topic(Topic::new("orders")).message::<OrderPlaced>().fingerprints().build()?;
    /// let sent = outbox.testing();
    /// conn.transaction(|conn| outbox.enqueue(conn, &OrderPlaced { order_id: 42 }))?;
    /// let own = OrderPlaced::FINGERPRINTS[0].as_bytes();
    /// assert_eq!(sent.take()[0].headers.get("outbox-fingerprint"), Some(own));
    /// # }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn fingerprints(mut self) -> Self {
        self.has_fingerprints = true;
        self
    }

    /// Allows to enqueue outside a transaction. Each such call is then a transaction of its own.
    ///
    /// By default such a call fails with [`EnqueueError::NotInTransaction`](crate::EnqueueError::NotInTransaction). It is nearly
    /// always a mistake, because the message does not commit or roll back together with business data. Allow it if messages are
    /// all that you write, as in a command-line tool.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] {
    /// # use diesel::prelude::*;
    /// # use diesel_migrations::MigrationHarness;
    /// use diesel_outbox::{EnqueueError, Message, Outbox, Topic};
    ///
    /// # let mut conn = SqliteConnection::establish(":memory:")?;
    /// # conn.run_pending_migrations(diesel_outbox::migrations::MIGRATIONS).unwrap();
    /// let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// let error = outbox.enqueue(&mut conn, &Message::to("orders")).unwrap_err();
    /// assert!(matches!(EnqueueError::of(&error), Some(EnqueueError::NotInTransaction { .. })));
    ///
    /// let outbox = Outbox::builder().topic(Topic::new("orders")).allow_outside_transaction().build()?;
    /// outbox.enqueue(&mut conn, &Message::to("orders"))?;
    /// # }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn allow_outside_transaction(mut self) -> Self {
        self.outside_transaction = true;
        self
    }

    /// For diesel-async connections behind pgbouncer in transaction mode, if it does not track prepared statements: before
    /// version 1.21, or without `max_prepared_statements`. The [pgbouncer guide](crate::guide::pgbouncer) lists what else such a
    /// connection needs.
    ///
    /// [`Outbox::transaction_async`] then sends COMMIT as plain text after the messages, which costs a round trip. By default it
    /// sends both together, with COMMIT as a prepared statement, and each would stay in a session of the server.
    pub fn transaction_pooling(mut self) -> Self {
        self.transaction_pooling = true;
        self
    }

    /// Refuses operations of [`Admin`](crate::admin::Admin) that cannot be recorded, because the migration `0000outbox06_audit` was
    /// not run. By default they are done, and the log says once that they are not recorded.
    ///
    /// ```
    /// use diesel_outbox::{Outbox, Topic};
    /// let outbox = Outbox::builder().topic(Topic::new("orders")).require_audit().keep_audit_days(400).build()?;
    /// # let _ = outbox;
    /// # Ok::<_, diesel_outbox::BuildError>(())
    /// ```
    pub fn require_audit(mut self) -> Self {
        self.audit.is_required = true;
        self
    }

    /// For how many days the audit of [`Admin`](crate::admin::Admin) is kept; older entries are removed by any relay. By default it
    /// is kept for ever.
    pub fn keep_audit_days(mut self, days: u32) -> Self {
        self.audit.days = Some(days);
        self
    }

    /// Builds the outbox.
    ///
    /// # Errors
    /// Returns all problems of the configuration at once.
    pub fn build(mut self) -> Result<Outbox, BuildError> {
        let problems = self.problems();
        if !problems.is_empty() {
            return Err(BuildError { problems });
        }
        self.topics.sort_by(|one, other| one.name().cmp(other.name()));
        let inner = Inner {
            topics: self.topics,
            messages: self.tables.messages(),
            tables: self.tables,
            outside_transaction: self.outside_transaction,
            transaction_pooling: self.transaction_pooling,
            registered: self.messages,
            audit: self.audit,
            interceptors: self.interceptors,
            has_fingerprints: self.has_fingerprints,
            link: Arc::default(),
            unsent: UnsentCheck::default(),
            recorder: OnceLock::new(),
        };
        Ok(Outbox { inner: Arc::new(inner) })
    }

    fn problems(&self) -> Vec<BuildProblem> {
        let mut problems = Vec::new();
        if self.topics.is_empty() && !self.is_without_topics {
            problems.push(BuildProblem::NoTopic);
        }
        let (mut known, mut twice) = (BTreeSet::new(), BTreeSet::new());
        for topic in &self.topics {
            if !known.insert(topic.name()) && twice.insert(topic.name()) {
                problems.push(BuildProblem::TopicTwice { topic: topic.name().to_owned() });
            }
            if let Err(problem) = topic.check() {
                problems.push(BuildProblem::Topic { topic: topic.name().to_owned(), problem: problem.to_string() });
            }
        }
        if let Some(days) = self.audit.days.filter(|days| !(1..=KEEP_DAYS_MAX).contains(days)) {
            problems.push(BuildProblem::AuditDays { days });
        }
        for message in &self.messages {
            if let Some(topic) = message.topic.filter(|topic| !known.contains(topic)) {
                problems.push(BuildProblem::TopicMissing { message: message.type_name, topic });
            }
            if let Err(error) = (message.check_codec)() {
                problems.push(BuildProblem::Codec { message: message.type_name, error });
            }
        }
        problems
    }
}

/// All problems of an outbox's configuration. From [`OutboxBuilder::build`].
///
/// ```
/// use diesel_outbox::{Outbox, Topic};
/// let error = Outbox::builder().topic(Topic::new("no spaces")).topic(Topic::new("a")).topic(Topic::new("a")).build();
/// assert_eq!(error.unwrap_err().problems().len(), 2);
/// ```
#[derive(Debug)]
pub struct BuildError {
    problems: Vec<BuildProblem>,
}

impl BuildError {
    /// The problems, at least one.
    pub fn problems(&self) -> &[BuildProblem] {
        &self.problems
    }
}

impl std::error::Error for BuildError {}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the outbox cannot be built: ")?;
        for (index, problem) in self.problems.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "; " })?;
            problem.fmt(f)?;
        }
        Ok(())
    }
}

/// One problem of an outbox's configuration, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildProblem {
    /// No topic is configured.
    #[error("no topic is configured: add one with `.topic(Topic::new(..))`")]
    NoTopic,
    /// A topic is configured more than once, perhaps with different settings.
    #[error("topic {topic:?} is configured more than once: keep one of them")]
    TopicTwice {
        /// Its name.
        topic: String,
    },
    /// A topic's name or one of its settings is not allowed.
    #[error("topic {topic:?}: {problem}")]
    Topic {
        /// Its name.
        topic: String,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// The audit is to be kept for no time, or for longer than ten years.
    #[error("keep_audit_days is {days}; give 1 to {KEEP_DAYS_MAX}, or leave it out to keep the audit")]
    AuditDays {
        /// The days.
        days: u32,
    },
    /// The topic of a registered message type is not configured.
    #[error(
        "message type `{message}` goes to topic {topic:?}, which is not configured: add `.topic(Topic::new({topic:?}))`"
    )]
    TopicMissing {
        /// The type.
        message: &'static str,
        /// Its topic.
        topic: &'static str,
    },
    /// The codec of a registered message type cannot encode yet.
    #[error("message type `{message}` cannot be encoded: {error}")]
    Codec {
        /// The type.
        message: &'static str,
        /// The codec's error.
        error: CodecError,
    },
}
