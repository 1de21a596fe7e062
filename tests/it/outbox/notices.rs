//! Notices on PostgreSQL: what one process commits to a lane of another is sent at once, and by the poll where they fail.
//!
//! The owner's poll comes once in ten minutes, so that within a test nothing but a notice wakes it.

use std::collections::BTreeSet;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use diesel::connection::{Connection, InstrumentationEvent, SimpleConnection as _};
use diesel::pg::PgConnection;
use diesel::r2d2::{ConnectionManager, Pool as R2d2Pool};
use diesel::sql_types::{Integer, Text};
use diesel::{QueryableByName, RunQueryDsl as _};
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_outbox::internals::limits;
use diesel_outbox::internals::store::Store;
use diesel_outbox::relay::Relay;
use diesel_outbox::store::{NoticeConnection, PostgresStore};
use diesel_outbox::transport::MemoryTransport;
use diesel_outbox::{Limits, Message, MessageId, Outbox, Topic};

use super::databases::{fresh_postgres, pool};
use super::logged::Log;

const DEADLINE: Duration = Duration::from_secs(60);

const TOPIC: &str = "accounts";

/// The name under which the server knows the owner's connection for notices.
const LISTENER_NAME: &str = "outbox-listener";

fn outbox(lanes: u16) -> Outbox {
    let builder = Outbox::builder().topic(Topic::new(TOPIC).ordered_by_key().lanes(lanes));
    builder.allow_outside_transaction().build().expect("an outbox")
}

fn slow_poll_limits() -> Limits {
    Limits::default().poll_interval(Duration::from_secs(600)).lane_lease_duration(Duration::from_secs(1_800))
}

fn sync_store(url: &str, notices: NoticeConnection) -> PostgresStore<R2d2Pool<ConnectionManager<PgConnection>>> {
    PostgresStore::new(pool::<PgConnection>(url)).notice_connection(notices)
}

fn async_store(url: &str) -> PostgresStore<Pool<AsyncPgConnection>> {
    let manager = AsyncDieselConnectionManager::<AsyncPgConnection>::new(url);
    PostgresStore::new(Pool::builder(manager).build().expect("a pool"))
        .notice_connection(NoticeConnection::new(with_listener_name(url)))
}

fn with_listener_name(url: &str) -> String {
    format!("{url}?application_name={LISTENER_NAME}")
}

