//! A database with an outbox, on each server, and a relay.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use diesel::sqlite::SqliteConnection;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection as _, AsyncMysqlConnection, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_outbox::admin::{Admin, SentMessage};
use diesel_outbox::relay::Relay;
use diesel_outbox::store::{MysqlStore, PostgresStore, SQLITE_PRAGMAS, SqliteStore};
use diesel_outbox::transport::Transport;
use diesel_outbox::{Message, MessageId, Outbox, Topic};
use diesel_outbox_verify::{Finding, RecordSource, Report, Verification};
use tempfile::TempDir;
use xtask::servers::ServerKind;
use xtask::test_servers;

pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Postgres,
    Mariadb,
    Sqlite,
}

/// A database of a test, with one topic.
pub(crate) struct Shop {
    kind: Kind,
    url: String,
    outbox: Outbox,
    pub(crate) topic: String,
    _folder: TempDir,
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
                let mut $conn = SyncConnectionWrapper::<SqliteConnection>::establish(&$shop.url).await.expect("open");
                $conn.batch_execute(SQLITE_PRAGMAS).await.expect("set up");
                $done
            }
        }
    };
}

impl Shop {
    /// With the tables; `None` if there is no such server, which is recorded.
    pub(crate) async fn open(kind: Kind, topic: Topic) -> Option<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("verify_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = tempfile::tempdir().expect("a folder");
        let create = format!("CREATE DATABASE {name}");
        let sibling = |server: &str| format!("{}/{name}", server.rsplit_once('/').expect("a URL with a database").0);
        let url = match kind {
            Kind::Postgres => {
                let server = test_servers::shared_or_skip(ServerKind::Postgres)?;
                let mut conn = AsyncPgConnection::establish(&server).await.expect("connect");
                conn.batch_execute(&create).await.expect("create");
                sibling(&server)
            }
            Kind::Mariadb => {
                let server = test_servers::shared_or_skip(ServerKind::Mariadb)?;
                let mut conn = AsyncMysqlConnection::establish(&server).await.expect("connect");
                conn.batch_execute(&create).await.expect("create");
                sibling(&server)
            }
            Kind::Sqlite => folder.path().join("shop.db").to_str().expect("a plain path").to_owned(),
        };
        let name = topic.name().to_owned();
        let outbox = Outbox::builder().topic(topic).allow_outside_transaction().build().expect("build");
        let shop = Self { kind, url, outbox, topic: name, _folder: folder };
        over_connection!(shop, conn => shop.outbox.migrate_async(&mut conn).await.expect("migrate"));
        Some(shop)
    }

