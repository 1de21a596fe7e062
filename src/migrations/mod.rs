//! The outbox's tables as migrations.
//!
//! There are three ways to run them:
//!
//! - [`Outbox::migrate`](crate::Outbox::migrate) and [`migrate_async`](crate::Outbox::migrate_async) when the application starts;
//! - copied from the folder `migrations/outbox/` into an application's own: they are reviewed, ordered and reverted there like everything
//!   else;
//! - as a [`MigrationSource`] for `diesel_migrations`:
//!
//! ```no_run
//! # #[cfg(feature = "sqlite")] {
//! use diesel::prelude::*;
//! use diesel_migrations::MigrationHarness;
//! let mut conn = SqliteConnection::establish("shop.db")?;
//! conn.run_pending_migrations(diesel_outbox::migrations::MIGRATIONS)?;
//! # }
//! # Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! The tables of an [inbox](crate::inbox) are migrations of their own, in `migrations/inbox/` and [`Migrations::inbox`], which
//! [`Inbox::migrate`](crate::inbox::Inbox::migrate) runs.
//!
//! Their versions begin with `0000outbox`, or with `0000inbox`. They sort before an application's dated ones, so reverting the last migration does not
//! hit them. To revert them next to an application's, revert each one of this source (`MigrationHarness::revert_migration`):
//! `revert_all_migrations` fails on versions that are not its own.

mod steps;

use std::fmt;

use diesel::backend::Backend;
#[cfg(feature = "mysql")]
use diesel::mysql::Mysql;
#[cfg(feature = "postgres")]
use diesel::pg::Pg;
#[cfg(feature = "sqlite")]
use diesel::sqlite::Sqlite;

use diesel::connection::BoxableConnection;
use diesel::migration::{Migration, MigrationMetadata, MigrationName, MigrationSource, MigrationVersion, Result};
use diesel::result::Error;

#[doc(hidden)]
pub use self::steps::Steps;
use crate::lane::fnv1a;
use crate::naming::TableNames;
use crate::store::schema::{IndexNaming, rename_tables};

/// The migrations of an outbox with the default table names; for other names use [`Migrations::new`].
pub const MIGRATIONS: Migrations = Migrations { of: Part::Outbox, names: None };

/// The migrations of one outbox, or of one inbox.
///
/// ```
/// use diesel_outbox::migrations::Migrations;
/// use diesel_outbox::{Outbox, TableNames, Topic};
/// let names = TableNames::default().prefix("shop_outbox_")?;
/// let outbox = Outbox::builder().topic(Topic::new("orders")).tables(names).build()?;
/// let source = Migrations::new(outbox.tables().clone());
/// # let _ = source;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrations {
    of: Part,
    names: Option<TableNames>,
}

/// Whose tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Outbox,
    Inbox,
    Consumer,
}

impl Migrations {
    /// The migrations of an outbox with these table names. The schema must exist already.
    ///
    /// Other names give other migrations, so one database can hold several outboxes.
    pub fn new(names: TableNames) -> Self {
        Self { of: Part::Outbox, names: Some(names) }
    }

    /// The migrations of an [inbox](crate::inbox) with these table names. They do not need those of the outbox: an application that only
    /// consumes runs these alone.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] {
    /// use diesel::sqlite::Sqlite;
    /// use diesel_outbox::TableNames;
    /// use diesel_outbox::migrations::Migrations;
    /// let scripts = Migrations::inbox(TableNames::default().prefix("billing_")?).scripts::<Sqlite>();
    /// assert!(scripts[0].up.contains("CREATE TABLE billing_inbox"));
    /// # }
    /// # Ok::<_, diesel_outbox::NameError>(())
    /// ```
    pub fn inbox(names: TableNames) -> Self {
        Self { of: Part::Inbox, names: Some(names) }
    }

    /// The migrations of [consumers](crate::guide::consumers) with these table names: offsets in the database, and parked records.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] {
    /// use diesel::sqlite::Sqlite;
    /// use diesel_outbox::TableNames;
    /// use diesel_outbox::migrations::Migrations;
    /// let scripts = Migrations::consumer(TableNames::default().prefix("billing_")?).scripts::<Sqlite>();
    /// assert!(scripts[0].up.contains("CREATE TABLE billing_parked"));
    /// # }
    /// # Ok::<_, diesel_outbox::NameError>(())
    /// ```
    pub fn consumer(names: TableNames) -> Self {
        Self { of: Part::Consumer, names: Some(names) }
    }

