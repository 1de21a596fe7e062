use std::future::Future;

use diesel_async::AsyncConnection;

use super::Inbox;
use crate::enqueue::AsyncOutboxBackend;
use crate::migrations::{EmbeddedMigrations, MigrateError, Migrations};
use crate::outbox::migrate_async::migrate_async;

impl Inbox {
    /// Like [`migrate`](Self::migrate), over a diesel-async connection.
    ///
    /// # Errors
    /// As for [`Outbox::migrate`](crate::Outbox::migrate).
    ///
    /// # Cancel safety
    /// As for [`Outbox::migrate_async`](crate::Outbox::migrate_async).
    #[expect(clippy::manual_async_fn, reason = "the signature says that the future is Send")]
    pub fn migrate_async<'a, C>(
        &'a self,
        conn: &'a mut C,
    ) -> impl Future<Output = Result<Vec<String>, MigrateError>> + Send + use<'a, C>
    where
        C: AsyncConnection,
        C::Backend: AsyncOutboxBackend<C> + EmbeddedMigrations,
    {
        async move {
            let ran = migrate_async(&Migrations::inbox(self.inner.tables.clone()), conn).await?;
            self.register_async(conn).await?;
            Ok(ran)
        }
    }
}
