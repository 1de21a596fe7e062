//! Every way to send messages again, in loops and side by side, beside two relays under load: what each did is counted.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use diesel::connection::Connection;
use diesel::mysql::MysqlConnection;
use diesel::pg::PgConnection;
use diesel::sqlite::SqliteConnection;
use diesel_outbox::admin::{Admin, AdminError, DeadFilter, Hastening, RedrivePace, Retried};
use diesel_outbox::relay::{GivenUp, Relay};
use diesel_outbox::retry::Fixed;
use diesel_outbox::store::{MysqlStore, PostgresStore, SqliteStore, Store, StoreError};
use diesel_outbox::transport::{Answer, FailureClass, MemoryTransport};
use diesel_outbox::{Message, MessageId, OnFailedKey, Outbox, OutboxBackend, Topic};
use tokio::task::{JoinHandle, spawn_blocking};

use super::yard::{ACCOUNTS, PAYMENTS, until};
use crate::outbox::databases::{SqliteFile, fresh_mariadb, fresh_postgres, pool};

const DEADLINE: Duration = Duration::from_secs(120);
const HOUR: Duration = Duration::from_secs(3_600);

/// Whose refused messages wait for an hour.
const RETURNS: &str = "returns";

const ROUNDS: usize = 30;
/// Messages of each kind: two enqueue one in each round.
const EACH: usize = 2 * ROUNDS;

/// Kinds say what becomes of a message. The broker takes this one at once, on two topics.
const TAKEN: &str = "taken";
/// These are refused twice, and are dead each time: by which way they are sent again.
const ONE_BY_ONE: &str = "one_by_one";
const BY_FILTER: &str = "by_filter";
const RETRIED: &str = "retried";
const ALL_AT_ONCE: &str = "all_at_once";
/// Waits for its delivery time; or refused once, for the next attempt.
const DELAYED: &str = "delayed";
const WAITING: &str = "waiting";
const RETRIED_WAITING: &str = "retried_waiting";

const FIRST: &[&str] = &[TAKEN, ONE_BY_ONE, BY_FILTER, RETRIED, ALL_AT_ONCE, DELAYED, TAKEN, WAITING, RETRIED_WAITING];
const SECOND: &[&str] = &[TAKEN, TAKEN];

fn refusals(kind: &str) -> usize {
    match kind {
        ONE_BY_ONE | BY_FILTER | RETRIED | ALL_AT_ONCE => 2,
        WAITING | RETRIED_WAITING => 1,
        _ => 0,
    }
}

/// Rows belong to who enqueued them for longer than a busy machine holds anybody up: a second copy would then be in order.
fn outbox() -> Outbox {
    let plain = |name| Topic::new(name).staleness(Duration::from_secs(15));
    let accounts = Topic::new(ACCOUNTS).ordered_by_key().on_failed_key(OnFailedKey::DeadLetter);
    Outbox::builder()
        .topic(plain(PAYMENTS).attempts_max(1))
        .topic(plain(RETURNS).attempts_max(3).retry(Fixed::from(vec![HOUR])))
        .topic(accounts.attempts_max(1))
        .build()
        .expect("an outbox")
}

struct Placed {
    id: MessageId,
    kind: &'static str,
    /// On the ordered topic.
    key: Option<String>,
}

/// What was enqueued, each behind what the same connection enqueued before.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<Vec<Placed>>>);

impl Book {
    fn lock(&self) -> MutexGuard<'_, Vec<Placed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Messages of some kinds that are not delivered yet.
    fn missing(&self, kinds: &[&str], broker: &MemoryTransport) -> Vec<MessageId> {
        let delivered: HashSet<MessageId> = broker.delivered().iter().map(|sent| sent.message_id).collect();
        let placed = self.lock();
        let of = placed.iter().filter(|placed| kinds.contains(&placed.kind) && !delivered.contains(&placed.id));
        of.map(|placed| placed.id).collect()
    }

    /// The messages of each key that nothing held up, in the order of their commits.
    fn in_order(&self) -> HashMap<String, Vec<MessageId>> {
        let mut by_key: HashMap<String, Vec<MessageId>> = HashMap::new();
        for placed in self.lock().iter().filter(|placed| placed.kind == TAKEN) {
            by_key.entry(placed.key.clone().unwrap_or_default()).or_default().push(placed.id);
        }
        by_key.remove("");
        by_key
    }
}

fn message(kind: &str, topic: &str, key: &str) -> Message {
    let to = |topic: &str| Message::to(topic).kind(kind).key(key);
    match kind {
        DELAYED => to(PAYMENTS).delay(HOUR),
        WAITING | RETRIED_WAITING => to(RETURNS),
        _ => to(topic),
    }
}