    fn files<DB: EmbeddedMigrations>(&self) -> &'static [MigrationFiles] {
        match self.of {
            Part::Outbox => DB::FILES,
            Part::Inbox => DB::INBOX_FILES,
            Part::Consumer => DB::CONSUMER_FILES,
        }
    }
}

impl<DB: EmbeddedMigrations> MigrationSource<DB> for Migrations {
    fn migrations(&self) -> Result<Vec<Box<dyn Migration<DB>>>> {
        let names = self.names.clone().unwrap_or_default();
        let outbox_migrations = self.files::<DB>().iter().map(|files| {
            Box::new(OutboxMigration {
                name: OutboxMigrationName::of(files, &names),
                up: rename_tables(files.up, &names, DB::INDEXES),
                down: rename_tables(files.down, &names, DB::INDEXES),
            }) as Box<dyn Migration<DB>>
        });
        Ok(outbox_migrations.collect())
    }
}

impl Migrations {
    /// The migrations as texts, in their order: for tools, and to be copied into the application's own.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] {
    /// use diesel::sqlite::Sqlite;
    /// use diesel_outbox::migrations::MIGRATIONS;
    /// let scripts = MIGRATIONS.scripts::<Sqlite>();
    /// assert_eq!(scripts[0].name, "0000outbox01_messages");
    /// assert!(scripts[0].up.contains("CREATE TABLE outbox_messages"));
    /// # }
    /// ```
    pub fn scripts<DB: EmbeddedMigrations>(&self) -> Vec<MigrationScript> {
        let names = self.names.clone().unwrap_or_default();
        let script = |files: &MigrationFiles| {
            let name = OutboxMigrationName::of(files, &names);
            MigrationScript {
                name: name.to_string(),
                version: name.version,
                up: rename_tables(files.up, &names, DB::INDEXES),
                down: rename_tables(files.down, &names, DB::INDEXES),
            }
        };
        self.files::<DB>().iter().map(script).collect()
    }
}

/// A migration of one outbox, as text. From [`Migrations::scripts`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationScript {
    /// Its name: the version and a title.
    pub name: String,
    /// Its version, as Diesel's table `__diesel_schema_migrations` records it.
    pub version: String,
    /// The SQL that creates.
    pub up: String,
    /// The SQL that removes what `up` has created, with all that is in it.
    pub down: String,
}

/// A database that this crate has migrations for.
pub trait EmbeddedMigrations: Backend + sealed::Sealed {
    #[doc(hidden)]
    const FILES: &'static [MigrationFiles];
    #[doc(hidden)]
    const INBOX_FILES: &'static [MigrationFiles];
    #[doc(hidden)]
    const CONSUMER_FILES: &'static [MigrationFiles];
    #[doc(hidden)]
    const INDEXES: IndexNaming;
    #[doc(hidden)]
    const STEPS: Steps;
}

/// Why the outbox's tables could not be made by [`Outbox::migrate`](crate::Outbox::migrate).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// A migration failed.
    #[error("the outbox's migration {migration} failed: {error}")]
    Failed {
        /// The migration.
        migration: String,
        /// What the database says.
        error: Error,
    },
    /// The table of migrations could not be read or made, or the transaction around all could not be ended.
    #[error("the outbox's migrations could not be run: {0}")]
    Database(Error),
    /// Another process migrates this database.
    #[error(
        "the outbox's migrations were not run, because another process has been running them for a minute: try again"
    )]
    Locked,
    /// MySQL and MariaDB would commit the open transaction.
    #[error(
        "the outbox's migrations were not run, because a transaction is open on this connection, which MySQL and MariaDB would commit: \
         migrate before it begins"
    )]
    InTransaction,
}

