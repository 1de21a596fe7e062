//! A database of a test, on each server.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::http::request::Parts;
use diesel::connection::{Connection as _, InstrumentationEvent};
use diesel::r2d2::{ConnectionManager, CustomizeConnection, Pool};
use diesel::sql_types::BigInt;
use diesel::{QueryableByName, SqliteConnection, sql_query};
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{
    AsyncConnection as _, AsyncMysqlConnection, AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _,
};
use diesel_outbox::admin::Admin;
use diesel_outbox::relay::Relay;
use diesel_outbox::store::{MysqlStore, PostgresStore, SQLITE_PRAGMAS, SqliteStore};
use diesel_outbox::transport::MemoryTransport;
use diesel_outbox::{MessageId, Outbox, TableNames, Topic};
use diesel_outbox_web::{Access, Dashboard, Rights};
use xtask::servers::ServerKind;
use xtask::test_servers::shared_or_skip;

type Sqlite = SyncConnectionWrapper<SqliteConnection>;

/// How many lanes the payments have.
pub(crate) const LANES: u16 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Postgres,
    Mariadb,
    Sqlite,
}

/// The outbox's tables under names of this test alone, with all of its topics.
pub(crate) struct Database {
    pub(crate) kind: Kind,
    /// A URL, or the path of the file.
    pub(crate) url: String,
    pub(crate) names: TableNames,
    pub(crate) outbox: Outbox,
    control: tokio::sync::Mutex<Control>,
    folder: Option<tempfile::TempDir>,
}

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    number: i64,
}

/// The connection of the test itself: to log in takes longer than most statements.
enum Control {
    Postgres(Box<AsyncPgConnection>),
    Mysql(AsyncMysqlConnection),
    Sqlite(Sqlite),
}

impl Control {
    async fn open(kind: Kind, url: &str) -> Self {
        match kind {
            Kind::Postgres => Self::Postgres(Box::new(AsyncPgConnection::establish(url).await.expect("connect"))),
            Kind::Mariadb => Self::Mysql(AsyncMysqlConnection::establish(url).await.expect("connect")),
            Kind::Sqlite => {
                let mut conn = Sqlite::establish(url).await.expect("open");
                conn.batch_execute(SQLITE_PRAGMAS).await.expect("set up");
                Self::Sqlite(conn)
            }
        }
    }
}

/// Does something over this connection.
macro_rules! over_control {
    ($control:expr, $conn:ident => $done:expr) => {
        match $control {
            Control::Postgres($conn) => {
                let $conn = &mut **$conn;
                $done
            }
            Control::Mysql($conn) => $done,
            Control::Sqlite($conn) => $done,
        }
    };
}

/// Calls `$done` with a store of each kind.
macro_rules! with_store {
    ($database:expr, $store:ident => $done:expr) => {{
        let url = $database.url.as_str();
        match $database.kind {
            Kind::Postgres => {
                let $store = PostgresStore::connect(url).expect("a URL");
                $done
            }
            Kind::Mariadb => {
                let $store = MysqlStore::connect(url).expect("a URL");
                $done
            }
            Kind::Sqlite => {
                let $store = SqliteStore::connect(url).expect("a path");
                $done
            }
        }
    }};
}

fn outbox(names: &TableNames) -> Outbox {
    let payments = Topic::new("payments").ordered_by_key().lanes(LANES);
    let invoices = Topic::new("invoices").keep_sent_days(30);
    let builder = Outbox::builder().tables(names.clone()).topic(Topic::new("orders")).topic(payments);
    builder.topic(Topic::new("reminders")).topic(invoices).build().expect("an outbox")
}

fn everybody(_: &Parts) -> Option<Access> {
    Some(Access::new("ann", Rights::all()))
}