/// Enqueues round after round; keys are its own, so that each has an order.
fn load<C>(outbox: &Outbox, mut conn: C, by: usize, kinds: &'static [&'static str], book: &Book) -> JoinHandle<C>
where
    C: Connection + 'static,
    C::Backend: OutboxBackend<C>,
{
    let (outbox, book) = (outbox.clone(), book.clone());
    spawn_blocking(move || {
        for round in 0..ROUNDS {
            for (place, kind) in kinds.iter().copied().enumerate() {
                // Of what is taken, one goes to each of the two; the others take turns.
                let turn = if kind == TAKEN { usize::from(place == 0) } else { round };
                let (topic, key) = ([PAYMENTS, ACCOUNTS][turn % 2], format!("{by}-{}", round % 5));
                let id = outbox.enqueue(&mut conn, &message(kind, topic, &key)).expect("enqueue");
                book.lock().push(Placed { id, kind, key: Some(key).filter(|_| topic == ACCOUNTS) });
            }
        }
        conn
    })
}

fn refuse(broker: &MemoryTransport) {
    let mut refused: HashMap<MessageId, usize> = HashMap::new();
    broker.answer_matching(Answer::Fail(FailureClass::Record), move |sent| {
        let so_far = refused.entry(sent.message_id).or_default();
        *so_far += 1;
        *so_far <= refusals(&sent.kind)
    });
}

