use std::sync::Arc;

use super::Store;
use super::measured::Measured;
use crate::naming::TableNames;

/// A store: `PostgresStore`, `MysqlStore`, `SqliteStore`, each with its feature, or [`MemoryStore`](super::MemoryStore) in tests.
///
/// Sealed: no other crate can implement it or call its methods. A store for another database would also need its own enqueue,
/// which writes the rows that the store reads.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store of diesel-outbox",
    note = "use PostgresStore, MysqlStore or SqliteStore, each behind the feature of its database, or MemoryStore in tests"
)]
pub trait OutboxStore: Sealed {}

impl<S: Store> OutboxStore for S {}

/// Makes it the store of a relay. Generic code can call this supertrait's method, so it needs a `Token`, which only this crate can make.
#[diagnostic::on_unimplemented(message = "`{Self}` is not a store of diesel-outbox")]
pub trait Sealed: Sized {
    /// The store over the tables of these names.
    fn shared(self, names: &TableNames, token: Token) -> Arc<dyn Store>;
}

impl<S: Store> Sealed for S {
    fn shared(mut self, names: &TableNames, _: Token) -> Arc<dyn Store> {
        self.use_tables(names);
        Arc::new(Measured::new(self))
    }
}

/// Only this crate can make one.
#[derive(Debug)]
pub struct Token(());

/// The user's store, as the relay keeps it.
pub(crate) fn shared(store: impl OutboxStore, names: &TableNames) -> Arc<dyn Store> {
    store.shared(names, Token(()))
}