impl From<Error> for MigrateError {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

mod sealed {
    pub trait Sealed {}
}

#[doc(hidden)]
#[derive(Debug)]
pub struct MigrationFiles {
    version: &'static str,
    title: &'static str,
    up: &'static str,
    down: &'static str,
}

macro_rules! embedded {
    ($backend:ty, $folder:literal, $indexes:expr, $steps:expr) => {
        embedded!(
            $backend,
            $folder,
            $indexes,
            $steps,
            [
                ("0000outbox01", "messages"),
                ("0000outbox02", "lanes"),
                ("0000outbox03", "half_messages"),
                ("0000outbox04", "paused_topics"),
                ("0000outbox05", "history"),
                ("0000outbox06", "audit")
            ]
        );
    };
    ($backend:ty, $folder:literal, $indexes:expr, $steps:expr, [$(($version:literal, $title:literal)),+]) => {
        impl sealed::Sealed for $backend {}

        impl EmbeddedMigrations for $backend {
            const FILES: &'static [MigrationFiles] = &[$(MigrationFiles {
                version: $version,
                title: $title,
                up: include_str!(concat!("../../migrations/outbox/", $folder, "/", $version, "_", $title, "/up.sql")),
                down: include_str!(concat!("../../migrations/outbox/", $folder, "/", $version, "_", $title, "/down.sql")),
            }),+];
            const INBOX_FILES: &'static [MigrationFiles] = &[MigrationFiles {
                version: "0000inbox01",
                title: "entries",
                up: include_str!(concat!("../../migrations/inbox/", $folder, "/0000inbox01_entries/up.sql")),
                down: include_str!(concat!("../../migrations/inbox/", $folder, "/0000inbox01_entries/down.sql")),
            }];
            const CONSUMER_FILES: &'static [MigrationFiles] = &[MigrationFiles {
                version: "0000consumer01",
                title: "progress",
                up: include_str!(concat!("../../migrations/consumer/", $folder, "/0000consumer01_progress/up.sql")),
                down: include_str!(concat!("../../migrations/consumer/", $folder, "/0000consumer01_progress/down.sql")),
            }];
            const INDEXES: IndexNaming = $indexes;
            const STEPS: Steps = $steps;
        }
    };
}

#[cfg(feature = "postgres")]
embedded!(Pg, "postgres", IndexNaming::ByTable, steps::POSTGRES);
#[cfg(feature = "mysql")]
embedded!(Mysql, "mysql", IndexNaming::ByTable, steps::MYSQL);
#[cfg(feature = "sqlite")]
embedded!(Sqlite, "sqlite", IndexNaming::ByIndex, steps::SQLITE);

/// The migration that makes a table, which is named without its prefix.
pub(crate) fn making<DB: EmbeddedMigrations>(table: &str) -> String {
    let makes = format!("CREATE TABLE outbox_{table} (");
    let made = DB::FILES.iter().find(|files| files.up.contains(&makes));
    made.map_or_else(String::new, |files| format!("{}_{}", files.version, files.title))
}

struct OutboxMigration {
    name: OutboxMigrationName,
    up: String,
    down: String,
}

impl<DB: Backend> Migration<DB> for OutboxMigration {
    fn run(&self, conn: &mut dyn BoxableConnection<DB>) -> Result<()> {
        Ok(conn.batch_execute(&self.up)?)
    }

    fn revert(&self, conn: &mut dyn BoxableConnection<DB>) -> Result<()> {
        Ok(conn.batch_execute(&self.down)?)
    }

    fn metadata(&self) -> &dyn MigrationMetadata {
        &InTransaction
    }

    fn name(&self) -> &dyn MigrationName {
        &self.name
    }
}

struct InTransaction;

impl MigrationMetadata for InTransaction {}

struct OutboxMigrationName {
    version: String,
    title: &'static str,
}

impl OutboxMigrationName {
    fn of(files: &MigrationFiles, names: &TableNames) -> Self {
        let version = if *names == TableNames::default() {
            files.version.to_owned()
        } else {
            // Diesel skips versions it has already run, and allows 50 characters for one: too few for two names.
            format!("{}-{:016x}", files.version, fnv1a(&names.messages()))
        };
        Self { version, title: files.title }
    }
}

impl MigrationName for OutboxMigrationName {
    fn version(&self) -> MigrationVersion<'_> {
        MigrationVersion::from(&self.version)
    }
}

impl fmt::Display for OutboxMigrationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.version, self.title)
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests;
