use std::future::Future;

use diesel_async::{AsyncConnection, TransactionManager};

use super::Outbox;
use super::commit_async::commit_async;
use super::migrate::{RAN, begin_with, check_begun, check_locked, missing_scripts, noted};
use super::write::error_after_rollback;
use crate::enqueue::AsyncOutboxBackend;
use crate::hook::AsyncConn;
use crate::migrations::{EmbeddedMigrations, MigrateError, Migrations};

impl Outbox {
    /// Like [`migrate`](Self::migrate), over a diesel-async connection. It blocks no thread, so it works on every tokio runtime.
    ///
    /// ```
    /// # #[cfg(feature = "postgres")] {
    /// use diesel_async::{AsyncConnection, AsyncPgConnection};
    /// use diesel_outbox::Outbox;
    ///
    /// async fn prepare(outbox: &Outbox) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    ///     let mut conn = AsyncPgConnection::establish("postgres://localhost/shop").await?;
    ///     for migration in outbox.migrate_async(&mut conn).await? {
    ///         println!("ran {migration}");
    ///     }
    ///     Ok(())
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`migrate`](Self::migrate).
    ///
    /// # Cancel safety
    /// If the future is dropped, a transaction stays open. On MySQL and MariaDB the migration lock is kept, and half a migration
    /// may be done. Discard the connection, as pools do.
    #[expect(clippy::manual_async_fn, reason = "the signature says that the future is Send")]
    pub fn migrate_async<'a, C>(
        &'a self,
        conn: &'a mut C,
    ) -> impl Future<Output = Result<Vec<String>, MigrateError>> + Send + use<'a, C>
    where
        C: AsyncConnection,
        C::Backend: AsyncOutboxBackend<C> + EmbeddedMigrations,
    {
        async move { migrate_async(&Migrations::new(self.tables().clone()), conn).await }
    }
}

/// As [`migrate`](super::migrate::migrate).
pub(crate) async fn migrate_async<C>(source: &Migrations, conn: &mut C) -> Result<Vec<String>, MigrateError>
where
    C: AsyncConnection,
    C::Backend: AsyncOutboxBackend<C> + EmbeddedMigrations,
{
    let lock = <C::Backend as EmbeddedMigrations>::STEPS.lock;
    let is_outermost = check_begun::<C::Backend>(&mut AsyncConn(conn))?;
    let mut locked = Ok(Vec::new());
    if let Some([lock, _]) = lock {
        locked = C::Backend::texts_async(conn, lock).await;
        check_locked(&locked)?;
    }
    let migrated = run_migrations_async(source, conn, is_outermost).await;
    if let (Some([_, unlock]), Ok(_)) = (lock, locked) {
        let unlocked = C::Backend::texts_async(conn, unlock).await;
        return migrated.and_then(|names| Ok(unlocked.map(|_| names)?));
    }
    migrated
}

async fn run_migrations_async<C>(
    source: &Migrations,
    conn: &mut C,
    is_outermost: bool,
) -> Result<Vec<String>, MigrateError>
where
    C: AsyncConnection,
    C::Backend: AsyncOutboxBackend<C> + EmbeddedMigrations,
{
    for sql in <C::Backend as EmbeddedMigrations>::STEPS.before {
        conn.batch_execute(sql).await?;
    }
    if !<C::Backend as EmbeddedMigrations>::STEPS.in_transaction {
        return run_scripts_async(source, conn).await;
    }
    C::TransactionManager::begin_transaction(conn).await?;
    match run_first_async(source, conn, is_outermost).await {
        Ok(names) => {
            commit_async(conn).await?;
            Ok(names)
        }
        Err(error) => Err(error_after_rollback(error, C::TransactionManager::rollback_transaction(conn).await)),
    }
}

async fn run_first_async<C>(source: &Migrations, conn: &mut C, is_outermost: bool) -> Result<Vec<String>, MigrateError>
where
    C: AsyncConnection,
    C::Backend: AsyncOutboxBackend<C> + EmbeddedMigrations,
{
    for sql in begin_with::<C::Backend>(is_outermost) {
        conn.batch_execute(sql).await?;
    }
    run_scripts_async(source, conn).await
}

async fn run_scripts_async<C>(source: &Migrations, conn: &mut C) -> Result<Vec<String>, MigrateError>
where
    C: AsyncConnection,
    C::Backend: AsyncOutboxBackend<C> + EmbeddedMigrations,
{
    let ran = C::Backend::texts_async(conn, RAN).await?;
    let mut names = Vec::new();
    for script in missing_scripts::<C::Backend>(source, &ran) {
        let mut done = conn.batch_execute(&script.up).await;
        if done.is_ok() {
            done = conn.batch_execute(&noted(&script)).await;
        }
        done.map_err(|error| MigrateError::Failed { migration: script.name.clone(), error })?;
        names.push(script.name);
    }
    Ok(names)
}
