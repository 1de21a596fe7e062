//! A database with an outbox in it, on each server, and messages in every state.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use diesel::sqlite::SqliteConnection;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection, AsyncMysqlConnection, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_outbox::admin::Admin;
use diesel_outbox::internals::store::{
    Failed, Held, HistoryRow, Keep, LaneBalanceSpec, LaneCount, Locking, NewDeadLetter, RowKey, Store, WithFence,
};
use diesel_outbox::store::{MysqlStore, PostgresStore, SQLITE_PRAGMAS, SqliteStore};
use diesel_outbox::{Message, MessageId, NodeId, Outbox, Topic, lane_of};
use tempfile::TempDir;
use xtask::servers::ServerKind;
use xtask::test_servers;

use super::program::{Ran, run};

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Postgres,
    Mariadb,
    Sqlite,
}

pub(super) const LANES: u16 = 4;

/// A database of a test.
pub(super) struct Shop {
    kind: Kind,
    pub(super) url: String,
    pub(super) outbox: Outbox,
    pub(super) store: Arc<dyn Store>,
    _folder: TempDir,
}

/// The outbox of the application.
pub(super) fn outbox() -> Outbox {
    let orders = Topic::new("orders").keep_sent_days(30).processed_within(Duration::from_secs(600));
    let payments = Topic::new("payments").ordered_by_key().lanes(LANES);
    let builder = Outbox::builder().topic(orders).topic(payments).topic(Topic::new("invoices"));
    builder.allow_outside_transaction().build().expect("build")
}

/// Does something over a connection of each kind.
macro_rules! over_connection {
    ($shop:expr, $conn:ident => $done:expr) => {
        match $shop.kind {
            Kind::Postgres => {
                let mut $conn = AsyncPgConnection::establish(&$shop.url).await.expect("connect");
                $done
            }
            Kind::Mariadb => {
                let mut $conn = AsyncMysqlConnection::establish(&$shop.url).await.expect("connect");
                $done
            }
            Kind::Sqlite => {
                let path = $shop.url.trim_start_matches("sqlite:");
                let mut $conn = SyncConnectionWrapper::<SqliteConnection>::establish(path).await.expect("open");
                $conn.batch_execute(SQLITE_PRAGMAS).await.expect("wait for locks");
                $done
            }
        }
    };
}

impl Shop {
    /// Without the outbox's tables; `None` if there is no such server, which is recorded.
    pub(super) async fn empty(kind: Kind) -> Option<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("cli_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = tempfile::tempdir().expect("a folder");
        let create = format!("CREATE DATABASE {name}");
        let sibling = |server: &str| format!("{}/{name}", server.rsplit_once('/').expect("a URL with a database").0);
        let (url, store): (String, Arc<dyn Store>) = match kind {
            Kind::Postgres => {
                let server = test_servers::shared_or_skip(ServerKind::Postgres)?;
                let mut conn = AsyncPgConnection::establish(&server).await.expect("connect");
                conn.batch_execute(&create).await.expect("create");
                let url = sibling(&server);
                (url.clone(), Arc::new(PostgresStore::connect(url).expect("a URL")))
            }
            Kind::Mariadb => {
                let server = test_servers::shared_or_skip(ServerKind::Mariadb)?;
                let mut conn = AsyncMysqlConnection::establish(&server).await.expect("connect");
                conn.batch_execute(&create).await.expect("create");
                let url = sibling(&server);
                (url.clone(), Arc::new(MysqlStore::connect(url).expect("a URL")))
            }
            Kind::Sqlite => {
                let path = folder.path().join("shop.db").to_str().expect("a plain path").to_owned();
                // The file has to be there before the program opens it.
                let mut conn = SyncConnectionWrapper::<SqliteConnection>::establish(&path).await.expect("open");
                conn.batch_execute("PRAGMA journal_mode = WAL").await.expect("set up");
                (format!("sqlite:{path}"), Arc::new(SqliteStore::connect(path).expect("a path")))
            }
        };
        Some(Self { kind, url, outbox: outbox(), store, _folder: folder })
    }

    /// With the tables.
    pub(super) async fn fresh(kind: Kind) -> Option<Self> {
        let shop = Self::empty(kind).await?;
        over_connection!(shop, conn => shop.outbox.migrate_async(&mut conn).await.expect("migrate"));
        Some(shop)
    }

