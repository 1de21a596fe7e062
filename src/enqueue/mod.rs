//! Writes messages: an event becomes a checked [`Encoded`](encode::Encoded) message, and then a row.
//!
//! There is one statement text per outbox, backend and number of rows. So the driver's statement cache keeps it, and an
//! enqueue is one round trip.

// Without a database feature no statement exists, and this code is unused.
#![cfg_attr(not(any(feature = "postgres", feature = "mysql", feature = "sqlite")), allow(unused))]

#[cfg(feature = "async")]
mod backend_async;
mod backend_sync;
pub(crate) mod encode;
mod error;
mod interceptor;
#[cfg(feature = "rocketmq")]
mod mark;
mod statement;

#[cfg(feature = "async")]
pub use backend_async::AsyncOutboxBackend;
pub use backend_sync::OutboxBackend;
pub use error::EnqueueError;
pub use interceptor::{EnqueueInterceptor, InterceptedMessage};
#[cfg(feature = "rocketmq")]
pub(crate) use mark::Mark;
#[cfg(feature = "mysql")]
pub(crate) use statement::mysql::{GUARD_BEGIN, GUARD_END};
#[cfg(feature = "postgres")]
pub(crate) use statement::postgres::walk_flag_check;
pub(crate) use statement::still_there::StillThere;
pub(crate) use statement::{
    Dialect, Inserted, Insertion, MYSQL_CHECKED_COMMIT, POSTGRES_CHECKED_COMMIT, next_statement_rows,
};
