//! `outbox.transaction`: messages are kept until the closure has ended, and written by the last statement before COMMIT.
//!
//! On PostgreSQL that INSERT proves its own COMMIT: it fails in an aborted transaction. So the rows are handed to the relay
//! as they are, without the read that follows a commit hook; and with diesel-async the INSERT and the COMMIT travel
//! together, which spares a round trip.

mod begin;
#[cfg(feature = "async")]
mod begin_async;
mod buffered;
#[cfg(feature = "async")]
mod connection_async;
mod connection_sync;
#[cfg(feature = "async")]
mod inner_connection;
#[cfg(all(feature = "async", feature = "postgres"))]
mod pipeline;
#[cfg(feature = "async")]
mod run_async;
mod run_sync;

#[cfg(feature = "async")]
pub use connection_async::AsyncTransaction;
pub use connection_sync::Transaction;
#[cfg(feature = "async")]
pub use inner_connection::TransactionConnection;
