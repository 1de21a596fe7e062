//! The statement of a claim, on each database: our own query fragments with fixed texts, which the drivers' caches keep.
//!
//! A duplicate is what the statement did not insert. No violation is caught, and no error's text is read: on PostgreSQL an error would
//! abort the transaction.

#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

/// Keys that are kept as bytes.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) fn uuids(bytes: Vec<Vec<u8>>) -> std::collections::HashSet<uuid::Uuid> {
    bytes.into_iter().filter_map(|bytes| uuid::Uuid::from_slice(&bytes).ok()).collect()
}
