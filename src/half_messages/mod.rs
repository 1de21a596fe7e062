//! Half messages: another way to tie a RocketMQ message to a transaction.
//!
//! The broker stores the message first and hides it. The transaction then begins with a row that has the message's id, the mark.
//! When the transaction is over, the outbox checks whether the mark was committed, and tells the broker to deliver or drop the
//! message. If the broker is told nothing, it asks, and the same table has the answer.

mod error;
mod message;
mod resolver;
mod shared;

pub use error::HalfMessageError;
pub use message::HalfMessage;

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use self::resolver::{Failures, Worker};
use self::shared::Inner;
use crate::clock::system_now;
use crate::message::OutboxMessage;
use crate::outbox::Outbox;
use crate::repeated::Repeated;
use crate::store::{OutboxStore, StoreError, shared};
use crate::transport::{HalfProducer, InFlightCounter, RocketMqConfig};

/// Sends half messages, and answers brokers that ask about them. From [`Outbox::half_messages`].
///
/// A cheap handle: clones share everything. Keep one as long as the process lives. A broker asks any process of the
/// group, so each one answers for the half messages of all others, also of those that died.
///
/// **When to use it.** If payloads are too large or too many for the database: of a half message it stores only the id.
/// Otherwise, enqueue. A half message costs one request to the broker before the transaction and another one after it, and while
/// the broker is down no such transaction can run. The [RocketMQ guide](crate::guide::rocketmq) compares both.
///
/// ```no_run
/// # #[cfg(all(feature = "postgres", feature = "r2d2"))] {
/// use std::time::Duration;
/// use diesel::prelude::*;
/// use diesel::r2d2::{ConnectionManager, Pool};
/// use diesel_outbox::store::PostgresStore;
/// use diesel_outbox::transport::RocketMqConfig;
/// use diesel_outbox::{Message, Outbox, Topic};
///
/// let pool = Pool::builder().build(ConnectionManager::<PgConnection>::new("postgres://localhost/shop"))?;
/// let outbox = Outbox::builder().topic(Topic::new("scans")).build()?;
/// let config = RocketMqConfig::new("127.0.0.1:9876").group("shop");
/// let halves = outbox.half_messages_blocking(PostgresStore::new(pool.clone()), config)?;
///
/// let mut conn = pool.get()?;
/// let half = halves.send_blocking(&Message::to("scans").key("42").payload_bytes(vec![0; 3 << 20]))?;
/// conn.transaction(|conn| {
///     half.mark(conn)?;
///     diesel::sql_query("INSERT INTO scans VALUES (42)").execute(conn)
/// })?;
/// drop(half); // the transaction is over: the broker is told in the background
/// halves.flush_blocking(Duration::from_secs(5));
/// # }
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct HalfMessages {
    inner: Arc<Inner>,
}

impl Outbox {
    /// Starts a sender of half messages to RocketMQ. It also answers the broker about half messages of every process that uses
    /// the same database, group and topics.
    ///
    /// The group is that of `config` with the suffix `-half`. **Outboxes of different databases need different
    /// groups**: a broker asks any process of a group, and one with another database finds no mark.
    ///
    /// Runs on its own threads. The migration `0000outbox03_half_messages` creates the table.
    ///
    /// # Errors
    /// Returns an error if the store does not support marks, its table is missing, or the store cannot be reached; or
    /// for a setting that cannot work. An unreachable cluster is no error.
    ///
    /// # Cancel safety
    /// A dropped future stops what it has started.
    pub async fn half_messages(
        &self,
        store: impl OutboxStore,
        config: RocketMqConfig,
    ) -> Result<HalfMessages, HalfMessageError> {
        let (halves, checked) = HalfMessages::begin(self, store, config)?;
        checked.await.map_err(|_ended| HalfMessageError::ended_at_start())??;
        Ok(halves)
    }

    /// Like [`half_messages`](Self::half_messages), for applications without tokio.
    ///
    /// # Errors
    /// As for [`half_messages`](Self::half_messages).
    pub fn half_messages_blocking(
        &self,
        store: impl OutboxStore,
        config: RocketMqConfig,
    ) -> Result<HalfMessages, HalfMessageError> {
        let (halves, checked) = HalfMessages::begin(self, store, config)?;
        halves
            .block_on(checked)
            .ok_or_else(HalfMessageError::ended_at_start)?
            .map_err(|_ended| HalfMessageError::ended_at_start())??;
        Ok(halves)
    }
}

/// The result of the check of the store's table.
type Checked = tokio::sync::oneshot::Receiver<Result<(), StoreError>>;

