//! Transactional outbox for [Diesel](diesel): a message is published to Kafka if, and only if, the database transaction that
//! produced it committed.
//!
//! # Map
//!
//! | for | look at |
//! |---|---|
//! | events | [`OutboxMessage`](trait@OutboxMessage) and its [derive](derive@OutboxMessage), [`Message`] by hand, [`codec`], [`Headers`] |
//! | enqueueing | [`Outbox`], [`EnqueueError`] |
//! | topics and their policies | [`Topic`], [`retry`] |
//! | the tables | [`migrations`], [`TableNames`] |
//! | the relay | [`relay`], [`Limits`], [`store`], [`transport`] |
//! | what happens | [`metrics`], [`relay::RelayStatus`], logs through `tracing` |
//! | tests | [`transport::MemoryTransport`], [`store::MemoryStore`], `testing` |
//!
//! The [guides](guide) are those of the repository: [architecture](guide::architecture), [guarantees](guide::guarantees),
//! [design](guide::design), [operations](guide::operations), [testing](guide::testing), [glossary](guide::glossary).
//!
//! # Guarantees
//!
//! - **Atomic**: rolled back means no row and no message.
//! - **No phantom**: a message whose row did not survive is never sent, as long as the database keeps what it commits.
//! - **At least once**: a committed message is delivered, or stands in the dead letters with its reason. Duplicates happen
//!   around a crash or a lost acknowledgement, and carry the same [`MessageId`].
//! - **Immediate** in the healthy case: the message leaves right after COMMIT.
//! - **An outage costs nothing but time**: nothing is written meanwhile, no attempt is spent, no message dies.
//!
//! The exact conditions, and the tests that show them: [guarantees](guide::guarantees).
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
//! | `kafka` | the Kafka transport |
//! | `kafka-ssl` | TLS and SASL for it; needs OpenSSL's headers to build |
//! | `testing` | conformance suites for stores and transports of your own |
//!
//! # What it is not for
//!
//! It promises no order of messages, delays none, and reads none: it has no inbox for consumers. It spans one database and
//! one broker, without two-phase commit. Exactly once is not to be had: consumers recognise a second copy by its id.
#![forbid(unsafe_code)]

pub mod clock;
pub mod codec;
#[cfg(not(feature = "_failpoints"))]
mod crash_points;
#[cfg(feature = "_failpoints")]
#[doc(hidden)]
pub mod crash_points;
mod enqueue;
#[cfg(any(doc, doctest))]
pub mod guide;
mod hook;
pub mod limits;
mod message;
pub mod metrics;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub mod migrations;
mod naming;
mod outbox;
pub mod relay;
pub mod retry;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod topic;
pub mod transport;

pub use codec::CodecError;
#[cfg(feature = "derive")]
pub use diesel_outbox_derive::OutboxMessage;
#[cfg(feature = "async")]
pub use enqueue::AsyncOutboxBackend;
pub use enqueue::{EnqueueError, HeaderProblem, OutboxBackend};
pub use hook::CommitHook;
pub use limits::Limits;
pub use message::{Envelope, HeaderError, Headers, Message, MessageId, OutboxMessage};
pub use naming::{NameError, TableNames};
pub use outbox::{BuildError, BuildProblem, Outbox, OutboxBuilder};
#[cfg(feature = "_test")]
#[doc(hidden)]
pub use outbox::{Tap, Tapped};
pub use topic::{Topic, TopicError};
