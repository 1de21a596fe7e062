//! An application with a dashboard, on each database.

use std::time::Duration;

use axum::Router;
use diesel::SqliteConnection;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection, AsyncMysqlConnection, AsyncPgConnection, SimpleAsyncConnection};
use diesel_outbox::admin::Admin;
use diesel_outbox::internals::store::{Failed, Held, NewDeadLetter, RowKey, Store};
use diesel_outbox::relay::Relay;
use diesel_outbox::store::{MysqlStore, OutboxStore, PostgresStore, SQLITE_SET_UP, SqliteStore};
use diesel_outbox::transport::MemoryTransport;
use diesel_outbox::{Message, MessageId, Outbox, OutboxBuilder, TableNames, Topic};
use diesel_outbox_web::{Access, Dashboard, Rights};
use tokio::sync::Mutex;
use xtask::servers::ServerKind;
use xtask::test_servers::shared_or_skip;

const AT: &str = "/ops/outbox";

type Sqlite = SyncConnectionWrapper<SqliteConnection>;

enum Connection {
    Postgres(Box<AsyncPgConnection>),
    Mysql(AsyncMysqlConnection),
    Sqlite(Sqlite),
}

pub(crate) struct Shop {
    /// Where the dashboard is.
    pub(crate) url: String,
    pub(crate) admin: Admin,
    outbox: Outbox,
    store: Box<dyn Store>,
    conn: Mutex<Connection>,
    /// What the names of the tables begin with.
    prefix: String,
    /// Sends invoices, which are kept.
    _relay: Relay,
    _folder: Option<tempfile::TempDir>,
}

/// Invoices are sent by a relay of their own outbox, so that what is done to orders stays as it is.
fn invoices() -> Topic {
    Topic::new("invoices").keep_sent_days(30).processed_within(Duration::from_secs(3_600))
}

fn shop(names: &TableNames) -> OutboxBuilder {
    let payments = Topic::new("payments").ordered_by_key().lanes(4);
    Outbox::builder().tables(names.clone()).topic(Topic::new("orders")).topic(invoices()).topic(payments)
}

/// Tables of this test alone, in a database that several share.
fn names() -> TableNames {
    let unique = MessageId::new().as_uuid().simple().to_string();
    TableNames::default().prefix(format!("w{}_", &unique[20..])).expect("a prefix")
}

impl Shop {
    pub(crate) async fn on_postgres() -> Option<Self> {
        let (url, names) = (shared_or_skip(ServerKind::Postgres)?, names());
        let conn = AsyncPgConnection::establish(&url).await.expect("connect");
        let open = || PostgresStore::connect(url.clone()).expect("a store");
        Some(Self::with(&names, Connection::Postgres(Box::new(conn)), open, None).await)
    }

    pub(crate) async fn on_mariadb() -> Option<Self> {
        let (url, names) = (shared_or_skip(ServerKind::Mariadb)?, names());
        let conn = AsyncMysqlConnection::establish(&url).await.expect("connect");
        let open = || MysqlStore::connect(url.clone()).expect("a store");
        Some(Self::with(&names, Connection::Mysql(conn), open, None).await)
    }

