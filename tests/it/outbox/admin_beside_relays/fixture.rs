use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use diesel::connection::Connection;
use diesel::mysql::MysqlConnection;
use diesel::pg::PgConnection;
use diesel::sqlite::SqliteConnection;
use diesel_outbox::admin::{Admin, BlockingAdmin};
use diesel_outbox::codec::{Codec, Json};
use diesel_outbox::internals::store::Store;
use diesel_outbox::relay::{DeadLetterEvent, Relay};
use diesel_outbox::store::{MysqlStore, PostgresStore, SqliteStore};
use diesel_outbox::transport::{FailureClass, MemoryTransport, ScriptedResponse};
use diesel_outbox::{
    CodecError, Envelope, Message, MessageId, OnFailedKey, Outbox, OutboxBackend, OutboxMessage, Topic,
};
use serde_json::Value;

use crate::outbox::databases::{SqliteFile, fresh_mariadb, fresh_postgres, pool};

const DEADLINE: Duration = Duration::from_secs(60);

/// The topics: one that keeps what was sent until it is processed, one with order, and a plain one.
pub(super) const ORDERS: &str = "orders";
pub(super) const ACCOUNTS: &str = "accounts";
pub(super) const PAYMENTS: &str = "payments";

/// The broker refuses what has this key, until it is mended; and a refused message is dead at once.
pub(super) const BAD: &str = "bad";

/// More letters than this within a minute raise the alarm.
pub(super) const DEAD_LETTERS_MAX: u16 = 2;

/// What is registered for the orders' kind.
struct Placed;

impl OutboxMessage for Placed {
    const TOPIC: Option<&'static str> = Some(ORDERS);
    const KIND: &'static str = "order.placed";

    fn payload(&self) -> Result<Option<Vec<u8>>, CodecError> {
        Ok(None)
    }

    fn payload_text(payload: &[u8]) -> Result<String, CodecError> {
        <Json as Codec<Value>>::text(payload).map(|text| format!("placed: {text}"))
    }
}

/// By which handle.
#[derive(Debug, Clone, Copy)]
pub(super) enum HandleKind {
    Async,
    Blocking,
}

