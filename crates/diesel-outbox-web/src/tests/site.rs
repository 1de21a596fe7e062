//! An application with a dashboard, and what its tests do to its messages.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use diesel::Connection as _;
use diesel::connection::SimpleConnection as _;
use diesel_outbox::admin::{Admin, AuditEntry, AuditFilter};
use diesel_outbox::internals::store::{
    Failed, Held, HistoryRow, InsertOptions, Keep, LaneBalanceSpec, LaneCount, Locking, NewDeadLetter, RowKey, Store,
    WithFence,
};
use diesel_outbox::store::{MemoryStore, SQLITE_PRAGMAS, SqliteStore};
use diesel_outbox::{Envelope, Headers, Message, MessageId, NodeId, Outbox, Topic};
use tokio::task::JoinHandle;

use super::client::{self, Response};
use crate::{Access, Dashboard, Right};

/// Where the router is nested.
pub(crate) const AT: &str = "/ops/outbox";

/// In each payload and in a header's value, and so in no page for those who may not see them.
pub(crate) const SECRET: &str = "swordfish";

pub(crate) const EVERYTHING: &str = "view,payloads,audit,pause,send-now,cancel,redrive,edit,purge,resend,stop-jobs";

/// What a browser sends with a form of the dashboard itself.
const SAME_ORIGIN: (&str, &str) = ("sec-fetch-site", "same-origin");

enum Data {
    Memory(MemoryStore),
    Sqlite { store: Box<dyn Store>, path: String, _folder: tempfile::TempDir },
}

pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) outbox: Outbox,
    pub(crate) admin: Admin,
    data: Data,
    server: JoinHandle<()>,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Runs a test on each store that needs no server.
pub(crate) async fn on_each(test: impl AsyncFn(&Site)) {
    test(&Site::in_memory().await).await;
    test(&Site::on_sqlite().await).await;
}

fn outbox() -> Outbox {
    let kept = Topic::new("invoices").keep_sent_days(30).processed_within(Duration::from_secs(1));
    let ordered = Topic::new("payments").ordered_by_key().lanes(4);
    Outbox::builder().topic(Topic::new("orders")).topic(kept).topic(ordered).build().expect("an outbox")
}

/// Who a request says it is from. A real application has a login instead.
fn access(request: &axum::http::request::Parts) -> Option<Access> {
    let header = |name| request.headers.get(name)?.to_str().ok();
    let rights = header("x-rights")?.split(',').filter_map(Right::from_name).collect();
    Some(Access::new(header("x-actor")?, rights))
}

impl Site {
    pub(crate) async fn in_memory() -> Self {
        let (outbox, store) = (outbox(), MemoryStore::new());
        let dashboard = Dashboard::new(&outbox, store.clone(), access);
        let admin = outbox.admin(store.clone());
        Self::serve(outbox, admin, dashboard, Data::Memory(store)).await
    }

