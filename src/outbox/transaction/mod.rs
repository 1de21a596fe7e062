//! `outbox.transaction`: messages are kept until the closure has ended, and written by the last statement before COMMIT.
//!
//! On PostgreSQL that INSERT proves its own COMMIT: it fails in an aborted transaction. So the rows are handed to the relay
//! as they are, without the read that follows a commit hook; and with diesel-async the INSERT and the COMMIT travel
//! together, which spares a round trip.

#[cfg(feature = "async")]
mod bare;
mod begin;
#[cfg(feature = "async")]
mod begin_async;
#[cfg(feature = "async")]
mod connection_async;
mod connection_sync;
#[cfg(all(feature = "async", feature = "postgres"))]
mod pipeline;
#[cfg(feature = "async")]
mod run_async;
mod run_sync;
mod unwritten;

#[cfg(feature = "async")]
pub use bare::TransactionConnection;
#[cfg(feature = "async")]
pub use connection_async::AsyncTransaction;
pub use connection_sync::Transaction;