pub(super) enum Handle {
    Async(Admin),
    /// For ever, because its runtime must not end within another's.
    Blocking(&'static BlockingAdmin),
}

/// A relay that runs, and whoever looks after its messages.
pub(super) struct Fixture {
    pub(super) handle: Handle,
    pub(super) broker: MemoryTransport,
    pub(super) relay: Relay,
    enqueue: Box<dyn FnMut(&Message) -> MessageId>,
    called_back: Arc<Mutex<Vec<DeadLetterEvent>>>,
    alerts: Arc<Mutex<Vec<DeadLetterEvent>>>,
}

pub(super) fn message(topic: &str, key: &str) -> Message {
    Message::to(topic).kind("order.placed").key(key).payload_bytes(r#"{"order_id":42}"#)
}

fn outbox() -> Outbox {
    let accounts = Topic::new(ACCOUNTS).ordered_by_key().on_failed_key(OnFailedKey::DeadLetter);
    Outbox::builder()
        .topic(Topic::new(ORDERS).keep_sent_days(7).processed_within(Duration::from_secs(3_600)).attempts_max(1))
        .topic(accounts.attempts_max(1))
        .topic(Topic::new(PAYMENTS).attempts_max(1))
        .message::<Placed>()
        .allow_outside_transaction()
        .build()
        .expect("an outbox")
}

impl Fixture {
    async fn open<C, S: Store>(mut conn: C, store: impl Fn() -> S, by: HandleKind) -> Self
    where
        C: Connection + 'static,
        C::Backend: OutboxBackend<C>,
    {
        let (outbox, broker) = (outbox(), MemoryTransport::new());
        let (called_back, alerts) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<Mutex<Vec<_>>>::default());
        let (telling, alerting) = (Arc::clone(&called_back), Arc::clone(&alerts));
        let relay = outbox.relay().store(store()).transport(broker.clone());
        let relay = relay.on_dead_letter(move |letter: &DeadLetterEvent| lock(&telling).push(letter.clone()));
        let relay =
            relay.dead_letter_alert(DEAD_LETTERS_MAX, Duration::from_secs(60), move |last: &DeadLetterEvent| {
                lock(&alerting).push(last.clone());
            });
        let relay = relay.start().await.expect("start");
        let admin = outbox.admin(store());
        let handle = match by {
            HandleKind::Async => Handle::Async(admin),
            HandleKind::Blocking => Handle::Blocking(Box::leak(Box::new(admin.blocking().expect("a runtime")))),
        };
        let enqueue = Box::new(move |message: &Message| outbox.enqueue(&mut conn, message).expect("enqueue"));
        Self { handle, broker, relay, enqueue, called_back, alerts }
    }

    pub(super) fn enqueue(&mut self, message: &Message) -> MessageId {
        (self.enqueue)(message)
    }

    /// Lets messages die that the broker refuses, and mends it then.
    pub(super) async fn dead_letter_all(&mut self, messages: &[Message]) -> Vec<MessageId> {
        let is_bad = |sent: &Envelope| sent.key.as_deref() == Some(BAD);
        self.broker.respond_when(ScriptedResponse::Fail(FailureClass::Record), is_bad);
        let ids: Vec<MessageId> = messages.iter().map(|message| self.enqueue(message)).collect();
        let called_back = Arc::clone(&self.called_back);
        until("they are dead", || {
            let called_back = lock(&called_back);
            ids.iter().all(|id| called_back.iter().any(|letter| letter.message_id == *id))
        })
        .await;
        self.broker.clear_responses();
        ids
    }

    /// The letters that the relay told of.
    pub(super) fn called_back(&self) -> Vec<DeadLetterEvent> {
        lock(&self.called_back).clone()
    }

    pub(super) fn alerts(&self) -> Vec<DeadLetterEvent> {
        lock(&self.alerts).clone()
    }

    /// Waits until the broker has each of these messages as often as it is named.
    pub(super) async fn delivered(&self, expected: &[MessageId]) {
        let copies = |of: &[MessageId], id: &MessageId| of.iter().filter(|other| *other == id).count();
        until("they are delivered", || {
            let delivered: Vec<MessageId> = self.broker.delivered().iter().map(|sent| sent.message_id).collect();
            expected.iter().all(|id| copies(&delivered, id) >= copies(expected, id))
        })
        .await;
    }

    pub(super) fn is_delivered(&self, id: MessageId) -> bool {
        self.broker.delivered().iter().any(|sent| sent.message_id == id)
    }
}

pub(super) async fn until(what: &str, state: impl Fn() -> bool) {
    until_async(what, async || state()).await;
}

pub(super) async fn until_async(what: &str, state: impl AsyncFn() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !state().await {
        assert!(Instant::now() < end, "not within {DEADLINE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn lock<T>(of: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn run(mut fixture: Fixture, case: impl AsyncFnOnce(&mut Fixture)) {
    case(&mut fixture).await;
    let report = fixture.relay.shutdown(DEADLINE).await;
    assert!(report.is_clean(), "{report:?}");
}

pub(super) async fn on_postgres(by: HandleKind, case: impl AsyncFnOnce(&mut Fixture)) {
    let Some(url) = fresh_postgres() else { return };
    let conn = PgConnection::establish(&url).expect("connect");
    run(Fixture::open(conn, || PostgresStore::new(pool::<PgConnection>(&url)), by).await, case).await;
}

pub(super) async fn on_mariadb(by: HandleKind, case: impl AsyncFnOnce(&mut Fixture)) {
    let Some(url) = fresh_mariadb() else { return };
    let conn = MysqlConnection::establish(&url).expect("connect");
    run(Fixture::open(conn, || MysqlStore::new(pool::<MysqlConnection>(&url)), by).await, case).await;
}

pub(super) async fn on_sqlite(by: HandleKind, case: impl AsyncFnOnce(&mut Fixture)) {
    let file = SqliteFile::fresh();
    let store = || SqliteStore::new(pool::<SqliteConnection>(&file.url()));
    run(Fixture::open(file.connect(), store, by).await, case).await;
}
