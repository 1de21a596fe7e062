use std::time::Duration;

#[cfg(feature = "sqlite")]
use diesel::sqlite::SqliteConnection;
#[cfg(feature = "mysql")]
use diesel_async::AsyncMysqlConnection;
#[cfg(feature = "postgres")]
use diesel_async::AsyncPgConnection;
#[cfg(feature = "sqlite")]
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection, SimpleAsyncConnection as _};
use diesel_outbox::Outbox;
use diesel_outbox::migrations::{MigrateError, MigrationScript, Migrations};

use crate::address::Address;
use crate::arguments::Options;
use crate::connect;
use crate::error::Error;

/// How long a migration waits for a lock at most, so that what waits behind it does not wait for ever.
const LOCK_WAIT: Duration = Duration::from_secs(10);

/// One connection to the database, over which migrations run.
#[allow(clippy::large_enum_variant, reason = "there is one")]
pub(super) enum MigrationConnection {
    #[cfg(feature = "postgres")]
    Postgres(AsyncPgConnection),
    #[cfg(feature = "mysql")]
    Mysql(AsyncMysqlConnection),
    #[cfg(feature = "sqlite")]
    Sqlite(SyncConnectionWrapper<SqliteConnection>),
}

/// Does the same over each.
macro_rules! on_each {
    ($connection:expr, $conn:ident => $done:expr) => {
        match $connection {
            #[cfg(feature = "postgres")]
            MigrationConnection::Postgres($conn) => $done,
            #[cfg(feature = "mysql")]
            MigrationConnection::Mysql($conn) => $done,
            #[cfg(feature = "sqlite")]
            MigrationConnection::Sqlite($conn) => $done,
        }
    };
}

impl MigrationConnection {
    pub(super) async fn open(options: &Options) -> Result<Self, Error> {
        let address = connect::address(options)?;
        let failed = |error: diesel::ConnectionError| Error::failed(format!("the connection for migrations: {error}"));
        let mut opened = match &address {
            #[cfg(feature = "postgres")]
            Address::Postgres(url) => Self::Postgres(AsyncPgConnection::establish(url).await.map_err(failed)?),
            #[cfg(feature = "mysql")]
            Address::Mysql(url) => Self::Mysql(AsyncMysqlConnection::establish(url).await.map_err(failed)?),
            #[cfg(feature = "sqlite")]
            Address::Sqlite(path) => {
                let path = connect::path_text(path)?;
                Self::Sqlite(SyncConnectionWrapper::<SqliteConnection>::establish(path).await.map_err(failed)?)
            }
            #[allow(unreachable_patterns, reason = "with all features there is none left")]
            _ => return Err(connect::unsupported(&address)),
        };
        opened.set_up(options.statement_timeout.unwrap_or(LOCK_WAIT)).await?;
        Ok(opened)
    }

    async fn set_up(&mut self, lock_wait: Duration) -> Result<(), Error> {
        let settings: String = match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => format!("SET lock_timeout = {}", lock_wait.as_millis().max(1)),
            #[cfg(feature = "mysql")]
            Self::Mysql(_) => format!("SET SESSION lock_wait_timeout = {}", lock_wait.as_secs().max(1)),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => format!("PRAGMA busy_timeout = {}", lock_wait.as_millis().max(1)),
        };
        let set = on_each!(self, conn => conn.batch_execute(&settings).await);
        set.map_err(|error| MigrateError::from(error).into())
    }

    /// The names of the migrations that have run.
    pub(super) async fn ran(&mut self, outbox: &Outbox) -> Result<Vec<String>, Error> {
        Ok(on_each!(self, conn => outbox.ran_migrations_async(conn).await)?)
    }

    /// Runs those that have not run; returns their names.
    pub(super) async fn up(&mut self, outbox: &Outbox) -> Result<Vec<String>, Error> {
        Ok(on_each!(self, conn => outbox.migrate_async(conn).await)?)
    }

    /// Reverts the last ones; returns their names.
    pub(super) async fn down(&mut self, outbox: &Outbox, count: usize) -> Result<Vec<String>, Error> {
        Ok(on_each!(self, conn => outbox.revert_migrations_async(conn, count).await)?)
    }
}

/// The migrations as texts of the database.
pub(super) fn scripts(outbox: &Outbox, options: &Options) -> Result<Vec<MigrationScript>, Error> {
    let source = Migrations::new(outbox.tables().clone());
    let address = connect::address(options)?;
    match &address {
        #[cfg(feature = "postgres")]
        Address::Postgres(_) => Ok(source.scripts::<diesel::pg::Pg>()),
        #[cfg(feature = "mysql")]
        Address::Mysql(_) => Ok(source.scripts::<diesel::mysql::Mysql>()),
        #[cfg(feature = "sqlite")]
        Address::Sqlite(_) => Ok(source.scripts::<diesel::sqlite::Sqlite>()),
        #[allow(unreachable_patterns, reason = "with all features there is none left")]
        _ => Err(connect::unsupported(&address)),
    }
}