    pub(crate) async fn execute(&self, sql: &str) {
        over_connection!(self, conn => conn.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")));
    }

    pub(crate) fn admin(&self) -> Admin {
        let url = self.url.as_str();
        match self.kind {
            Kind::Postgres => self.outbox.admin(PostgresStore::connect(url).expect("a URL")),
            Kind::Mariadb => self.outbox.admin(MysqlStore::connect(url).expect("a URL")),
            Kind::Sqlite => self.outbox.admin(SqliteStore::connect(url).expect("a path")),
        }
    }

    pub(crate) async fn start(&self, transport: impl Transport) -> Relay {
        let (url, relay) = (self.url.as_str(), self.outbox.relay().transport(transport));
        let started = match self.kind {
            Kind::Postgres => relay.store(PostgresStore::connect(url).expect("a URL")).start().await,
            Kind::Mariadb => relay.store(MysqlStore::connect(url).expect("a URL")).start().await,
            Kind::Sqlite => relay.store(SqliteStore::connect(url).expect("a path")).start().await,
        };
        started.expect("start")
    }

    pub(crate) async fn enqueue(&self, key: &str) -> MessageId {
        let message = Message::to(self.topic.as_str()).kind("order.placed").key(key).header("source", "shop");
        let message = message.header("digest", [0xff]).payload_bytes(format!(r#"{{"order_id":{key}}}"#));
        over_connection!(self, conn => self.outbox.enqueue_async(&mut conn, &message).await.expect("enqueue"))
    }

    /// Enqueues messages of these keys, and waits until the relay has sent all messages of the topic.
    pub(crate) async fn send(&self, keys: &[&str]) -> Vec<MessageId> {
        let mut sent = Vec::new();
        for key in keys {
            sent.push(self.enqueue(key).await);
        }
        self.wait_for_sent(&sent).await;
        sent
    }

    pub(crate) async fn wait_for_sent(&self, messages: &[MessageId]) {
        let (admin, end) = (self.admin(), Instant::now() + DEADLINE);
        for message in messages {
            while admin.sent(*message).await.is_err() {
                assert!(Instant::now() < end, "{message} was not sent within {DEADLINE:?}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }

    pub(crate) async fn sent(&self, message: MessageId) -> SentMessage {
        self.admin().sent(message).await.expect("it is in the history")
    }

    /// What is compared is what was enqueued before this moment.
    pub(crate) async fn verify(&self, source: &mut dyn RecordSource) -> Report {
        let (admin, topic) = (self.admin(), self.topic.as_str());
        let newest = admin.now().await.expect("the time");
        // Some clocks tick in milliseconds.
        while admin.now().await.expect("the time") <= newest + Duration::from_millis(2) {}
        Verification::of(&admin, topic).run(source, |_| {}).await.expect("verified")
    }

    /// A message id as the database writes it in SQL.
    pub(crate) fn literal(&self, message: MessageId) -> String {
        let hex = message.as_uuid().simple();
        match self.kind {
            Kind::Postgres => format!("'{message}'"),
            Kind::Mariadb | Kind::Sqlite => format!("x'{hex}'"),
        }
    }

    /// Changes the row of a sent message.
    pub(crate) async fn update(&self, message: MessageId, set: &str) {
        let id = self.literal(message);
        self.execute(&format!("UPDATE outbox_history SET {set} WHERE message_id = {id}")).await;
    }

    pub(crate) async fn delete(&self, message: MessageId) {
        let id = self.literal(message);
        self.execute(&format!("DELETE FROM outbox_history WHERE message_id = {id}")).await;
    }

    /// Adds a sent message to the history that was never sent: a copy of another one.
    pub(crate) async fn pretend_sent(&self, like: MessageId) -> MessageId {
        let message = MessageId::new();
        let (new, old) = (self.literal(message), self.literal(like));
        let key = if self.kind == Kind::Mariadb { "`key`" } else { "key" };
        let rest = format!(
            "topic, lane, {key}, kind, headers, payload, deliver_at, epoch, attempts, failures, errors, created_at, sent_at, falls_on, \
             awaits_processing, processed_at"
        );
        self.execute(&format!(
            "INSERT INTO outbox_history (id, message_id, {rest}) SELECT id + 1000000, {new}, {rest} FROM outbox_history \
             WHERE message_id = {old}"
        ))
        .await;
        message
    }

    /// An hour after a column.
    pub(crate) fn an_hour_after(&self, column: &str) -> String {
        match self.kind {
            Kind::Postgres => format!("{column} + interval '1 hour'"),
            Kind::Mariadb => format!("{column} + INTERVAL 1 HOUR"),
            Kind::Sqlite => format!("{column} + 3600000"),
        }
    }

    pub(crate) fn bytes(&self, hex: &str) -> String {
        match self.kind {
            Kind::Postgres => format!("'\\x{hex}'"),
            Kind::Mariadb | Kind::Sqlite => format!("x'{hex}'"),
        }
    }
}

pub(crate) fn kept(topic: &str) -> Topic {
    Topic::new(topic).keep_sent_days(30)
}

/// The verdicts of the findings, with the message of each, sorted.
pub(crate) fn verdicts(report: &Report) -> Vec<(&'static str, Option<MessageId>)> {
    let mut found: Vec<_> = report.findings.iter().map(|finding| (finding.verdict(), finding.message_id())).collect();
    found.sort_unstable();
    found
}

/// Asserts that these are the findings, and that nothing is left open.
#[track_caller]
pub(crate) fn assert_found(report: &Report, expected: &[(&'static str, MessageId)]) {
    let mut expected: Vec<_> = expected.iter().map(|(verdict, message)| (*verdict, Some(*message))).collect();
    expected.sort_unstable();
    assert_eq!(verdicts(report), expected, "{report:#?}");
    assert_eq!(report.cannot_tell, [], "{:#?}", report.findings);
}

/// The one finding of this verdict.
#[track_caller]
pub(crate) fn of<'r>(report: &'r Report, verdict: &str) -> &'r Finding {
    report.findings.iter().find(|finding| finding.verdict() == verdict).unwrap_or_else(|| panic!("{report:#?}"))
}

pub(crate) fn unique_name(name: &str) -> String {
    format!("{name}-{}", MessageId::new())
}
