//! The databases that the transaction of a half message may be in.

use diesel::connection::SimpleConnection as _;
use diesel::mysql::MysqlConnection;
use diesel::pg::PgConnection;
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, Pool};
use diesel::sql_types::Text;
use diesel::sqlite::SqliteConnection;
use diesel_migrations::MigrationHarness as _;
use diesel_outbox::OutboxBackend;
use diesel_outbox::internals::store::Store;
use diesel_outbox::migrations::MIGRATIONS;
use diesel_outbox::store::{MysqlStore, PostgresStore, SQLITE_PRAGMAS, SqliteStore};
use tempfile::TempDir;
use uuid::Uuid;
use xtask::servers::ServerKind;
use xtask::test_servers;

/// A connection to one of them.
pub(super) trait TestDatabase: Connection<Backend: OutboxBackend<Self>> + Sized + 'static {
    const NAME: &str;

    /// Whether an error that is overlooked rolls the transaction back, and its COMMIT is answered with "ok" all the same.
    const ERROR_ABORTS: bool = false;

    /// What a connection of an application is set up with.
    const SET_UP: &str = "SELECT 1";

    /// A mark, and 1 where it is void, in a column `text`.
    const MARKS: &str;

    /// A database of its own, without tables, and what it is gone with; `None` where its server cannot be had.
    fn fresh() -> Option<(String, Option<TempDir>)>;

    fn connect(url: &str) -> Self;

    fn migrate(&mut self);

    fn store(url: &str) -> impl Store;

    /// What a query has in its column `text`.
    fn texts(&mut self, sql: &str) -> Vec<String>;
}

#[derive(QueryableByName)]
struct Line {
    #[diesel(sql_type = Text)]
    text: String,
}

macro_rules! on_connection {
    () => {
        fn migrate(&mut self) {
            self.run_pending_migrations(MIGRATIONS).unwrap();
        }

        fn texts(&mut self, sql: &str) -> Vec<String> {
            let lines: Vec<Line> = diesel::sql_query(sql).load(self).unwrap();
            lines.into_iter().map(|line| line.text).collect()
        }
    };
}

impl TestDatabase for PgConnection {
    const NAME: &str = "postgres";
    const ERROR_ABORTS: bool = true;
    const MARKS: &str = "SELECT message_id::text || ' ' || is_void::integer AS text FROM outbox_half_messages";

    on_connection!();

    fn fresh() -> Option<(String, Option<TempDir>)> {
        on_server::<Self>(ServerKind::Postgres)
    }

    fn connect(url: &str) -> Self {
        Self::establish(url).unwrap()
    }

    fn store(url: &str) -> impl Store {
        PostgresStore::new(pool::<Self>(url))
    }
}

impl TestDatabase for MysqlConnection {
    const NAME: &str = "mariadb";
    const MARKS: &str = "SELECT CONCAT(HEX(message_id), ' ', is_void) AS text FROM outbox_half_messages";

    on_connection!();

    fn fresh() -> Option<(String, Option<TempDir>)> {
        on_server::<Self>(ServerKind::Mariadb)
    }

    fn connect(url: &str) -> Self {
        Self::establish(url).unwrap()
    }

    fn store(url: &str) -> impl Store {
        MysqlStore::new(pool::<Self>(url))
    }
}

impl TestDatabase for SqliteConnection {
    const NAME: &str = "sqlite";
    const SET_UP: &str = SQLITE_PRAGMAS;
    const MARKS: &str = "SELECT hex(message_id) || ' ' || is_void AS text FROM outbox_half_messages";

    on_connection!();

    fn fresh() -> Option<(String, Option<TempDir>)> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fixture.db").to_str().unwrap().to_owned();
        Some((file, Some(folder)))
    }

    fn connect(url: &str) -> Self {
        let mut conn = Self::establish(url).unwrap();
        conn.batch_execute(Self::SET_UP).unwrap();
        conn
    }

    fn store(url: &str) -> impl Store {
        SqliteStore::new(pool::<Self>(url))
    }
}

fn pool<C: diesel::r2d2::R2D2Connection + 'static>(url: &str) -> Pool<ConnectionManager<C>> {
    Pool::builder().max_size(6).build(ConnectionManager::new(url)).unwrap()
}

fn on_server<C: Connection>(part: ServerKind) -> Option<(String, Option<TempDir>)> {
    let server = test_servers::shared_or_skip(part)?;
    let name = format!("yard_{}", Uuid::now_v7().simple());
    C::establish(&server).unwrap().batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
    Some((format!("{}/{name}", server.rsplit_once('/').unwrap().0), None))
}

/// Makes a test of each function, on each database.
macro_rules! on_each_database {
    ($($test:ident),+ $(,)?) => {
        mod postgres {
            $(#[test]
            fn $test() {
                super::$test::<diesel::PgConnection>();
            })+
        }

        mod mariadb {
            $(#[test]
            fn $test() {
                super::$test::<diesel::MysqlConnection>();
            })+
        }

        mod sqlite {
            $(#[test]
            fn $test() {
                super::$test::<diesel::SqliteConnection>();
            })+
        }
    };
}

pub(super) use on_each_database;
