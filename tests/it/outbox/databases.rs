//! A database of its own for each test: a schema, or a file in memory.

use std::sync::atomic::{AtomicUsize, Ordering};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, Pool, R2D2Connection};
use diesel::sql_types::{Binary, Uuid as SqlUuid};
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection, AsyncMysqlConnection, AsyncPgConnection};
use diesel_migrations::MigrationHarness;
use diesel_outbox::MessageId;
use diesel_outbox::migrations::MIGRATIONS;
use diesel_outbox::store::SQLITE_PRAGMAS;
use tempfile::TempDir;
use uuid::Uuid;
use xtask::servers::ServerKind;
use xtask::test_servers;

/// The business data of the tests; a second row with the same id is an error that a closure can swallow.
const SHOP: &str = "CREATE TABLE shop_orders (id integer NOT NULL PRIMARY KEY)";

/// A connection of Diesel to a database with the outbox's tables.
pub(crate) trait Database: Connection + Sized {
    /// A fresh database; `None` where its server is missing, which is recorded.
    fn fresh() -> Option<Self>;

    /// The messages in the table, in the order of their rows.
    fn messages(&mut self) -> Vec<MessageId>;

    fn place(&mut self, order: i64) -> QueryResult<()> {
        self.batch_execute(&format!("INSERT INTO shop_orders VALUES ({order})"))
    }
}

#[derive(QueryableByName)]
struct Bytes {
    #[diesel(sql_type = Binary)]
    message_id: Vec<u8>,
}

#[derive(QueryableByName)]
struct Typed {
    #[diesel(sql_type = SqlUuid)]
    message_id: Uuid,
}

const MESSAGES: &str = "SELECT message_id FROM outbox_messages ORDER BY id";

impl From<Bytes> for MessageId {
    fn from(row: Bytes) -> Self {
        Uuid::from_slice(&row.message_id).expect("16 bytes").into()
    }
}

impl Database for SqliteConnection {
    fn fresh() -> Option<Self> {
        let mut conn = Self::establish(":memory:").expect("open");
        conn.run_pending_migrations(MIGRATIONS).expect("migrate");
        conn.batch_execute(SHOP).expect("shop");
        Some(conn)
    }

    fn messages(&mut self) -> Vec<MessageId> {
        let rows = diesel::sql_query(MESSAGES).load::<Bytes>(self).expect("messages");
        rows.into_iter().map(Into::into).collect()
    }
}

impl Database for PgConnection {
    fn fresh() -> Option<Self> {
        Some(Self::establish(&fresh_postgres()?).expect("connect"))
    }

    fn messages(&mut self) -> Vec<MessageId> {
        let rows = diesel::sql_query(MESSAGES).load::<Typed>(self).expect("messages");
        rows.into_iter().map(|row| row.message_id.into()).collect()
    }
}

impl Database for MysqlConnection {
    fn fresh() -> Option<Self> {
        Some(Self::establish(&fresh_mariadb()?).expect("connect"))
    }

    fn messages(&mut self) -> Vec<MessageId> {
        let rows = diesel::sql_query(MESSAGES).load::<Bytes>(self).expect("messages");
        rows.into_iter().map(Into::into).collect()
    }
}

/// The address of a PostgreSQL database without tables.
pub(crate) fn empty_postgres() -> Option<String> {
    let (admin, name) = (test_servers::shared_or_skip(ServerKind::Postgres)?, name());
    PgConnection::establish(&admin)
        .expect("connect")
        .batch_execute(&format!("CREATE DATABASE {name}"))
        .expect("create");
    Some(sibling(&admin, &name))
}

/// The address of a PostgreSQL database with the tables.
pub(crate) fn fresh_postgres() -> Option<String> {
    let url = empty_postgres()?;
    let mut conn = PgConnection::establish(&url).expect("connect");
    conn.run_pending_migrations(MIGRATIONS).expect("migrate");
    conn.batch_execute(SHOP).expect("shop");
    Some(url)
}

/// The address of a MariaDB database without tables.
pub(crate) fn empty_mariadb() -> Option<String> {
    Some(empty_on_mariadb(&test_servers::shared_or_skip(ServerKind::Mariadb)?))
}

fn empty_on_mariadb(admin: &str) -> String {
    let name = name();
    let mut conn = MysqlConnection::establish(admin).expect("connect");
    conn.batch_execute(&format!("CREATE DATABASE {name}")).expect("create");
    sibling(admin, &name)
}