async fn until(what: &str, mut state: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !state() {
        assert!(Instant::now() < end, "not within {DEADLINE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[derive(QueryableByName)]
struct Pid {
    #[diesel(sql_type = Integer)]
    pid: i32,
}

#[derive(QueryableByName)]
struct Name {
    #[diesel(sql_type = Text)]
    name: String,
}

/// The connections of this database that listen under a name.
fn listening(side: &mut PgConnection) -> Vec<i32> {
    let sql = format!(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = '{LISTENER_NAME}' \
         AND query LIKE 'LISTEN%' AND state = 'idle'"
    );
    diesel::sql_query(sql).load::<Pid>(side).expect("activity").into_iter().map(|row| row.pid).collect()
}

/// A process that owns every lane, and one that commits and owns none: the owner keeps them until its next look.
struct Processes {
    url: String,
    side: PgConnection,
    broker: MemoryTransport,
    owner: Relay,
    _owner_outbox: Outbox,
    outbox: Outbox,
    _committer: Relay,
}

impl Processes {
    async fn start<S: Store>(
        lanes: u16,
        owners: impl FnOnce(&str) -> S,
        committers: impl FnOnce(&str) -> S,
    ) -> Option<Self> {
        let url = fresh_postgres()?;
        let broker = MemoryTransport::new();
        let (owner_outbox, outbox) = (self::outbox(lanes), self::outbox(lanes));
        let owner = relay(&owner_outbox, owners(&url), &broker).await;
        until("one owns every lane", || owned(&owner) == usize::from(lanes)).await;
        let committer = relay(&outbox, committers(&url), &broker).await;
        let side = PgConnection::establish(&url).expect("connect");
        Some(Self { url, side, broker, owner, _owner_outbox: owner_outbox, outbox, _committer: committer })
    }

    fn connect(&self) -> PgConnection {
        let mut conn = PgConnection::establish(&self.url).expect("connect");
        conn.batch_execute("SET synchronous_commit = off").expect("set");
        conn
    }

    async fn wait_for_listeners(&mut self, ears: usize) {
        until("every relay listens", || listening(&mut self.side).len() == ears).await;
    }

    async fn sent(&self, messages: &[MessageId]) {
        let sent = self.broker.wait_for_delivered(messages.len(), DEADLINE).await.expect("in time");
        assert_eq!(sent.iter().map(|envelope| envelope.message_id).collect::<Vec<_>>(), messages);
    }
}

async fn relay(outbox: &Outbox, store: impl Store, broker: &MemoryTransport) -> Relay {
    outbox.relay().store(store).transport(broker.clone()).limits(slow_poll_limits()).start().await.expect("start")
}

fn owned(relay: &Relay) -> usize {
    let status = relay.status();
    status.lanes.iter().filter(|lane| lane.owner == Some(status.node)).count()
}

fn message(key: &str) -> Message {
    Message::to(TOPIC).key(key)
}

/// Without them it stays where it is, though its lane has an owner that reads others; and all of it is outside of the
/// transaction.
async fn wake(mut processes: Processes) {
    let mut conn = processes.connect();
    let texts = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&texts);
    conn.set_instrumentation(processes.outbox.commit_hook().chain(move |event: InstrumentationEvent<'_>| {
        if let InstrumentationEvent::StartQuery { query, .. } = event {
            seen.lock().expect("unpoisoned").push(query.to_string().to_lowercase());
        }
    }));
    processes.wait_for_listeners(2).await;
    let mut all = Vec::new();
    for key in ["a", "b", "a", "c"] {
        let outbox = &processes.outbox;
        all.push(conn.transaction(|conn| outbox.enqueue(conn, &message(key))).expect("commit"));
        processes.sent(&all).await;
    }
    {
        let texts = texts.lock().expect("unpoisoned");
        assert!(texts.iter().any(|text| text.contains("insert into outbox_messages")), "{texts:?}");
        assert!(!texts.iter().any(|text| text.contains("notify")), "{texts:?}");
    }

    // A process that sends no notices.
    let silent = self::outbox(16);
    let store = PostgresStore::new(pool::<PgConnection>(&processes.url));
    let _relay = relay(&silent, store, &processes.broker).await;
    let mut quiet = processes.connect();
    let waits = silent.enqueue(&mut quiet, &message("alone")).expect("enqueue");
    all.push(processes.outbox.enqueue(&mut conn, &message("a")).expect("enqueue"));
    processes.sent(&all).await;

    // A relay that reconnects polls for the commits whose notices it missed.
    for pid in listening(&mut processes.side) {
        processes.side.batch_execute(&format!("SELECT pg_terminate_backend({pid})")).expect("terminate");
    }
    all.push(waits);
    processes.sent(&all).await;
    processes.wait_for_listeners(2).await;
    all.push(processes.outbox.enqueue(&mut conn, &message("b")).expect("enqueue"));
    processes.sent(&all).await;
    assert_eq!(owned(&processes.owner), 16, "it was the other's all the time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_wakes_the_owner_elsewhere_sync() {
    let store = |url: &str| sync_store(url, NoticeConnection::libpq(with_listener_name(url)));
    let Some(processes) = Processes::start(16, store, store).await else { return };
    wake(processes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_wakes_the_owner_elsewhere_async() {
    let Some(processes) = Processes::start(16, async_store, async_store).await else { return };
    wake(processes).await;
}

/// Both ways of enqueueing, between an application of each kind.
#[tokio::test(flavor = "multi_thread")]
async fn an_async_commit_wakes_too() {
    let Some(mut processes) = Processes::start(16, async_store, async_store).await else { return };
    processes.wait_for_listeners(2).await;
    let mut conn = AsyncPgConnection::establish(&processes.url).await.expect("connect");
    let mut all = Vec::new();
    for key in ["a", "b"] {
        all.push(processes.outbox.enqueue_async(&mut conn, &message(key)).await.expect("enqueue"));
        processes.sent(&all).await;
    }
}

/// What is said on the channel of the lanes, by anybody.
struct NoticeLog {
    conn: PgConnection,
    texts: Vec<String>,
}

impl NoticeLog {
    fn of(url: &str) -> Self {
        let mut conn = PgConnection::establish(url).expect("connect");
        let sql = "SELECT 'outbox_lanes_' || 'outbox_lanes'::regclass::oid AS name";
        let channel = diesel::sql_query(sql).get_result::<Name>(&mut conn).expect("its channel").name;
        conn.batch_execute(&format!("LISTEN {channel}")).expect("listen");
        Self { conn, texts: Vec::new() }
    }

    /// All but what relays say to themselves.
    fn so_far(&mut self) -> &[String] {
        let received = self.conn.notifications_iter().map(|received| received.expect("a notification").payload);
        self.texts.extend(received.filter(|text| !text.starts_with('=')));
        &self.texts
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_commits_are_few_notices() {
    const COMMITS: usize = 10_000;
    let Some(mut processes) = Processes::start(16, async_store, async_store).await else { return };
    processes.wait_for_listeners(2).await;
    let mut overheard = NoticeLog::of(&processes.url);
    let (mut conn, outbox) = (processes.connect(), processes.outbox.clone());
    let began = Instant::now();
    let commits = tokio::task::spawn_blocking(move || {
        for number in 0..COMMITS {
            outbox.enqueue(&mut conn, &message(&(number % 100).to_string())).expect("enqueue");
        }
        began.elapsed()
    });
    let took = commits.await.expect("they are committed");
    processes.broker.wait_for_delivered(COMMITS, DEADLINE).await.expect("in time");
    // One at the beginning and one for each interval, which none of them cuts short; those of the end included.
    let most = began.elapsed().as_millis() / limits::NOTICE_INTERVAL.as_millis() + 2;
    let count = overheard.so_far().len();
    assert!(count > 0 && (count as u128) <= most, "{count} notices of {COMMITS} commits in {took:?}");
    assert!(count * 10 < COMMITS, "{count} notices of {COMMITS} commits in {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_more_lanes_than_one_notice_holds_is_notified() {
    const LANES: u16 = limits::LANES_MAX;
    let Some(mut processes) = Processes::start(LANES, async_store, async_store).await else { return };
    processes.wait_for_listeners(2).await;
    let mut overheard = NoticeLog::of(&processes.url);
    let mut conn = processes.connect();
    let messages: Vec<_> = (0..8 * LANES).map(|number| message(&number.to_string())).collect();
    let lanes: BTreeSet<u16> =
        (0..8 * LANES).map(|number| diesel_outbox::lane_of(&number.to_string(), LANES)).collect();
    let outbox = &processes.outbox;
    let sent = conn.transaction(|conn| outbox.enqueue_all(conn, &messages)).expect("commit");
    processes.broker.wait_for_delivered(sent.len(), DEADLINE).await.expect("in time");
    let texts = overheard.so_far();
    assert!(texts.len() >= 2 && texts.len() < 20, "{} notices", texts.len());
    assert!(texts.iter().all(|text| text.len() <= limits::NOTICE_BYTES_MAX));
    let notified = texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.split_once(' '));
    let notified =
        notified.flat_map(|(lanes, _)| lanes.split(',')).filter_map(|lane| lane.split(':').next()?.parse().ok());
    assert_eq!(notified.collect::<BTreeSet<u16>>(), lanes);
}

/// Sends by the poll alone, and says so once, until `enough`.
async fn polls(url: &str, notices: NoticeConnection, reason: &str, enough: impl Fn() -> bool) {
    let (log, _logging) = Log::begin();
    let (outbox, broker) = (self::outbox(4), MemoryTransport::new());
    let limits = Limits::default().poll_interval(Duration::from_millis(50));
    let relay = outbox.relay().store(sync_store(url, notices)).transport(broker.clone()).limits(limits);
    let relay = relay.start().await.expect("it starts");
    // By hand, without a notice.
    let mut conn = PgConnection::establish(url).expect("connect");
    let lane = diesel_outbox::lane_of("a", 4);
    let insert = format!(
        "INSERT INTO outbox_messages (message_id, topic, lane, key, kind, headers, due_at) \
         VALUES (gen_random_uuid(), '{TOPIC}', {lane}, 'a', '', '[]', 'epoch')"
    );
    for count in 1..4 {
        conn.batch_execute(&insert).expect("insert");
        broker.wait_for_delivered(count, DEADLINE).await.expect("in time");
    }
    until("it was tried often enough", enough).await;
    until("the log says why", || log.times(reason) > 0).await;
    let texts = log.text();
    assert_eq!(log.times("notices are not received"), 1, "{texts}");
    assert_eq!(log.times("swordfish"), 0, "{texts}");
    assert!(relay.shutdown(DEADLINE).await.is_clean());
}

/// A server that closes each connection at once, and counts them.
fn refusing() -> (u16, Arc<Mutex<usize>>) {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = server.local_addr().expect("an address").port();
    let count = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || server.incoming().for_each(|_| *counted.lock().expect("unpoisoned") += 1));
    (port, count)
}

#[tokio::test]
async fn a_refused_notice_connection_falls_back_to_polling() {
    let Some(url) = fresh_postgres() else { return };
    for notices in [NoticeConnection::new, NoticeConnection::libpq as fn(String) -> NoticeConnection] {
        let (port, tries) = refusing();
        let notices = notices(format!("postgres://nobody:swordfish@127.0.0.1:{port}/nothing"));
        polls(&url, notices, "notices are not received", || *tries.lock().expect("unpoisoned") >= 2).await;
    }
}

/// As behind pgbouncer in transaction mode: LISTEN is answered, and nothing comes. Here because it is another database.
#[tokio::test]
async fn a_dead_notice_connection_is_detected() {
    let (Some(url), Some(elsewhere)) = (fresh_postgres(), fresh_postgres()) else { return };
    polls(&url, NoticeConnection::new(elsewhere), "did not receive its own notice", || true).await;
}

/// Their drivers repeat what they cannot read.
#[tokio::test]
async fn a_mistyped_url_keeps_its_password() {
    let Some(url) = fresh_postgres() else { return };
    let mistyped = "postgress://u:swordfish@h/db".to_owned();
    polls(&url, NoticeConnection::libpq(mistyped.clone()), "[redacted]", || true).await;
    polls(&url, NoticeConnection::new(mistyped), "notices are not received", || true).await;
}

/// As behind a load balancer whose server is gone. That this test ends shows that no thread of the runtime waits for it.
#[tokio::test]
async fn libpq_opens_one_connection_at_a_time() {
    let Some(url) = fresh_postgres() else { return };
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let notices = NoticeConnection::libpq(format!("postgres://u@{address}/db?sslmode=disable&gssencmode=disable"));
    let store = sync_store(&url, notices);
    let store = store.notices().expect("it passes notices on");
    silent.set_nonblocking(true).expect("a socket option");
    let listen = || tokio::time::timeout(Duration::from_millis(200), store.listen());
    let connected = async || {
        let end = Instant::now() + DEADLINE;
        while Instant::now() < end && listen().await.is_err() {
            if let Ok((connection, _)) = silent.accept() {
                return connection;
            }
        }
        panic!("no connection within {DEADLINE:?}, or somebody answers");
    };
    let first = connected().await;
    for _ in 0..3 {
        assert!(listen().await.is_err(), "no server answers");
    }
    assert_eq!(silent.accept().map(drop).map_err(|error| error.kind()), Err(io::ErrorKind::WouldBlock));

    // What it waited for ends, and the next try begins anew.
    drop(first);
    let ended = store.listen().await.expect_err("it was closed");
    assert!(ended.is_retriable(), "{ended}");
    connected().await;
}