/// What it did; nothing where somebody was faster, or where the database has it asked again.
fn done<T>(asked: Result<T, AdminError>) -> Option<T> {
    match asked {
        Ok(did) => Some(did),
        Err(
            AdminError::NotDead { .. }
            | AdminError::NotWaiting { .. }
            | AdminError::NotThere { .. }
            | AdminError::Store(StoreError::Conflict(_)),
        ) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Asks again and again until all messages of some kinds are delivered.
async fn until_delivered(broker: &MemoryTransport, kinds: &[&str], mut ask: impl AsyncFnMut()) {
    let end = Instant::now() + DEADLINE;
    loop {
        let there = broker.delivered().iter().filter(|sent| kinds.contains(&&*sent.kind)).count();
        if there >= EACH * kinds.len() {
            return;
        }
        assert!(Instant::now() < end, "{there} of {kinds:?} within {DEADLINE:?}");
        ask().await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn one_by_one(admin: &Admin, broker: &MemoryTransport) -> usize {
    let (mut went, dead) = (0, DeadFilter::new().kind(ONE_BY_ONE));
    let ask = async || {
        let page = admin.dead_letters(&dead, None, 10).await.expect("letters");
        for letter in page.letters {
            went += usize::from(done(admin.redrive(letter.message_id).await).is_some());
        }
    };
    until_delivered(broker, &[ONE_BY_ONE], ask).await;
    went
}

async fn by_filter(admin: &Admin, broker: &MemoryTransport, filter: DeadFilter, kind: &str) -> usize {
    let (mut went, pace) = (0, RedrivePace::default().rows_max(7));
    let ask = async || {
        let mut told = 0;
        let asked = admin.redrive_all(&filter, pace, |so_far| told = so_far).await;
        if let Some(all) = done(asked) {
            assert_eq!(all, told, "the last step tells of all");
        }
        went += told;
    };
    until_delivered(broker, &[kind], ask).await;
    went
}

/// How many were redriven, and how many were due then.
async fn retried(admin: &Admin, broker: &MemoryTransport, book: &Book) -> (usize, usize) {
    let (mut redriven, mut due) = (0, 0);
    let kinds = [RETRIED, RETRIED_WAITING];
    let ask = async || {
        for id in book.missing(&kinds, broker) {
            match done(admin.retry_send(id).await) {
                Some(Retried::Redriven) => redriven += 1,
                Some(Retried::Due) => due += 1,
                _ => {}
            }
        }
    };
    until_delivered(broker, &kinds, ask).await;
    (redriven, due)
}

async fn sent_now(admin: &Admin, broker: &MemoryTransport, book: &Book) -> usize {
    let (mut due, kinds) = (0, [DELAYED, WAITING]);
    let ask = async || {
        for id in book.missing(&kinds, broker) {
            due += usize::from(done(admin.send_now(id).await) == Some(Hastening::Due));
        }
    };
    until_delivered(broker, &kinds, ask).await;
    due
}

/// Whatever was done meanwhile: each is delivered once, and sent no more often than it was refused.
async fn audit(relays: Vec<Relay>, admin: &Admin, broker: &MemoryTransport, book: &Book) {
    until("the rest is delivered", || book.missing(FIRST, broker).is_empty()).await;
    for relay in &relays {
        assert!(relay.flush(DEADLINE).await);
    }
    assert_eq!(relays[0].backlog().await.expect("the backlog").live(), 0);
    assert_eq!(admin.count_dead().await.expect("count"), []);
    for relay in relays {
        let report = relay.shutdown(DEADLINE).await;
        assert!(report.is_clean(), "{report:?}");
    }
    let delivered = broker.delivered();
    let ids: HashSet<MessageId> = delivered.iter().map(|sent| sent.message_id).collect();
    let placed: HashSet<MessageId> = book.lock().iter().map(|placed| placed.id).collect();
    assert_eq!((ids == placed, delivered.len()), (true, placed.len()), "each once, and nothing else");
    let refused: usize = book.lock().iter().map(|placed| refusals(placed.kind)).sum();
    assert_eq!(broker.sends(), placed.len() + refused, "nothing was sent twice at once");

    let mut by_key: HashMap<String, Vec<MessageId>> = HashMap::new();
    for sent in delivered.into_iter().filter(|sent| sent.kind == TAKEN && &*sent.topic == ACCOUNTS) {
        by_key.entry(sent.key.unwrap_or_default()).or_default().push(sent.message_id);
    }
    assert_eq!(by_key, book.in_order(), "letters that go again hold nothing up and overtake nothing");
}

async fn every_way_at_once<C, S: Store>(connect: impl Fn() -> C, store: impl Fn() -> S)
where
    C: Connection + 'static,
    C::Backend: OutboxBackend<C>,
{
    let (broker, book, told) = (MemoryTransport::new(), Book::default(), Arc::new(AtomicUsize::new(0)));
    refuse(&broker);
    let (here, there, mut relays) = (outbox(), outbox(), Vec::new());
    for outbox in [&here, &there] {
        let told = Arc::clone(&told);
        let relay = outbox.relay().store(store()).transport(broker.clone()).on_dead_letter(move |_: &GivenUp| {
            told.fetch_add(1, Ordering::AcqRel);
        });
        relays.push(relay.start().await.expect("start"));
    }
    let (admin, other) = (here.admin(store()), there.admin(store()));

    let filter = || DeadFilter::new().kind(BY_FILTER);
    let (first, second, one, filtered, filtered_there, retried, now) = tokio::join!(
        load(&here, connect(), 0, FIRST, &book),
        load(&there, connect(), 1, FIRST, &book),
        one_by_one(&other, &broker),
        by_filter(&admin, &broker, filter(), BY_FILTER),
        by_filter(&other, &broker, filter(), BY_FILTER),
        retried(&admin, &broker, &book),
        sent_now(&other, &broker, &book),
    );
    assert_eq!((one, filtered + filtered_there), (2 * EACH, 2 * EACH), "each died twice");
    assert_eq!((retried, now), ((2 * EACH, EACH), 2 * EACH), "each waited once");

    let (first, second, all, all_there) = tokio::join!(
        load(&here, first.expect("it ends"), 0, SECOND, &book),
        load(&there, second.expect("it ends"), 1, SECOND, &book),
        by_filter(&admin, &broker, DeadFilter::new(), ALL_AT_ONCE),
        by_filter(&other, &broker, DeadFilter::new(), ALL_AT_ONCE),
    );
    assert!(first.is_ok() && second.is_ok(), "what is enqueued meanwhile is in the book");
    assert_eq!(all + all_there, 2 * EACH, "two share the letters");
    audit(relays, &admin, &broker, &book).await;
    assert_eq!(told.load(Ordering::Acquire), 4 * 2 * EACH, "a listener hears of each death");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_at_once_on_postgres() {
    let Some(url) = fresh_postgres() else { return };
    let connect = || PgConnection::establish(&url).expect("connect");
    every_way_at_once(connect, || PostgresStore::new(pool::<PgConnection>(&url))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_at_once_on_mariadb() {
    let Some(url) = fresh_mariadb() else { return };
    let connect = || MysqlConnection::establish(&url).expect("connect");
    every_way_at_once(connect, || MysqlStore::new(pool::<MysqlConnection>(&url))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_at_once_on_sqlite() {
    let file = SqliteFile::fresh();
    every_way_at_once(|| file.connect(), || SqliteStore::new(pool::<SqliteConnection>(&file.url()))).await;
}
