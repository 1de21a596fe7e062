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
