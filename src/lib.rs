//! Transactional outbox for [Diesel](diesel): a message is published to Kafka, to RocketMQ or by HTTP if, and only if, the database
//! transaction that produced it committed.
//!
//! ```
//! use std::time::Duration;
//! use diesel::prelude::*;
//! use diesel::r2d2::{ConnectionManager, Pool};
//! use diesel_outbox::store::SqliteStore;
//! use diesel_outbox::transport::MemoryTransport;
//! use diesel_outbox::{Outbox, OutboxMessage, Topic};
//!
//! #[derive(serde::Serialize, OutboxMessage)]
//! #[outbox(topic = "orders", kind = "order.placed", key = order_id)]
//! struct OrderPlaced { order_id: i64, total_cents: i64 }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! # use diesel::connection::SimpleConnection;
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("shop.db").display().to_string();
//! # let mut conn = SqliteConnection::establish(&file)?;
//! # conn.batch_execute(diesel_outbox::store::SQLITE_SET_UP)?;
//! # conn.batch_execute("CREATE TABLE orders (id, total_cents)")?;
//! let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
//! outbox.migrate(&mut conn)?; // makes the outbox's tables
//! let pool = Pool::builder().max_size(2).build(ConnectionManager::<SqliteConnection>::new(file))?;
//! let broker = MemoryTransport::new(); // or KafkaTransport::new(KafkaConfig::new("localhost:9092"))?
//! let relay = outbox.relay().store(SqliteStore::new(pool)).transport(broker.clone()).start_blocking()?;
//!
//! conn.immediate_transaction(|conn| {
//!     diesel::sql_query("INSERT INTO orders VALUES (42, 1999)").execute(conn)?;
//!     outbox.enqueue(conn, &OrderPlaced { order_id: 42, total_cents: 1999 })
//! })?;
//!
//! let sent = broker.wait_for_delivered_blocking(1, Duration::from_secs(10))?;
//! assert_eq!(sent[0].key.as_deref(), Some("42"));
//! relay.shutdown(Duration::from_secs(10))?;
//! # Ok(())
//! # }
//! ```
//!
//! With diesel-async it is [`enqueue_async`](Outbox::enqueue_async) and, on tokio,
//! [`start().await`](relay::RelayBuilder::start). Nothing is to be set up on the application's pool.
//!
//! # Map
//!
//! | for | look at |
//! |---|---|
//! | events | [`OutboxMessage`](trait@OutboxMessage) and its [derive](derive@OutboxMessage), [`Message`] by hand, [`codec`], [`Headers`] |
//! | writing them | [`Outbox`], [`Batch`], [`EnqueueError`] |
//! | topics and their policies | [`Topic`], [`retry`] |
//! | an instrumentation of your own | [`CommitHook`] |
//! | the tables | [`Outbox::migrate`], [`migrations`], [`TableNames`] |
//! | the relay | [`relay`], [`Limits`], [`store`], [`transport`]; of several databases [`relay::Relays`] |
//! | what happens | [`metrics`], [`relay::RelayStatus`], [`relay::Backlog`], logs through `tracing` |
//! | looking after messages | [`admin::Admin`] |
//! | tests | [`TestOutbox`], [`transport::MemoryTransport`], [`store::MemoryStore`], [`testing`] |
//!
//! The [guides](guide) are those of the repository: [getting started](guide::getting_started),
//! [transports](guide::transports) with [Kafka](guide::kafka), [RocketMQ](guide::rocketmq) and [HTTP](guide::http),
//! [ordering](guide::ordering), [delayed messages](guide::delayed), [dead letters](guide::dead_letters),
//! [history](guide::history), [operations](guide::operations), [pgbouncer](guide::pgbouncer), [tuning](guide::tuning),
//! [testing your application](guide::testing_your_application), [guarantees](guide::guarantees),
//! [migrating](guide::migrating), [upgrading](guide::upgrading), [FAQ and errors](guide::faq),
//! [changelog](guide::changelog).
//!
//! # Guarantees
//!
//! - **Atomic**: rolled back means no row and no message.
//! - **No phantom**: a message whose row did not survive is never sent, as long as the database keeps what it commits.
//! - **At least once**: a committed message is delivered, or stands in the dead letters with its reason. Duplicates happen
//!   around a crash or a lost acknowledgement, and carry the same [`MessageId`].
//! - **Immediate** in the healthy case: the message leaves right after COMMIT.
//! - **An outage costs nothing but time**: nothing is written meanwhile, no attempt is spent, nothing is dead-lettered.
//!
//! The exact conditions: [guarantees](guide::guarantees).
//!
//! # Features
//!
//! | feature | for |
//! |---|---|
//! | `derive` (default) | `#[derive(OutboxMessage)]` |
//! | `postgres`, `mysql`, `sqlite` | the databases; the first two need no C library by themselves |
//! | `r2d2` | sync connections for the relay |
//! | `async` | diesel-async |
//! | `deadpool`, `bb8`, `mobc` | async connections for the relay, from one of these pools |
//! | `libpq` | notices between relays (ordered topics on PostgreSQL) over Diesel's sync connection; needs libpq |
//! | `kafka` | the Kafka transport |
//! | `kafka-ssl` | TLS and SASL for it; needs OpenSSL's headers to build |
//! | `rocketmq` | the RocketMQ transport; over two hundred crates more to build, no C library |
//! | `http` | the HTTP transport; TLS by rustls |
//! | `serde` | configuration types ([`Limits`], [`Topic`], [`transport`]s) in files |
//! | `testing` | the conformance suite for transports of your own |
//!
//! # What it is not for
//!
//! It reads no messages: it has no inbox for consumers. No transaction of it spans two databases, and there is no two-phase commit: a
//! message is in the database of its transaction, and a relay sends what is in one. [`Relays`](relay::Relays) runs a relay for each of
//! several databases, and each topic goes to one of several brokers by name ([`Topic::via`]). Messages of one key have an order where
//! their topic asks for it ([`Topic::ordered_by_key`]); topics and different keys have none. Exactly once is not to be had: consumers
//! recognise a second copy by its id.
#![forbid(unsafe_code)]
// The types of RocketMQ's client are nested deeper than the compiler looks by itself.
#![cfg_attr(feature = "rocketmq", recursion_limit = "256")]

