//! A connection that is closed if its call does not end.

use std::ops::{Deref, DerefMut};

use diesel_async::pooled_connection::deadpool::Object;

use super::super::Db;

/// A connection from the pool. If it is dropped before [`done`](Self::done), a call was dropped in the middle, and perhaps its transaction is
/// open. The pool would find that with the next request that gets it; until then its locks would stay.
pub(super) struct Lent(Option<Object<Db>>);

impl Lent {
    pub(super) fn new(conn: Object<Db>) -> Self {
        Self(Some(conn))
    }

    /// Gives the connection back.
    pub(super) fn done<T>(mut self, result: T) -> T {
        self.0 = None;
        result
    }
}

impl Deref for Lent {
    type Target = Db;

    fn deref(&self) -> &Db {
        self.0.as_ref().unwrap_or_else(|| unreachable!("it is there until it is given back"))
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Db {
        self.0.as_mut().unwrap_or_else(|| unreachable!("it is there until it is given back"))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(conn) = self.0.take() {
            drop(Object::take(conn));
        }
    }
}