/// The address of a MariaDB database with the tables.
pub(crate) fn fresh_mariadb() -> Option<String> {
    Some(fresh_on_mariadb(&test_servers::shared_or_skip(ServerKind::Mariadb)?))
}

/// The address of a new database with the tables on this server.
pub(crate) fn fresh_on_mariadb(admin: &str) -> String {
    let url = empty_on_mariadb(admin);
    let mut conn = MysqlConnection::establish(&url).expect("connect");
    conn.run_pending_migrations(MIGRATIONS).expect("migrate");
    conn.batch_execute(SHOP).expect("shop");
    url
}

/// The address of an SQLite database with the tables, which lives as long as a connection to it is open.
pub(crate) fn fresh_sqlite() -> Option<String> {
    let url = format!("file:{}?mode=memory&cache=shared", name());
    let mut conn = SqliteConnection::establish(&url).expect("open");
    conn.run_pending_migrations(MIGRATIONS).expect("migrate");
    conn.batch_execute(SHOP).expect("shop");
    std::mem::forget(conn);
    Some(url)
}

/// An SQLite database in a file with a rollback journal, where one who reads keeps others from committing; gone with the
/// folder.
pub(crate) fn fresh_sqlite_file() -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let url = folder.path().join("shop.db").to_str().expect("a plain path").to_owned();
    let mut conn = SqliteConnection::establish(&url).expect("open");
    conn.run_pending_migrations(MIGRATIONS).expect("migrate");
    conn.batch_execute(SHOP).expect("shop");
    (folder, url)
}

/// An SQLite database in a file, which pools can share, with the tables; gone with this.
pub(crate) struct SqliteFile(TempDir);

impl SqliteFile {
    pub(crate) fn fresh() -> Self {
        let file = Self(tempfile::tempdir().expect("a folder"));
        file.connect().run_pending_migrations(MIGRATIONS).expect("migrate");
        file
    }

    pub(crate) fn url(&self) -> String {
        self.0.path().join("shop.db").to_str().expect("a plain path").to_owned()
    }

    pub(crate) fn connect(&self) -> SqliteConnection {
        let mut conn = SqliteConnection::establish(&self.url()).expect("open");
        conn.batch_execute(SQLITE_PRAGMAS).expect("set up");
        conn
    }
}

/// As many connections as a relay works with.
pub(crate) fn pool<C: R2D2Connection + 'static>(url: &str) -> Pool<ConnectionManager<C>> {
    Pool::builder().max_size(6).build(ConnectionManager::new(url)).expect("a pool")
}

fn name() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("facade_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn sibling(url: &str, name: &str) -> String {
    let (server, _) = url.rsplit_once('/').expect("a url with a database");
    format!("{server}/{name}")
}

pub(crate) type AsyncSqlite = SyncConnectionWrapper<SqliteConnection>;

/// A connection of diesel-async to a database with the outbox's tables.
pub(crate) trait AsyncDatabase: AsyncConnection + 'static {
    async fn fresh() -> Option<Self>;

    async fn messages(&mut self) -> Vec<MessageId>;
}

impl AsyncDatabase for AsyncSqlite {
    async fn fresh() -> Option<Self> {
        Some(Self::new(SqliteConnection::fresh()?))
    }

    async fn messages(&mut self) -> Vec<MessageId> {
        let rows = diesel_async::RunQueryDsl::load::<Bytes>(diesel::sql_query(MESSAGES), self).await.expect("messages");
        rows.into_iter().map(Into::into).collect()
    }
}

impl AsyncDatabase for AsyncPgConnection {
    async fn fresh() -> Option<Self> {
        Some(Self::establish(&fresh_postgres()?).await.expect("connect"))
    }

    async fn messages(&mut self) -> Vec<MessageId> {
        let rows = diesel_async::RunQueryDsl::load::<Typed>(diesel::sql_query(MESSAGES), self).await.expect("messages");
        rows.into_iter().map(|row| row.message_id.into()).collect()
    }
}

impl AsyncDatabase for AsyncMysqlConnection {
    async fn fresh() -> Option<Self> {
        Some(Self::establish(&fresh_mariadb()?).await.expect("connect"))
    }

    async fn messages(&mut self) -> Vec<MessageId> {
        let rows = diesel_async::RunQueryDsl::load::<Bytes>(diesel::sql_query(MESSAGES), self).await.expect("messages");
        rows.into_iter().map(Into::into).collect()
    }
}
