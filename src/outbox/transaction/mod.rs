//! `outbox.transaction`: messages are kept until the closure has ended, and the last statement before COMMIT writes
//! them.
//!
//! On PostgreSQL the success of that INSERT verifies the COMMIT, because it fails in an aborted transaction. So the
//! rows go to the relay inline, without the read that follows a commit hook. With diesel-async, INSERT and COMMIT are
//! sent together, which saves a round trip.

mod begin;
#[cfg(feature = "async")]
mod begin_async;
#[cfg(all(feature = "async", feature = "postgres"))]
mod begin_together;
mod buffered;
pub(crate) mod checked_commit;
#[cfg(feature = "async")]
mod checked_commit_async;
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

#[cfg(all(feature = "async", feature = "postgres"))]
pub(crate) use begin_together::BeginTogether;
pub(crate) use checked_commit::{CommitError, begin_checked, commit_checked};
#[cfg(feature = "async")]
pub(crate) use checked_commit_async::{begin_checked_async, commit_checked_async};
#[cfg(feature = "async")]
pub use connection_async::AsyncTransaction;
pub use connection_sync::Transaction;
#[cfg(feature = "async")]
pub use inner_connection::TransactionConnection;
#[cfg(feature = "async")]
pub(crate) use run_async::AsyncFunc;