    pub(super) fn run(&self, args: &[&str]) -> Ran {
        run(&self.url, args)
    }

    pub(super) async fn execute(&self, sql: &str) {
        over_connection!(self, conn => conn.batch_execute(sql).await.expect(sql));
    }

    pub(super) fn admin(&self) -> Admin {
        match self.kind {
            Kind::Postgres => self.outbox.admin(PostgresStore::connect(self.url.as_str()).expect("a URL")),
            Kind::Mariadb => self.outbox.admin(MysqlStore::connect(self.url.as_str()).expect("a URL")),
            Kind::Sqlite => {
                let path = self.url.trim_start_matches("sqlite:");
                self.outbox.admin(SqliteStore::connect(path).expect("a path"))
            }
        }
    }

    pub(super) async fn enqueue(&self, message: &Message) -> MessageId {
        over_connection!(self, conn => self.outbox.enqueue_async(&mut conn, message).await.expect("enqueue"))
    }

    /// Through another outbox on the same tables.
    pub(super) async fn enqueue_by(&self, outbox: &Outbox, message: &Message) -> MessageId {
        over_connection!(self, conn => outbox.enqueue_async(&mut conn, message).await.expect("enqueue"))
    }

    async fn row(&self, message_id: MessageId) -> RowKey {
        let id = self.admin().live_message(message_id).await.expect("it is live").id;
        RowKey { id, message_id }
    }

    pub(super) async fn dead_letter(&self, message: &Message, reason: &str) -> MessageId {
        let key = self.row(self.enqueue(message).await).await;
        let dead = NewDeadLetter { held: Held { key, epoch: 0 }, reason: reason.to_owned() };
        assert_eq!(self.store.dead_letter(&[dead]).await.expect("dead_letter"), [key]);
        key.message_id
    }

    /// A message that failed once, and waits an hour.
    pub(super) async fn failed(&self, message: &Message, error: &str) -> MessageId {
        let key = self.row(self.enqueue(message).await).await;
        assert_eq!(self.store.fail(&[failure(key, error)]).await.expect("fail"), [key]);
        key.message_id
    }

    /// A message in the history, which its consumer is to confirm.
    pub(super) async fn sent(&self, message: &Message) -> MessageId {
        let key = self.row(self.enqueue(message).await).await;
        let keep = Keep { days: 30, awaits_processing: true };
        let history = self.store.history();
        let settled = history.settle_into_history(&[HistoryRow { key, keep }], Locking::Wait).await.expect("settle");
        assert_eq!(settled, [key]);
        key.message_id
    }

    /// A relay that owns the lanes of the payments for an hour, and fails this one.
    pub(super) async fn failed_in_lane(&self, key: &str, message: MessageId, error: &str) {
        let (topic, node) = (Arc::<str>::from("payments"), NodeId::new());
        let lanes = self.store.lanes();
        lanes.prepare_lanes(&[LaneCount { topic: Arc::clone(&topic), lanes: LANES }]).await.expect("prepare");
        let hour = Duration::from_secs(3_600);
        let spec = LaneBalanceSpec {
            topic: Arc::clone(&topic),
            node,
            renew: Vec::new(),
            release: Vec::new(),
            joins: true,
            lease_duration: hour,
            quiet_duration: Duration::ZERO,
        };
        let view = lanes.balance_lanes(&spec).await.expect("balance");
        let fence = view.lanes[usize::from(lane_of(key, LANES))].fence;
        let row = self.row(message).await;
        let failed = WithFence { fence, value: failure(row, error) };
        assert_eq!(lanes.fail_in_lanes(&topic, node, &[failed]).await.expect("fail"), [row]);
    }
}

fn failure(key: RowKey, error: &str) -> Failed {
    Failed {
        held: Held { key, epoch: 0 },
        wait: Duration::from_secs(3_600),
        spends_attempt: true,
        class: "record",
        error: error.to_owned(),
    }
}

pub(super) fn order(key: &str) -> Message {
    let payload = format!(r#"{{"order_id":{key}}}"#);
    Message::to("orders").kind("order.placed").key(key).header("source", "shop").payload_bytes(payload)
}

pub(super) fn payment(key: &str) -> Message {
    Message::to("payments").kind("payment.made").key(key).payload_bytes("{}")
}
