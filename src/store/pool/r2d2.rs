//! Sync connections from r2d2.

use std::fmt;
use std::time::Duration;

use diesel::connection::{Connection, LoadConnection, TransactionManager};
use diesel::r2d2::{ConnectionManager, Pool, PooledConnection, R2D2Connection};
use tokio::task::spawn_blocking;

use super::blocking::{Blocking, Holder};
use super::sealed::Sealed;
use super::{ConnectionPool, OpenError};
use crate::limits::R2D2_TIMEOUT_PERCENT;
use crate::store::sql::dialect::Dialect;

impl<C: R2D2Connection + Send + 'static> Sealed for Pool<ConnectionManager<C>> {}

impl<DB, C> ConnectionPool<DB> for Pool<ConnectionManager<C>>
where
    DB: Dialect,
    C: R2D2Connection + Connection<Backend = DB> + LoadConnection + Send + 'static,
{
    type Session = Blocking<Taken<C>>;

    async fn open(&self, within: Duration) -> Result<Self::Session, OpenError> {
        let pool = self.clone();
        let within = within * R2D2_TIMEOUT_PERCENT / 100;
        let connection = spawn_blocking(move || pool.get_timeout(within)).await??;
        Ok(Blocking::new(Taken(connection)))
    }

    fn size_max(&self) -> Option<usize> {
        usize::try_from(self.max_size()).ok()
    }

    fn in_use(&self) -> Option<usize> {
        let state = self.state();
        usize::try_from(state.connections.saturating_sub(state.idle_connections)).ok()
    }
}

/// A connection that never returns to the pool, wherever it is dropped, even as the result of an abandoned call.
pub struct Taken<C: R2D2Connection + Send + 'static>(PooledConnection<ConnectionManager<C>>);

impl<C: R2D2Connection + Send + 'static> fmt::Debug for Taken<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Taken").finish_non_exhaustive()
    }
}

impl<C: R2D2Connection + LoadConnection + Send + 'static> Holder for Taken<C> {
    type Connection = C;

    fn connection(&mut self) -> &mut C {
        &mut self.0
    }
}

impl<C: R2D2Connection + Send + 'static> Drop for Taken<C> {
    fn drop(&mut self) {
        // r2d2 cannot remove a connection, but closes one that is marked as broken.
        C::TransactionManager::transaction_manager_status_mut(&mut *self.0).set_in_error();
    }
}
