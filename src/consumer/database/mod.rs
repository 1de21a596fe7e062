//! A consumer's transactions: the claim or the offset, the handler, and COMMIT.

mod batch;
mod claim;
mod copies;
mod failure;
mod link;
#[cfg(any(feature = "deadpool", feature = "bb8", feature = "mobc"))]
mod link_async;
#[cfg(feature = "r2d2")]
mod link_sync;
mod lookups;
pub(crate) mod parked_statements;
#[cfg(all(feature = "postgres", any(feature = "deadpool", feature = "bb8", feature = "mobc")))]
mod pipeline;
mod replay;
mod rows;
mod statements;
mod transaction;

pub use self::claim::ConsumerBackend;
#[cfg(any(feature = "deadpool", feature = "bb8", feature = "mobc"))]
pub(crate) use self::link_async::async_workers;
#[cfg(any(feature = "deadpool", feature = "bb8", feature = "mobc"))]
pub(crate) use self::link_async::{BackendOf as AsyncBackendOf, ConnectionOf as AsyncConnectionOf};
#[cfg(feature = "r2d2")]
pub(crate) use self::link_sync::sync_workers;
#[cfg(any(feature = "deadpool", feature = "bb8", feature = "mobc"))]
pub use crate::store::pool::AsyncPool;