impl Database {
    /// With the outbox's tables; `None` if there is no such server, which is recorded.
    pub(crate) async fn open(kind: Kind) -> Option<Self> {
        let folder = (kind == Kind::Sqlite).then(|| tempfile::tempdir().expect("a folder"));
        let url = match (kind, &folder) {
            (Kind::Postgres, _) => shared_or_skip(ServerKind::Postgres)?,
            (Kind::Mariadb, _) => shared_or_skip(ServerKind::Mariadb)?,
            (Kind::Sqlite, folder) => {
                let path = folder.as_ref().map(|folder| folder.path().join("shop.db"));
                path.expect("a folder").display().to_string()
            }
        };
        let unique = MessageId::new().as_uuid().simple().to_string();
        let names = TableNames::default().prefix(format!("l{}_", &unique[20..])).expect("a prefix");
        let (outbox, mut control) = (outbox(&names), Control::open(kind, &url).await);
        over_control!(&mut control, conn => outbox.migrate_async(conn).await.map(drop).expect("migrate"));
        Some(Self { kind, url, outbox, names, control: control.into(), folder })
    }

    /// `{m}` and `{d}` stand for the tables of live messages and of dead letters.
    pub(crate) async fn run(&self, sql: &str) {
        self.run_over(&mut *self.control.lock().await, sql).await;
    }

    /// Like [`run`](Self::run), over a connection that is then closed.
    pub(crate) async fn run_in_session(&self, sql: &str) {
        self.run_over(&mut Control::open(self.kind, &self.url).await, sql).await;
    }

    async fn run_over(&self, control: &mut Control, sql: &str) {
        let sql = sql.replace("{m}", &self.names.messages()).replace("{d}", &self.names.dead_letters());
        let done = over_control!(control, conn => conn.batch_execute(&sql).await);
        done.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// The first column, which is called `number`.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let sql = sql.replace("{m}", &self.names.messages()).replace("{d}", &self.names.dead_letters());
        let rows = over_control!(&mut *self.control.lock().await, conn => sql_query(&sql).load::<Number>(conn).await);
        rows.unwrap_or_else(|error| panic!("{sql}: {error}"))[0].number
    }

    pub(crate) fn admin(&self) -> Admin {
        with_store!(self, store => self.outbox.admin(store))
    }

    /// Its sessions have the name of the table of live messages.
    pub(crate) fn dashboard(&self) -> Dashboard {
        match self.kind {
            Kind::Postgres => {
                let url = format!("{}?application_name={}", self.url, self.names.messages());
                Dashboard::new(&self.outbox, PostgresStore::connect(url).expect("a URL"), everybody)
            }
            Kind::Mariadb | Kind::Sqlite => {
                with_store!(self, store => Dashboard::new(&self.outbox, store, everybody))
            }
        }
    }

    /// A relay with nothing to do: of a topic that has no messages.
    pub(crate) async fn idle_relay(&self) -> Relay {
        let idle = Outbox::builder().tables(self.names.clone()).topic(Topic::new("idle")).build().expect("an outbox");
        let transport = MemoryTransport::new();
        with_store!(self, store => idle.relay().store(store).transport(transport).start().await.expect("a relay"))
    }

    /// The same dashboard on SQLite, and its statements.
    pub(crate) fn logged_dashboard(&self) -> (Dashboard, Log) {
        let log = Log::default();
        let pool = Pool::builder().max_size(4).connection_customizer(Box::new(log.clone()));
        let pool = pool.build(ConnectionManager::<SqliteConnection>::new(&self.url)).expect("a pool");
        (Dashboard::new(&self.outbox, SqliteStore::new(pool), everybody), log)
    }

    pub(crate) fn file(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|_| PathBuf::from(&self.url))
    }
}

/// The statements of a store, with their binds as Diesel shows them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl CustomizeConnection<SqliteConnection, diesel::r2d2::Error> for Log {
    fn on_acquire(&self, conn: &mut SqliteConnection) -> Result<(), diesel::r2d2::Error> {
        let log = Arc::clone(&self.0);
        conn.set_instrumentation(move |event: InstrumentationEvent<'_>| {
            if let InstrumentationEvent::StartQuery { query, .. } = event {
                log.lock().expect("unpoisoned").push(query.to_string());
            }
        });
        Ok(())
    }
}

impl Log {
    /// The statements since the last call, each with its binds.
    pub(crate) fn take(&self) -> Vec<(String, String)> {
        let log = std::mem::take(&mut *self.0.lock().expect("unpoisoned"));
        let split = |query: &String| {
            let (text, binds) = query.split_once(" -- binds: ")?;
            Some((text.to_owned(), binds.to_owned()))
        };
        log.iter().filter_map(split).collect()
    }
}