pub mod admin;
pub mod clock;
pub mod codec;
#[cfg(not(feature = "_failpoints"))]
mod crash_points;
#[cfg(feature = "_failpoints")]
#[doc(hidden)]
pub mod crash_points;
#[cfg(feature = "serde")]
mod durations;
mod enqueue;
#[cfg(any(doc, doctest))]
pub mod guide;
mod hook;
#[cfg(not(feature = "_injected_bugs"))]
mod injected_bugs;
#[cfg(feature = "_injected_bugs")]
#[doc(hidden)]
pub mod injected_bugs;
#[cfg(feature = "_internals")]
#[doc(hidden)]
pub mod internals;
mod lane;
mod limits;
mod message;
pub mod metrics;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub mod migrations;
mod naming;
mod outbox;
mod panic_guard;
pub mod relay;
mod retention;
pub mod retry;
mod serialize;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod topic;
pub mod transport;

/// The attribute for an `impl` of [`Transport`](transport::Transport), from the crate of the same name.
pub use async_trait::async_trait;
pub use codec::CodecError;
#[cfg(feature = "derive")]
pub use diesel_outbox_derive::OutboxMessage;
#[cfg(feature = "rocketmq")]
#[cfg(feature = "async")]
pub use enqueue::AsyncMarkBackend;
#[cfg(feature = "async")]
pub use enqueue::AsyncOutboxBackend;
#[cfg(feature = "rocketmq")]
pub use enqueue::MarkBackend;
pub use enqueue::{EnqueueError, HeaderProblem, OutboxBackend};
pub use hook::CommitHook;
pub use lane::{NodeId, lane_of};
pub use limits::Limits;
pub use message::{Delayed, Delivery, Envelope, HeaderError, Headers, Message, MessageId, OutboxMessage};
pub use naming::{NameError, TableNames};
#[cfg(feature = "async")]
pub use outbox::{AsyncTransaction, TransactionConnection};
pub use outbox::{Batch, BuildError, BuildProblem, Outbox, OutboxBuilder, TestOutbox, Transaction};
#[cfg(feature = "_test")]
#[doc(hidden)]
pub use outbox::{CapturedRow, TestHook};
#[cfg(feature = "rocketmq")]
pub use outbox::{HalfMessage, HalfMessageError, HalfMessages, HalfMessagesError};
pub use topic::{OnFailedKey, Topic, TopicError};