    pub(crate) async fn on_sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("shop.db").display().to_string();
        let outbox = outbox();
        let mut conn = diesel::SqliteConnection::establish(&path).expect("connect");
        conn.batch_execute(SQLITE_PRAGMAS).expect("set up");
        outbox.migrate(&mut conn).expect("migrate");
        let open = || SqliteStore::connect(path.clone()).expect("a store");
        let dashboard = Dashboard::new(&outbox, open(), access);
        let admin = outbox.admin(open());
        let data = Data::Sqlite { store: Box::new(open()), path, _folder: folder };
        Self::serve(outbox, admin, dashboard, data).await
    }

    async fn serve(outbox: Outbox, admin: Admin, dashboard: Dashboard, data: Data) -> Self {
        let app = Router::new().nest(AT, dashboard.router());
        let (address, server) = listen(app).await;
        Self { address, outbox, admin, data, server }
    }

    pub(crate) fn store(&self) -> &dyn Store {
        match &self.data {
            Data::Memory(store) => store,
            Data::Sqlite { store, .. } => &**store,
        }
    }

    /// The store in memory, for its faults.
    pub(crate) fn store_in_memory(&self) -> &MemoryStore {
        match &self.data {
            Data::Memory(store) => store,
            Data::Sqlite { .. } => unreachable!("this test is on the store in memory"),
        }
    }

    /// Runs SQL on SQLite.
    pub(crate) fn run(&self, sql: &str) {
        let Data::Sqlite { path, .. } = &self.data else { unreachable!("this test is on SQLite") };
        diesel::SqliteConnection::establish(path).expect("connect").batch_execute(sql).expect("SQL");
    }

    /// Waits until the database's clock is further: what died before then is told from what dies later.
    pub(crate) async fn pass(&self, time: Duration) {
        let end = self.admin.now().await.expect("now") + time;
        while self.admin.now().await.expect("now") < end {
            tokio::task::yield_now().await;
        }
    }

    /// Writes a message as a process without a relay does.
    pub(crate) async fn insert(&self, message: &Message, delay: Option<Duration>) -> RowKey {
        use diesel_outbox::OutboxMessage as _;
        match &self.data {
            Data::Memory(store) => {
                let mut envelope =
                    Envelope::new(MessageId::new(), message.topic().as_ref().into(), SystemTime::UNIX_EPOCH);
                envelope.key = message.key().map(|key| key.into_owned());
                envelope.kind = message.kind().into_owned();
                envelope.headers = message.headers();
                envelope.payload = message.payload().expect("bytes");
                let options = InsertOptions::default();
                store.insert(envelope, delay.map_or(options, |delay| options.deliver_after(delay)))
            }
            Data::Sqlite { path, .. } => {
                let mut conn = diesel::SqliteConnection::establish(path).expect("connect");
                conn.batch_execute(SQLITE_PRAGMAS).expect("set up");
                let message = delay.map_or(message.clone(), |delay| message.clone().delay(delay));
                let written = conn.immediate_transaction(|conn| self.outbox.enqueue(conn, &message));
                let message_id = written.expect("enqueue");
                let id = self.admin.live_message(message_id).await.expect("a live message").id;
                RowKey { id, message_id }
            }
        }
    }

    /// Writes a message with a secret payload.
    pub(crate) async fn live(&self, topic: &str, key: &str) -> MessageId {
        self.insert(&secret(topic, key), None).await.message_id
    }

    pub(crate) async fn delayed(&self, key: &str) -> MessageId {
        self.insert(&secret("orders", key), Some(Duration::from_secs(7_200))).await.message_id
    }

    /// Writes one that has failed once, and was then dead-lettered.
    pub(crate) async fn dead(&self, topic: &str, key: &str, reason: &str) -> MessageId {
        let row = self.insert(&secret(topic, key), None).await;
        assert_eq!(self.store().fail(&[failure(row, 0)]).await.expect("fail"), [row]);
        let dead = NewDeadLetter { held: Held { key: row, epoch: 1 }, reason: reason.into() };
        assert_eq!(self.store().dead_letter(&[dead]).await.expect("dead-letter"), [row]);
        row.message_id
    }

    /// Writes a message of a key in a lane that has failed, and others behind it. A node owns the lanes.
    pub(crate) async fn blocked(&self, key: &str, behind: usize) -> MessageId {
        let (store, node, topic) = (self.store_in_memory(), NodeId::new(), Arc::<str>::from("payments"));
        let lanes = store.lanes();
        lanes.prepare_lanes(&[LaneCount { topic: topic.clone(), lanes: 4 }]).await.expect("prepare");
        let spec = LaneBalanceSpec {
            topic: topic.clone(),
            node,
            renew: Vec::new(),
            release: Vec::new(),
            joins: true,
            lease_duration: Duration::from_secs(600),
            quiet_duration: Duration::ZERO,
        };
        let view = lanes.balance_lanes(&spec).await.expect("balance");
        let lane = diesel_outbox::lane_of(key, 4);
        let fence = view.lanes.iter().find(|state| state.lane == lane).expect("the lane").fence;
        let mut rows = Vec::new();
        for _ in 0..=behind {
            let mut envelope = Envelope::new(MessageId::new(), topic.clone(), SystemTime::UNIX_EPOCH);
            envelope.key = Some(key.to_owned());
            rows.push(store.insert(envelope, InsertOptions::default().in_lane(lane)));
        }
        let failed = failure(rows[0], 0);
        let failed = WithFence { fence, value: failed };
        assert_eq!(lanes.fail_in_lanes(&topic, node, &[failed]).await.expect("fail"), [rows[0]]);
        rows[0].message_id
    }

    /// Writes one that was sent, and is kept.
    pub(crate) async fn sent(&self, key: &str) -> MessageId {
        let row = self.insert(&secret("invoices", key), None).await;
        let keep = Keep { days: 30, awaits_processing: true };
        let history = self.store().history();
        let moved = history.settle_into_history(&[HistoryRow { key: row, keep }], Locking::Skip).await;
        assert_eq!(moved.expect("settle"), [row]);
        row.message_id
    }

    /// Requests a page with every right.
    pub(crate) async fn get(&self, path: &str) -> Response {
        self.get_as(EVERYTHING, path).await
    }

    pub(crate) async fn get_as(&self, rights: &str, path: &str) -> Response {
        self.send(rights, "GET", path, &[], "").await
    }

    /// Sends a form with every right.
    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Response {
        self.post_as(EVERYTHING, path, fields).await
    }

    pub(crate) async fn post_as(&self, rights: &str, path: &str, fields: &[(&str, &str)]) -> Response {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let form = ("content-type", "application/x-www-form-urlencoded");
        self.send(rights, "POST", path, &[SAME_ORIGIN, form], &body).await
    }

    pub(crate) async fn send(
        &self,
        rights: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response {
        let host = self.address.to_string();
        let headers = [&[("host", host.as_str()), ("x-actor", "alice"), ("x-rights", rights)], headers].concat();
        client::send(self.address, method, &format!("{AT}{path}"), &headers, body).await
    }

    /// The latest entry of the audit.
    pub(crate) async fn audited(&self) -> Option<AuditEntry> {
        let page = self.admin.audit(&AuditFilter::new(), None, 1).await.expect("the audit");
        page.items.into_iter().next()
    }

    /// Everything that the acts could have changed.
    pub(crate) async fn snapshot(&self) -> String {
        let letters = self.admin.dead_letters(&Default::default(), None, 100).await.expect("dead letters");
        let backlog = self.admin.backlog().await.expect("backlog");
        let counts: Vec<_> =
            backlog.topics.iter().map(|topic| (&topic.topic, topic.live, topic.due, topic.dead)).collect();
        let paused = self.admin.paused().await.expect("paused");
        format!("{:?} {counts:?} {paused:?} {:?}", letters.items, self.audited().await.map(|entry| entry.id))
    }
}

pub(crate) async fn listen(app: Router) -> (SocketAddr, JoinHandle<()>) {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("listen");
    let address = listener.local_addr().expect("an address");
    (address, tokio::spawn(async move { axum::serve(listener, app).await.expect("serve") }))
}

fn failure(key: RowKey, epoch: i32) -> Failed {
    Failed {
        held: Held { key, epoch },
        wait: Duration::ZERO,
        spends_attempt: true,
        class: "record",
        error: "amount is negative".into(),
    }
}

fn secret(topic: &str, key: &str) -> Message {
    let headers: Headers = [("token", SECRET)].into_iter().collect();
    let payload = format!(r#"{{"word":"{SECRET}"}}"#);
    Message::to(topic).kind("order.placed").key(key).replace_headers(headers).payload_bytes(payload)
}
