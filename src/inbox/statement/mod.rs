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

/// Makes queries of texts with names of tables, which no type stands for. What returns nothing has no type.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
macro_rules! queries {
    ($($query:ident $(-> $sql_type:ty)?),+) => {$(
        impl diesel::query_builder::QueryId for $query<'_> {
            type QueryId = ();
            const HAS_STATIC_QUERY_ID: bool = false;
        }

        impl<C> diesel::RunQueryDsl<C> for $query<'_> {}

        $(impl diesel::query_builder::Query for $query<'_> {
            type SqlType = $sql_type;
        })?
    )+};
}
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use queries;
