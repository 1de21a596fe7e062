//! The outbox's tables as migrations.
//!
//! The first choice is to copy the SQL from the folder `migrations/` into the application's own migrations, where it is reviewed,
//! ordered and reverted like everything else. Otherwise, the same files are embedded here as a [`MigrationSource`] for
//! `diesel_migrations` (and diesel-async's `AsyncMigrationHarness`):
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
//! Their versions begin with `0000outbox`. They sort before an application's dated ones, so reverting the last migration does not
//! hit them. To revert them next to an application's, revert each one of this source (`MigrationHarness::revert_migration`):
//! `revert_all_migrations` fails on versions that are not its own.

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

use crate::lane::fnv1a;
use crate::naming::TableNames;
use crate::store::schema::{IndexNaming, rename_tables};

/// The migrations of an outbox with the default table names; for other names use [`Migrations::new`].
pub const MIGRATIONS: Migrations = Migrations { names: None };

/// The migrations of one outbox.
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
    names: Option<TableNames>,
}

impl Migrations {
    /// The migrations of an outbox with these table names. The schema must exist already.
    ///
    /// Other names give other migrations, so one database can hold several outboxes.
    pub fn new(names: TableNames) -> Self {
        Self { names: Some(names) }
    }
}

impl<DB: EmbeddedMigrations> MigrationSource<DB> for Migrations {
    fn migrations(&self) -> Result<Vec<Box<dyn Migration<DB>>>> {
        let names = self.names.clone().unwrap_or_default();
        let outbox_migrations = DB::FILES.iter().map(|files| {
            Box::new(OutboxMigration {
                name: OutboxMigrationName::of(files, &names),
                up: rename_tables(files.up, &names, DB::INDEXES),
                down: rename_tables(files.down, &names, DB::INDEXES),
            }) as Box<dyn Migration<DB>>
        });
        Ok(outbox_migrations.collect())
    }
}

/// A database that this crate has migrations for.
pub trait EmbeddedMigrations: Backend + sealed::Sealed {
    #[doc(hidden)]
    const FILES: &'static [MigrationFiles];
    #[doc(hidden)]
    const INDEXES: IndexNaming;
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
    ($backend:ty, $folder:literal, $indexes:expr) => {
        embedded!(
            $backend,
            $folder,
            $indexes,
            [
                ("0000outbox01", "messages"),
                ("0000outbox02", "lanes"),
                ("0000outbox03", "half_messages"),
                ("0000outbox04", "paused_topics"),
                ("0000outbox05", "history")
            ]
        );
    };
    ($backend:ty, $folder:literal, $indexes:expr, [$(($version:literal, $title:literal)),+]) => {
        impl sealed::Sealed for $backend {}

        impl EmbeddedMigrations for $backend {
            const FILES: &'static [MigrationFiles] = &[$(MigrationFiles {
                version: $version,
                title: $title,
                up: include_str!(concat!("../migrations/", $folder, "/", $version, "_", $title, "/up.sql")),
                down: include_str!(concat!("../migrations/", $folder, "/", $version, "_", $title, "/down.sql")),
            }),+];
            const INDEXES: IndexNaming = $indexes;
        }
    };
}

#[cfg(feature = "postgres")]
embedded!(Pg, "postgres", IndexNaming::ByTable);
#[cfg(feature = "mysql")]
embedded!(Mysql, "mysql", IndexNaming::ByTable);
#[cfg(feature = "sqlite")]
embedded!(Sqlite, "sqlite", IndexNaming::ByIndex);

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

#[cfg(test)]
#[cfg(feature = "sqlite")]
mod tests {
    use super::*;

    fn version(source: &Migrations) -> String {
        let found: Vec<Box<dyn Migration<Sqlite>>> = source.migrations().unwrap();
        found[0].name().version().to_string()
    }

    #[test]
    fn versions_never_change() {
        let shop = Migrations::new(TableNames::default().prefix("shop_").unwrap());
        assert_eq!(version(&MIGRATIONS), "0000outbox01");
        assert_eq!(version(&Migrations::new(TableNames::default())), "0000outbox01");
        assert_eq!(version(&shop), "0000outbox01-516645312c5c278e");
    }
}