    pub(crate) async fn on_sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("shop.db").display().to_string();
        let mut conn = Sqlite::establish(&path).await.expect("connect");
        conn.batch_execute(SQLITE_SET_UP).await.expect("set up");
        let open = || SqliteStore::connect(path.clone()).expect("a store");
        Self::with(&TableNames::default(), Connection::Sqlite(conn), open, Some(folder)).await
    }

    async fn with<S: OutboxStore + Store>(
        names: &TableNames,
        mut conn: Connection,
        open: impl Fn() -> S,
        folder: Option<tempfile::TempDir>,
    ) -> Self {
        let outbox = shop(names).build().expect("an outbox");
        let migrated = match &mut conn {
            Connection::Postgres(conn) => {
                outbox.migrate_async(&mut **conn).await.map(drop).map_err(|error| error.to_string())
            }
            Connection::Mysql(conn) => outbox.migrate_async(conn).await.map(drop).map_err(|error| error.to_string()),
            Connection::Sqlite(conn) => outbox.migrate_async(conn).await.map(drop).map_err(|error| error.to_string()),
        };
        migrated.expect("migrate");
        let sender = Outbox::builder().tables(names.clone()).topic(invoices()).build().expect("an outbox");
        let relay = sender.relay().store(open()).transport(MemoryTransport::new()).start().await.expect("a relay");
        let everybody = |_: &axum::http::request::Parts| Some(Access::new("ann", Rights::all()));
        let dashboard = Dashboard::new(&outbox, open(), everybody).relay(relay.handle());
        let url = serve(Router::new().nest(AT, dashboard.router())).await + AT;
        let mut store = open();
        store.use_tables(names);
        Self {
            url,
            admin: outbox.admin(open()),
            outbox,
            store: Box::new(store),
            conn: Mutex::new(conn),
            prefix: names.inbox().trim_end_matches("inbox").to_owned(),
            _relay: relay,
            _folder: folder,
        }
    }

    pub(crate) async fn enqueue(&self, message: &Message) -> MessageId {
        let outbox = &self.outbox;
        let written = match &mut *self.conn.lock().await {
            Connection::Postgres(conn) => {
                conn.transaction(async |conn| outbox.enqueue_async(conn, message).await).await
            }
            Connection::Mysql(conn) => conn.transaction(async |conn| outbox.enqueue_async(conn, message).await).await,
            Connection::Sqlite(conn) => conn.transaction(async |conn| outbox.enqueue_async(conn, message).await).await,
        };
        written.expect("enqueue")
    }

    /// Creates the consumers' tables, and parks records of one key there.
    pub(crate) async fn park(&self, offsets: std::ops::Range<i64>) {
        let mut conn = self.conn.lock().await;
        let (tables, key, at) = match &*conn {
            Connection::Postgres(_) => (
                include_str!("../../../../migrations/consumer/postgres/0000consumer01_progress/up.sql"),
                "'k'",
                "now()",
            ),
            Connection::Mysql(_) => (
                include_str!("../../../../migrations/consumer/mysql/0000consumer01_progress/up.sql"),
                "X'6b'",
                "UTC_TIMESTAMP(6)",
            ),
            Connection::Sqlite(_) => (
                include_str!("../../../../migrations/consumer/sqlite/0000consumer01_progress/up.sql"),
                "X'6b'",
                "1700000000000",
            ),
        };
        let records = offsets.map(|offset| {
            format!(
                "INSERT INTO outbox_parked (consumer, topic, partition_name, record_offset, record_key, headers, payload, sent_at_ms, parked_at,
                   holds_key, error) VALUES ('billing', 'orders', '0', {offset}, {key}, '[]', {key}, -1, {at}, 1, 'no address');"
            )
        });
        let sql = records.fold(tables.to_owned(), |sql, record| sql + &record).replace("outbox_", &self.prefix);
        let ran = match &mut *conn {
            Connection::Postgres(conn) => conn.batch_execute(&sql).await,
            Connection::Mysql(conn) => conn.batch_execute(&sql).await,
            Connection::Sqlite(conn) => conn.batch_execute(&sql).await,
        };
        ran.expect("park");
    }

    pub(crate) async fn live(&self, key: &str) -> MessageId {
        self.enqueue(&order(key)).await
    }

    pub(crate) async fn delayed(&self, key: &str) -> MessageId {
        self.enqueue(&order(key).delay(Duration::from_secs(7_200))).await
    }

    /// One that has failed once, and was dead-lettered.
    pub(crate) async fn dead(&self, key: &str, reason: &str) -> MessageId {
        let message_id = self.live(key).await;
        let row = RowKey { id: self.admin.live_message(message_id).await.expect("a live message").id, message_id };
        let failed = Failed {
            held: Held { key: row, epoch: 0 },
            wait: Duration::ZERO,
            spends_attempt: true,
            class: "record",
            error: "amount is negative".into(),
        };
        self.store.fail(&[failed]).await.expect("fail");
        let dead = NewDeadLetter { held: Held { key: row, epoch: 1 }, reason: reason.into() };
        assert_eq!(self.store.dead_letter(&[dead]).await.expect("dead-letter"), [row]);
        message_id
    }

    pub(crate) async fn dead_count(&self) -> usize {
        self.admin.count_dead_letters().await.expect("count").iter().map(|group| group.count).sum()
    }
}

fn order(key: &str) -> Message {
    let payload = format!("{{\n  \"order\": \"{key}\",\n  \"amount\": -1\n}}");
    Message::to("orders").kind("order.placed").key(key).header("source", "shop").payload_bytes(payload)
}

/// Serves it for the rest of the test; returns the address.
pub(crate) async fn serve(app: Router) -> String {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("listen");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://{address}")
}
