//! Which messages were handled, without a claim.

use std::collections::HashSet;

use diesel::result::QueryResult;
use uuid::Uuid;

use super::{Inbox, InboxKey};
#[cfg(any(feature = "deadpool", feature = "bb8", feature = "mobc"))]
use crate::enqueue::AsyncOutboxBackend;
#[cfg(feature = "r2d2")]
use crate::enqueue::OutboxBackend;

impl Inbox {
    /// Which of these messages have entries that are committed. Their handlers have run, or they were refused. Of the others it says nothing.
    #[cfg(feature = "r2d2")]
    pub(crate) fn find<C>(&self, conn: &mut C, keys: &[InboxKey]) -> QueryResult<HashSet<Uuid>>
    where
        C: diesel::connection::Connection,
        C::Backend: OutboxBackend<C>,
    {
        C::Backend::find_keys(conn, self.claimed_keys(keys))
    }

    /// Like [`find`](Self::find), over a diesel-async connection.
    #[cfg(any(feature = "deadpool", feature = "bb8", feature = "mobc"))]
    pub(crate) async fn find_async<C>(&self, conn: &mut C, keys: &[InboxKey]) -> QueryResult<HashSet<Uuid>>
    where
        C: diesel_async::AsyncConnection,
        C::Backend: AsyncOutboxBackend<C>,
    {
        C::Backend::find_keys_async(conn, self.claimed_keys(keys)).await
    }
}
