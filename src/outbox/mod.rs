//! The application's handle: it enqueues messages and starts a relay.

mod batch;
mod builder;
#[cfg(feature = "async")]
pub(crate) mod commit_async;
#[cfg(feature = "async")]
mod enqueue_async;
mod enqueue_sync;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) mod migrate;
#[cfg(all(feature = "async", any(feature = "postgres", feature = "mysql", feature = "sqlite")))]
pub(crate) mod migrate_async;
#[cfg(all(feature = "async", any(feature = "postgres", feature = "mysql", feature = "sqlite")))]
mod migrate_revert_async;
mod pending_commit;
pub(crate) mod probe;
mod relay;
#[cfg(feature = "_test")]
mod test_hook;
mod testing;
pub(crate) mod transaction;
mod unsent;
mod unsent_check;
pub(crate) mod write;

pub use batch::Batch;
pub use builder::{BuildError, BuildProblem, OutboxBuilder};
#[cfg(feature = "_test")]
#[doc(hidden)]
pub use test_hook::{CapturedRow, TestHook};
pub use testing::TestOutbox;
pub use transaction::Transaction;
#[cfg(feature = "async")]
pub use transaction::{AsyncTransaction, TransactionConnection};

use std::fmt;
use std::sync::{Arc, OnceLock};

use self::unsent::UnsentCheck;
use crate::codec::CodecError;
use crate::enqueue::EnqueueInterceptor;
use crate::hook::{CommitHook, TestRecorder};
use crate::naming::TableNames;
use crate::relay::direct::queue::Link;
use crate::relay::fingerprints::KnownShapes;
use crate::retention::AuditPolicy;
use crate::topic::Topic;

/// Enqueues messages: writes each as a row in your own transaction.
///
/// Cheap to clone: clones share everything. Make one per process, and keep it next to the connection pool.
///
/// ```
/// # #[cfg(feature = "sqlite")] {
/// use diesel::prelude::*;
/// use diesel_outbox::{Message, Outbox, Topic};
///
/// # let mut conn = SqliteConnection::establish(":memory:")?;
/// let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
/// outbox.migrate(&mut conn)?;
///
/// conn.transaction(|conn| {
///     // .. the business data, and with it:
///     outbox.enqueue(conn, &Message::to("orders").key("42").payload_bytes("placed"))
/// })?;
/// # }
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Outbox {
    inner: Arc<Inner>,
}

struct Inner {
    /// Sorted by name.
    topics: Vec<Topic>,
    tables: TableNames,
    /// The table of messages, as it stands in every statement.
    messages: String,
    /// Whether messages may be enqueued outside a transaction.
    outside_transaction: bool,
    /// Whether a prepared COMMIT would be left behind.
    #[cfg_attr(
        not(all(feature = "async", feature = "postgres")),
        expect(dead_code, reason = "nothing is prepared there")
    )]
    transaction_pooling: bool,
    registered: Vec<RegisteredType>,
    audit: AuditPolicy,
    interceptors: Vec<Arc<dyn EnqueueInterceptor>>,
    /// Whether the fingerprints of events are sent.
    has_fingerprints: bool,
    link: Arc<Link>,
    unsent: UnsentCheck,
    /// Set once by an application's test.
    recorder: OnceLock<Arc<TestRecorder>>,
}

/// A registered message type.
#[derive(Debug, Clone, Copy)]
struct RegisteredType {
    type_name: &'static str,
    /// Where it is fixed.
    topic: Option<&'static str>,
    kinds: &'static [&'static str],
    fingerprints: &'static [&'static str],
    payload_text: fn(&[u8]) -> Result<String, CodecError>,
    check_codec: fn() -> Result<(), CodecError>,
}

impl Outbox {
    /// A commit hook to chain with your own instrumentation: `conn.set_instrumentation(outbox.commit_hook().chain(mine))`. A
    /// connection without your own instrumentation needs no call: the first enqueue installs the hook.
    ///
    /// Install it once per connection of a pool: with r2d2 in `CustomizeConnection::on_acquire`, with diesel-async's pools
    /// (deadpool, bb8, mobc) in `ManagerConfig::custom_setup`. One hook serves every outbox that writes through the connection.
    ///
    /// ```
    /// # #[cfg(all(feature = "postgres", feature = "deadpool"))] {
    /// use diesel::connection::InstrumentationEvent;
    /// use diesel_async::pooled_connection::ManagerConfig;
    /// use diesel_async::{AsyncConnection, AsyncPgConnection};
    /// # let outbox = diesel_outbox::Outbox::builder().topic(diesel_outbox::Topic::new("orders")).build()?;
    ///
    /// let mut config = ManagerConfig::<AsyncPgConnection>::default();
    /// config.custom_setup = Box::new(move |url| {
    ///     let (url, outbox) = (url.to_owned(), outbox.clone());
    ///     Box::pin(async move {
    ///         let mut conn = AsyncPgConnection::establish(&url).await?;
    ///         let mine = |event: InstrumentationEvent<'_>| println!("{event:?}");
    ///         conn.set_instrumentation(outbox.commit_hook().chain(mine));
    ///         Ok(conn)
    ///     })
    /// });
    /// # }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn commit_hook(&self) -> CommitHook {
        CommitHook::new()
    }

    /// The configured topics, sorted by name.
    pub fn topics(&self) -> &[Topic] {
        &self.inner.topics
    }

    /// The names of the outbox's tables.
    pub fn tables(&self) -> &TableNames {
        &self.inner.tables
    }

    /// A payload as text, by the type that was registered for its topic and kind; `None` where none was.
    pub(crate) fn payload_text(&self, topic: &str, kind: &str, payload: &[u8]) -> Option<Result<String, CodecError>> {
        let of_kind = |of: &&RegisteredType| of.kinds.contains(&kind) && of.topic.is_none_or(|own| own == topic);
        // A type that names the topic knows better than one that may go to any.
        let registered = self.inner.registered.iter().filter(of_kind).max_by_key(|of| of.topic.is_some())?;
        Some((registered.payload_text)(payload))
    }

    /// The shapes of the registered types.
    fn known_shapes(&self) -> Vec<KnownShapes> {
        let shapes =
            |of: &RegisteredType| KnownShapes { topic: of.topic, kinds: of.kinds, fingerprints: of.fingerprints };
        self.inner.registered.iter().map(shapes).collect()
    }

    pub(crate) fn audit_policy(&self) -> AuditPolicy {
        self.inner.audit
    }

    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.inner.link
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topics: Vec<&str> = self.topics().iter().map(Topic::name).collect();
        f.debug_struct("Outbox")
            .field("topics", &topics)
            .field("messages", &self.inner.messages)
            .finish_non_exhaustive()
    }
}
