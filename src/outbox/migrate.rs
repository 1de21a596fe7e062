use diesel::connection::Connection;
use diesel::result::QueryResult;

use super::Outbox;
use crate::enqueue::OutboxBackend;
use crate::hook::{Conn, Depth, SyncConn};
use crate::migrations::{EmbeddedMigrations, MigrateError, MigrationScript, Migrations};

/// Create the tables.
impl Outbox {
    /// Creates or upgrades the outbox's tables: runs the [migrations](crate::migrations) that have not run yet. Returns their
    /// names.
    ///
    /// Call it at each start of the application. Several processes may call it at once: one runs the migrations, the others wait.
    /// Diesel's table `__diesel_schema_migrations` records what has run, so Diesel's own tools see it. On PostgreSQL and SQLite
    /// all migrations run in one transaction.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] {
    /// # use diesel::prelude::*;
    /// use diesel_outbox::{Outbox, Topic};
    ///
    /// let mut conn = SqliteConnection::establish(":memory:")?;
    /// let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// let ran = outbox.migrate(&mut conn)?;
    /// assert_eq!(ran[0], "0000outbox01_messages");
    /// assert!(outbox.migrate(&mut conn)?.is_empty());
    /// # }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the database's error with the name of the migration. On MySQL and MariaDB also returns
    /// [`MigrateError::InTransaction`] if a transaction is open, because the migrations would commit it, and
    /// [`MigrateError::Locked`] if another process has been running migrations for a minute.
    pub fn migrate<C>(&self, conn: &mut C) -> Result<Vec<String>, MigrateError>
    where
        C: Connection,
        C::Backend: OutboxBackend<C> + EmbeddedMigrations,
    {
        migrate(&Migrations::new(self.tables().clone()), conn)
    }
}

/// Runs the migrations of `source` that have not run yet; returns their names.
pub(crate) fn migrate<C>(source: &Migrations, conn: &mut C) -> Result<Vec<String>, MigrateError>
where
    C: Connection,
    C::Backend: OutboxBackend<C> + EmbeddedMigrations,
{
    let steps = &<C::Backend as EmbeddedMigrations>::STEPS;
    let is_outermost = check_begun::<C::Backend>(&mut SyncConn(conn))?;
    let mut locked = Ok(Vec::new());
    if let Some([lock, _]) = steps.lock {
        locked = C::Backend::texts(conn, lock);
        check_locked(&locked)?;
    }
    let migrated = run_migrations(source, conn, is_outermost);
    if let (Some([_, unlock]), Ok(_)) = (steps.lock, locked) {
        let unlocked = C::Backend::texts(conn, unlock);
        return migrated.and_then(|names| Ok(unlocked.map(|_| names)?));
    }
    migrated
}

fn run_migrations<C>(source: &Migrations, conn: &mut C, is_outermost: bool) -> Result<Vec<String>, MigrateError>
where
    C: Connection,
    C::Backend: OutboxBackend<C> + EmbeddedMigrations,
{
    let steps = &<C::Backend as EmbeddedMigrations>::STEPS;
    steps.before.iter().try_for_each(|sql| conn.batch_execute(sql))?;
    if !steps.in_transaction {
        return run_scripts(source, conn);
    }
    conn.transaction(|conn| {
        begin_with::<C::Backend>(is_outermost).try_for_each(|sql| conn.batch_execute(sql))?;
        run_scripts(source, conn)
    })
}

fn run_scripts<C>(source: &Migrations, conn: &mut C) -> Result<Vec<String>, MigrateError>
where
    C: Connection,
    C::Backend: OutboxBackend<C> + EmbeddedMigrations,
{
    let ran = C::Backend::texts(conn, RAN)?;
    let mut names = Vec::new();
    for script in missing_scripts::<C::Backend>(source, &ran) {
        let done = conn.batch_execute(&script.up).and_then(|()| conn.batch_execute(&noted(&script)));
        done.map_err(|error| MigrateError::Failed { migration: script.name.clone(), error })?;
        names.push(script.name);
    }
    Ok(names)
}

pub(super) fn missing_scripts<B: EmbeddedMigrations>(source: &Migrations, ran: &[String]) -> Vec<MigrationScript> {
    source.scripts::<B>().into_iter().filter(|script| !ran.contains(&script.version)).collect()
}

/// The versions of what has run.
pub(super) const RAN: &str = "SELECT version FROM __diesel_schema_migrations";

/// Says that a migration has run. Versions are made of letters, digits and a hyphen.
pub(super) fn noted(script: &MigrationScript) -> String {
    format!("INSERT INTO __diesel_schema_migrations (version) VALUES ('{}')", script.version)
}

/// Says that a migration has not run.
#[cfg(feature = "async")]
pub(super) fn unnoted(script: &MigrationScript) -> String {
    format!("DELETE FROM __diesel_schema_migrations WHERE version = '{}'", script.version)
}

/// Whether no transaction is open yet; an error where one is that the migrations would commit.
pub(super) fn check_begun<B: EmbeddedMigrations>(conn: &mut impl Conn) -> Result<bool, MigrateError> {
    let is_outermost = Depth::of(conn)?.depth == 0;
    if is_outermost || B::STEPS.in_transaction { Ok(is_outermost) } else { Err(MigrateError::InTransaction) }
}

/// An error of the database's is none here: clusters (Galera, where it is strict) have no such locks, and go without.
pub(super) fn check_locked(locked: &QueryResult<Vec<String>>) -> Result<(), MigrateError> {
    match locked {
        Ok(answer) if *answer != ["1"] => Err(MigrateError::Locked),
        _ => Ok(()),
    }
}

/// What comes first in the transaction.
pub(super) fn begin_with<B: EmbeddedMigrations>(is_outermost: bool) -> impl Iterator<Item = &'static str> {
    let outermost = if is_outermost { B::STEPS.outermost } else { &[] };
    outermost.iter().chain(B::STEPS.first).copied()
}
