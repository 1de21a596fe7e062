use diesel::connection::Connection;

use super::Inbox;
use crate::enqueue::OutboxBackend;
use crate::migrations::{EmbeddedMigrations, MigrateError, Migrations};
use crate::outbox::migrate::migrate;

/// Create the tables.
impl Inbox {
    /// Creates or upgrades the inbox's tables, and registers the consumer with its retention. Returns the names of the
    /// [migrations](crate::migrations) that it ran. It needs no outbox.
    ///
    /// Call it at each start of the application. Several processes may call it at once, as with
    /// [`Outbox::migrate`](crate::Outbox::migrate).
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] {
    /// # use diesel::prelude::*;
    /// use diesel_outbox::inbox::Inbox;
    ///
    /// let mut conn = SqliteConnection::establish(":memory:")?;
    /// let inbox = Inbox::builder("billing").build()?;
    /// assert_eq!(inbox.migrate(&mut conn)?, ["0000inbox01_entries"]);
    /// assert!(inbox.migrate(&mut conn)?.is_empty());
    /// # }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Outbox::migrate`](crate::Outbox::migrate).
    pub fn migrate<C>(&self, conn: &mut C) -> Result<Vec<String>, MigrateError>
    where
        C: Connection,
        C::Backend: OutboxBackend<C> + EmbeddedMigrations,
    {
        let ran = migrate(&Migrations::inbox(self.inner.tables.clone()), conn)?;
        self.register(conn)?;
        Ok(ran)
    }
}
