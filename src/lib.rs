//! A transactional outbox for [Diesel](diesel). It publishes a message to Kafka, RocketMQ or an HTTP endpoint if, and only if,
//! the database transaction that produced the message committed.
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
//! # conn.batch_execute(diesel_outbox::store::SQLITE_PRAGMAS)?;
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
//! With diesel-async, use [`enqueue_async`](Outbox::enqueue_async), and on tokio [`start().await`](relay::RelayBuilder::start).
//! The application's pool needs no set-up.
//!
//! # Sync and async
//!
//! - What works on a connection follows the connection. With the plain name it takes one of Diesel and is sync, as Diesel is
//!   ([`enqueue`](Outbox::enqueue)). With the suffix `_async` it takes one of diesel-async
//!   ([`enqueue_async`](Outbox::enqueue_async)).
//! - Everything else is async under the plain name, and runs on tokio ([`start`](relay::RelayBuilder::start),
//!   [`Admin`](admin::Admin)). With the suffix or prefix "blocking" it needs no runtime
//!   ([`start_blocking`](relay::RelayBuilder::start_blocking), [`BlockingAdmin`](admin::BlockingAdmin)).
//!
//! # Map
//!
//! | to | see |
//! |---|---|
//! | define events | [`OutboxMessage`](trait@OutboxMessage) and its [derive](derive@OutboxMessage), [`Message`] by hand, [`codec`], [`Headers`] |
//! | use Protobuf, Avro or CloudEvents; change an event's type | [schemas](guide::schemas) |
//! | enqueue them | [`Outbox`], [`Batch`], [`EnqueueError`] |
//! | configure topics | [`Topic`], [`retry`] |
//! | use your own instrumentation | [`CommitHook`] |
//! | wait for the delivery of a committed message | [`Outbox::enqueue_with_receipt`], [`receipts`] |
//! | create the tables | [`Outbox::migrate`], [`migrations`], [`TableNames`] |
//! | keep large payloads out of the database, with RocketMQ | [`half_messages`] |
//! | run a relay | [`relay`], [`Limits`], [`store`], [`transport`]; for several databases [`relay::Relays`] |
//! | add headers to every message | [`EnqueueInterceptor`]; OpenTelemetry traces: [tracing](guide::tracing) |
//! | monitor | [`metrics`], [`relay::RelayStatus`], [`relay::Backlog`], logs through `tracing` |
//! | cancel, redrive, pause, look up | [`admin::Admin`]; on a web page with the [dashboard](guide::dashboard) |
//! | handle each message once, in a consumer | [`inbox::Inbox`]; with the loop [`consumer::KafkaConsumer`], [`consumer::RocketMqConsumer`] |
//! | test | [`TestOutbox`], [`transport::MemoryTransport`], [`store::MemoryStore`], [`testing`] |
//!
//! The [guides](guide) are the pages of the repository: [getting started](guide::getting_started),
//! [transports](guide::transports) with [Kafka](guide::kafka), [RocketMQ](guide::rocketmq) and [HTTP](guide::http),
//! [ordering](guide::ordering), [exactly once](guide::exactly_once), [delayed messages](guide::delayed),
//! [dead letters](guide::dead_letters), [receipts](guide::receipts), [history](guide::history), [consumers](guide::consumers),
//! [inbox](guide::inbox), [schemas](guide::schemas), [Debezium](guide::cdc),
//! [operations](guide::operations), [log events](guide::events), [dashboard](guide::dashboard), [command line](guide::command_line),
//! [verify](guide::verify), [tracing](guide::tracing), [pgbouncer](guide::pgbouncer), [tuning](guide::tuning), [testing your
//! application](guide::testing_your_application), [guarantees](guide::guarantees), [migrating](guide::migrating),
//! [upgrading](guide::upgrading), [FAQ and errors](guide::faq), [changelog](guide::changelog).
//!
//! # Guarantees
//!
//! - **Atomic**: after a rollback there is no row and no message.
//! - **No phantom**: a message is never sent unless its row was committed, provided that the database keeps what it commits.
//! - **At least once**: a committed message stays until it is delivered or becomes a dead letter. A crash or a lost
//!   acknowledgement can cause duplicates. Every copy has the same [`MessageId`].
//! - **Immediate**: in a healthy system the message leaves right after COMMIT.
//! - **Outages cost only time**: while the broker is down, no attempt is spent, no message becomes a dead letter. With Kafka and
//!   RocketMQ nothing is written either.
//!
//! [Guarantees](guide::guarantees) lists every condition.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `derive` (default) | `#[derive(OutboxMessage)]` |
//! | `postgres`, `mysql`, `sqlite` | the databases; the first two need no C library by themselves |
//! | `r2d2` | sync connections for the relay |
//! | `async` | diesel-async |
//! | `deadpool`, `bb8`, `mobc` | async connections for the relay, from one of these pools |
//! | `libpq` | notices between relays (ordered topics on PostgreSQL) over Diesel's sync connection; needs libpq |
//! | `kafka` | the Kafka transport, and the [`consumer`] loop for Kafka |
//! | `kafka-ssl` | TLS and SASL for Kafka; needs OpenSSL's headers to build |
//! | `rocketmq` | the RocketMQ transport, and the consumer loop; over two hundred crates more to build, no C library |
//! | `http` | the HTTP transport; TLS by rustls |
//! | `serde` | configuration types ([`Limits`], [`Topic`], [`transport`]s) that can be read from files |
//! | `testing` | the conformance suites for your own transport or consumer |
//!
//! # What it is not for
//!
//! - One transaction over two databases: there is no two-phase commit. A message is in the database of its transaction, and a
//!   relay sends the messages of one database. [`Relays`](relay::Relays) runs a relay for each of several databases. Each topic
//!   can go to another broker ([`Topic::via`]).
//! - A total order: messages of one key have an order if their topic asks for it ([`Topic::ordered_by_key`]). Different keys and
//!   topics have none.
//! - Exactly once on the way to any broker: consumers recognise duplicates by the message id, with an [`inbox`]. On Kafka a topic can
//!   ask for it ([`Topic::exactly_once`]).
#![forbid(unsafe_code)]
// The types of RocketMQ's client are nested deeper than the compiler looks by itself.
#![cfg_attr(feature = "rocketmq", recursion_limit = "256")]