impl HalfMessages {
    fn begin(
        outbox: &Outbox,
        store: impl OutboxStore,
        config: RocketMqConfig,
    ) -> Result<(Self, Checked), HalfMessageError> {
        let store = shared(store, outbox.tables());
        if store.halves().is_none() {
            return Err(HalfMessageError::NoMarks);
        }
        let topics: Vec<_> = outbox.topics().iter().map(crate::topic::Topic::shared_name).collect();
        let checked_store = Arc::clone(&store);
        let failures = Arc::new(Repeated::default());
        let check = Arc::new(move |request| {
            let (store, failures) = (Arc::clone(&checked_store), Arc::clone(&failures));
            Box::pin(async move { resolver::check(&*store, request, &failures).await })
                as futures_util::future::BoxFuture<'static, _>
        });
        let broker = Arc::new(HalfProducer::start(config, &topics, check)?);
        let (ended, jobs) = resolver::channel();
        let runtime = broker.runtime().clone();
        // Neither task holds what ends it: the sender, and with it the runtime.
        let weak_broker: Weak<HalfProducer> = Arc::downgrade(&broker);
        let worker = Worker { store: Arc::clone(&store), broker: weak_broker, failures: Failures::default() };
        runtime.spawn(worker.run(jobs));
        runtime.spawn(resolver::prune(Arc::clone(&store), ended.downgrade()));
        let (sender, checked) = tokio::sync::oneshot::channel();
        runtime.spawn(async move {
            let Some(marks) = store.halves() else { return };
            // The receiver is gone only if the caller gave up.
            let _ = sender.send(marks.check_marks().await);
        });
        let table = outbox.tables().half_messages();
        let inner = Inner { outbox: outbox.clone(), table, broker, ended, open: InFlightCounter::new() };
        Ok((Self { inner: Arc::new(inner) }, checked))
    }

    /// Gives the broker a message that stays hidden until its transaction has committed. Call it before the
    /// transaction, so that nothing in the database is locked meanwhile.
    ///
    /// # Errors
    /// Returns an error if the message is refused, or if the broker did not store it: then there is nothing to undo. If
    /// [`HalfMessageError::is_retriable`] is true, it may be sent again.
    ///
    /// # Cancel safety
    /// A message sent by a dropped future has no mark, so the broker drops it.
    pub async fn send<M: OutboxMessage + ?Sized>(&self, event: &M) -> Result<HalfMessage, HalfMessageError> {
        let sending = self.sending(event)?;
        sending.await.map_err(|_ended| HalfMessageError::ended())?
    }

    /// Like [`send`](Self::send), for applications without tokio.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn send_blocking<M: OutboxMessage + ?Sized>(&self, event: &M) -> Result<HalfMessage, HalfMessageError> {
        let sending = self.sending(event)?;
        let sent = self.block_on(sending).ok_or_else(HalfMessageError::ended)?;
        sent.map_err(|_ended| HalfMessageError::ended())?
    }

    /// Waits until the brokers know the outcome of every half message whose transaction is over, and its mark is
    /// removed, at most `within`. Returns how many are left. The brokers ask about those later.
    ///
    /// It does not wait for half messages whose report failed, because the broker or the database did not answer: the
    /// broker's question and the removal of old marks do not need this process.
    ///
    /// # Cancel safety
    /// Cancelling only stops the wait.
    pub async fn flush(&self, within: Duration) -> usize {
        let open = self.inner.open.clone();
        let flushed = self.inner.broker.runtime().spawn(async move { open.wait_until_none(within).await }).await;
        flushed.unwrap_or_else(|_ended| self.inner.open.count())
    }

    /// Like [`flush`](Self::flush), for applications without tokio.
    pub fn flush_blocking(&self, within: Duration) -> usize {
        let open = self.inner.open.clone();
        self.block_on(async move { open.wait_until_none(within).await }).unwrap_or_else(|| self.inner.open.count())
    }

    fn sending<M: OutboxMessage + ?Sized>(
        &self,
        event: &M,
    ) -> Result<tokio::task::JoinHandle<Result<HalfMessage, HalfMessageError>>, HalfMessageError> {
        let encoded = self.inner.outbox.encode_checked(event)?;
        let (halves, message_id, topic) = (self.clone(), encoded.message_id, Arc::clone(&encoded.topic));
        let envelope = encoded.into_envelope(system_now());
        Ok(self.inner.broker.runtime().spawn(async move {
            let sent = halves.inner.broker.send(envelope).await.map_err(HalfMessageError::Broker)?;
            Ok(HalfMessage::new(halves.inner, message_id, topic, sent))
        }))
    }

    /// Blocks on a channel, not on the runtime: that would panic on a thread of another runtime.
    fn block_on<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        self.inner.broker.runtime().spawn(async move {
            // The receiver is gone only if this thread is.
            let _ = sender.send(future.await);
        });
        receiver.recv().ok()
    }
}

impl fmt::Debug for HalfMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HalfMessages")
            .field("table", &self.inner.table)
            .field("broker", &self.inner.broker)
            .field("open", &self.inner.open.count())
            .finish_non_exhaustive()
    }
}
