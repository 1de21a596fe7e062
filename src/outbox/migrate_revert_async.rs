//! Which migrations have run, and taking them back, over a diesel-async connection.

use std::future::Future;

use diesel_async::{AsyncConnection, TransactionManager};

use super::Outbox;
use super::commit_async::commit_async;
use super::migrate::{RAN, begin_with, check_begun, unnoted};
use super::write::error_after_rollback;
use crate::enqueue::AsyncOutboxBackend;
use crate::hook::AsyncConn;
use crate::migrations::{EmbeddedMigrations, MigrateError, MigrationScript, Migrations};

/// Migrations that have run.
impl Outbox {
    /// The names of the outbox's [migrations](crate::migrations) that have run on this database, in their order. Changes nothing.
    ///
    /// An application that copied their SQL into its own migrations has run none of these: [`Admin::check_tables`] looks at the tables.
    ///
    /// # Errors
    /// Returns the database's error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    ///
    /// [`Admin::check_tables`]: crate::admin::Admin::check_tables
    #[expect(clippy::manual_async_fn, reason = "the signature says that the future is Send")]
    pub fn ran_migrations_async<'a, C>(
        &'a self,
        conn: &'a mut C,
    ) -> impl Future<Output = Result<Vec<String>, MigrateError>> + Send + use<'a, C>
    where
        C: AsyncConnection,
        C::Backend: AsyncOutboxBackend<C> + EmbeddedMigrations,
    {
        async move { Ok(self.ran_scripts_async(conn).await?.into_iter().map(|script| script.name).collect()) }
    }

    /// Reverts the last `count` of the outbox's migrations that have run: **drops their tables with all that is in them**. Returns their
    /// names, the last one first. On PostgreSQL and SQLite all of them are reverted in one transaction.
    ///
    /// Stop what enqueues and relays first. Over a connection of Diesel, use `MigrationHarness::revert_migration`.
    ///
    /// ```
    /// # #[cfg(feature = "postgres")] {
    /// use diesel_async::{AsyncConnection, AsyncPgConnection};
    /// use diesel_outbox::Outbox;
    ///
    /// async fn remove_the_audit(outbox: &Outbox) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    ///     let mut conn = AsyncPgConnection::establish("postgres://localhost/shop").await?;
    ///     assert_eq!(outbox.revert_migrations_async(&mut conn, 1).await?, ["0000outbox06_audit"]);
    ///     Ok(())
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the database's error with the name of the migration, or [`MigrateError::InTransaction`] as
    /// [`migrate_async`](Self::migrate_async) does.
    ///
    /// # Cancel safety
    /// As for [`migrate_async`](Self::migrate_async): discard the connection.
    #[expect(clippy::manual_async_fn, reason = "the signature says that the future is Send")]
    pub fn revert_migrations_async<'a, C>(
        &'a self,
        conn: &'a mut C,
        count: usize,
    ) -> impl Future<Output = Result<Vec<String>, MigrateError>> + Send + use<'a, C>
    where
        C: AsyncConnection,
        C::Backend: AsyncOutboxBackend<C> + EmbeddedMigrations,
    {
        async move {
            let is_outermost = check_begun::<C::Backend>(&mut AsyncConn(conn))?;
            if !<C::Backend as EmbeddedMigrations>::STEPS.in_transaction {
                return self.revert_scripts_async(conn, count).await;
            }
            C::TransactionManager::begin_transaction(conn).await?;
            match self.revert_first_async(conn, is_outermost, count).await {
                Ok(names) => {
                    commit_async(conn).await?;
                    Ok(names)
                }
                Err(error) => Err(error_after_rollback(error, C::TransactionManager::rollback_transaction(conn).await)),
            }
        }
    }

    async fn revert_first_async<C>(
        &self,
        conn: &mut C,
        is_outermost: bool,
        count: usize,
    ) -> Result<Vec<String>, MigrateError>
    where
        C: AsyncConnection,
        C::Backend: AsyncOutboxBackend<C> + EmbeddedMigrations,
    {
        if self.ran_scripts_async(conn).await?.is_empty() {
            return Ok(Vec::new());
        }
        for sql in begin_with::<C::Backend>(is_outermost) {
            conn.batch_execute(sql).await?;
        }
        self.revert_scripts_async(conn, count).await
    }

    async fn revert_scripts_async<C>(&self, conn: &mut C, count: usize) -> Result<Vec<String>, MigrateError>
    where
        C: AsyncConnection,
        C::Backend: AsyncOutboxBackend<C> + EmbeddedMigrations,
    {
        let mut names = Vec::new();
        for script in self.ran_scripts_async(conn).await?.into_iter().rev().take(count) {
            let mut done = conn.batch_execute(&script.down).await;
            if done.is_ok() {
                done = conn.batch_execute(&unnoted(&script)).await;
            }
            done.map_err(|error| MigrateError::Failed { migration: script.name.clone(), error })?;
            names.push(script.name);
        }
        Ok(names)
    }

    async fn ran_scripts_async<C>(&self, conn: &mut C) -> Result<Vec<MigrationScript>, MigrateError>
    where
        C: AsyncConnection,
        C::Backend: AsyncOutboxBackend<C> + EmbeddedMigrations,
    {
        let recorded = <C::Backend as EmbeddedMigrations>::STEPS.recorded;
        if C::Backend::texts_async(conn, recorded).await?.is_empty() {
            return Ok(Vec::new());
        }
        let ran = C::Backend::texts_async(conn, RAN).await?;
        let scripts = Migrations::new(self.tables().clone()).scripts::<C::Backend>();
        Ok(scripts.into_iter().filter(|script| ran.contains(&script.version)).collect())
    }
}