pub mod admin;
mod clock;
pub mod codec;
#[cfg(all(
    any(feature = "kafka", feature = "rocketmq"),
    any(feature = "postgres", feature = "mysql", feature = "sqlite"),
    any(feature = "r2d2", feature = "deadpool", feature = "bb8", feature = "mobc")
))]
pub mod consumer;
#[cfg(not(feature = "_failpoints"))]
mod crash_points;
#[cfg(feature = "_failpoints")]
#[doc(hidden)]
pub mod crash_points;
mod enqueue;
mod events;
#[cfg(any(doc, doctest))]
pub mod guide;
#[cfg(feature = "rocketmq")]
pub mod half_messages;
mod hook;
pub mod inbox;
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
pub mod receipts;
pub mod relay;
mod repeated;
mod retention;
pub mod retry;
mod serialize;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod topic;
pub mod transport;

/// Turns the `async fn` of your own [`Transport`](transport::Transport) into methods of the trait. Re-exported from the crate of
/// the same name.
pub use async_trait::async_trait;
pub use codec::error::CodecError;
#[cfg(feature = "async")]
pub use enqueue::AsyncOutboxBackend;
pub use enqueue::{EnqueueError, EnqueueInterceptor, InterceptedMessage, OutboxBackend};
pub use hook::CommitHook;
pub use lane::{NodeId, lane_of};
pub use limits::Limits;
#[cfg(feature = "derive")]
pub use message::derive::OutboxMessage;
pub use message::{Delayed, Delivery, Envelope, HeaderError, Headers, Message, MessageId, OutboxMessage};
pub use naming::{NameError, TableNames};
#[cfg(feature = "async")]
pub use outbox::{AsyncTransaction, TransactionConnection};
pub use outbox::{Batch, BuildError, BuildProblem, Outbox, OutboxBuilder, TestOutbox, Transaction};
#[cfg(feature = "_test")]
#[doc(hidden)]
pub use outbox::{CapturedRow, TestHook};
pub use topic::{OnFailedKey, Topic};
