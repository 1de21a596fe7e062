//! Every way to send messages again, in loops and side by side, beside two relays under load: what each did is counted.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use diesel::connection::Connection;
use diesel::mysql::MysqlConnection;
use diesel::pg::PgConnection;
use diesel::sqlite::SqliteConnection;
use diesel_outbox::admin::{Admin, AdminError, DeadLetterFilter, RedriveRate, RetryOutcome, SendNowOutcome};
use diesel_outbox::internals::store::Store;
use diesel_outbox::relay::{DeadLetterEvent, Relay};
use diesel_outbox::store::{MysqlStore, PostgresStore, SqliteStore, StoreError};
use diesel_outbox::transport::MemoryTransport;
use diesel_outbox::{MessageId, OutboxBackend};

use super::fixture::{ACCOUNTS, until};
use super::load::{
    ALL_AT_ONCE, BY_FILTER, DELAYED, EACH, FIRST, ONE_BY_ONE, PlacedLog, RETRIED, RETRIED_WAITING, SECOND, TAKEN,
    WAITING, load, outbox, refusals, refuse,
};
use crate::outbox::databases::{SqliteFile, fresh_mariadb, fresh_postgres, pool};

const EACH_TWICE: RangeInclusive<usize> = 2 * EACH..=2 * EACH;

/// How many dead letters of each kind the relays have reported.
type CalledBack = Arc<Mutex<HashMap<String, usize>>>;

/// Longer than the staleness: a row whose hand-over a busy SQLite made fail is swept then.
const DEADLINE: Duration = Duration::from_secs(300);

/// The result; `None` if somebody was faster, or if the call must be repeated.
fn done<T>(result: Result<T, AdminError>) -> Option<T> {
    match result {
        Ok(did) => Some(did),
        Err(
            AdminError::NotDeadLetter { .. }
            | AdminError::NotWaiting { .. }
            | AdminError::NotFound { .. }
            | AdminError::Store(StoreError::Conflict(_)),
        ) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Asks again and again until all messages of some kinds are delivered.
async fn until_delivered(broker: &MemoryTransport, kinds: &[&str], mut call: impl AsyncFnMut()) {
    let end = Instant::now() + DEADLINE;
    loop {
        let there = broker.delivered().iter().filter(|sent| kinds.contains(&&*sent.kind)).count();
        if there >= EACH * kinds.len() {
            return;
        }
        assert!(Instant::now() < end, "{there} of {kinds:?} within {DEADLINE:?}");
        call().await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn one_by_one(admin: &Admin, broker: &MemoryTransport) -> usize {
    let (mut went, dead) = (0, DeadLetterFilter::new().kind(ONE_BY_ONE));
    let call = async || {
        let page = admin.dead_letters(&dead, None, 10).await.expect("letters");
        for letter in page.items {
            went += usize::from(done(admin.redrive(letter.message_id).await).is_some());
        }
    };
    until_delivered(broker, &[ONE_BY_ONE], call).await;
    went
}

async fn by_filter(admin: &Admin, broker: &MemoryTransport, filter: DeadLetterFilter, kind: &str) -> usize {
    let (mut went, rate) = (0, RedriveRate::default().rows_max(7));
    let call = async || {
        let mut called_back = 0;
        let result = admin.redrive_all(&filter, rate, |so_far| called_back = so_far).await;
        if let Some(all) = done(result) {
            assert_eq!(all, called_back, "the last step tells of all");
        }
        went += called_back;
    };
    until_delivered(broker, &[kind], call).await;
    went
}

/// How many were redriven, and how many were due then.
async fn retried(admin: &Admin, broker: &MemoryTransport, book: &PlacedLog) -> (usize, usize) {
    let (mut redriven, mut due) = (0, 0);
    let kinds = [RETRIED, RETRIED_WAITING];
    let call = async || {
        for id in book.missing(&kinds, broker) {
            match done(admin.retry_send(id).await) {
                Some(RetryOutcome::Redriven) => redriven += 1,
                Some(RetryOutcome::Due) => due += 1,
                _ => {}
            }
        }
    };
    until_delivered(broker, &kinds, call).await;
    (redriven, due)
}

async fn sent_now(admin: &Admin, broker: &MemoryTransport, book: &PlacedLog) -> usize {
    let (mut due, kinds) = (0, [DELAYED, WAITING]);
    let call = async || {
        for id in book.missing(&kinds, broker) {
            due += usize::from(done(admin.send_now(id).await) == Some(SendNowOutcome::Due));
        }
    };
    until_delivered(broker, &kinds, call).await;
    due
}

/// Whatever was done meanwhile: each is delivered once, and sent no more often than it was refused.
async fn audit(relays: Vec<Relay>, admin: &Admin, broker: &MemoryTransport, book: &PlacedLog) {
    until("the rest is delivered", || book.missing(FIRST, broker).is_empty()).await;
    for relay in &relays {
        assert!(relay.flush(DEADLINE).await.is_settled());
    }
    assert_eq!(relays[0].backlog().await.expect("the backlog").live(), 0);
    assert_eq!(admin.count_dead_letters().await.expect("count"), []);
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

/// `letters` is how often all messages of a kind that are refused twice may become dead letters.
async fn every_admin_action_at_once<C, S: Store>(
    connect: impl Fn() -> C,
    store: impl Fn() -> S,
    letters: RangeInclusive<usize>,
) where
    C: Connection + 'static,
    C::Backend: OutboxBackend<C>,
{
    let (broker, book, called_back) = (MemoryTransport::new(), PlacedLog::default(), CalledBack::default());
    refuse(&broker);
    let (here, there, mut relays) = (outbox(), outbox(), Vec::new());
    for outbox in [&here, &there] {
        let called_back = Arc::clone(&called_back);
        let relay = outbox.relay().store(store()).transport(broker.clone());
        let relay = relay.on_dead_letter(move |letter: &DeadLetterEvent| {
            *called_back.lock().expect("no callback panics").entry(letter.kind.clone()).or_default() += 1;
        });
        relays.push(relay.start().await.expect("start"));
    }
    let (admin, other) = (here.admin(store()), there.admin(store()));

    let filter = || DeadLetterFilter::new().kind(BY_FILTER);
    let (first, second, one, filtered, filtered_there, retried, now) = tokio::join!(
        load(&here, connect(), 0, FIRST, &book),
        load(&there, connect(), 1, FIRST, &book),
        one_by_one(&other, &broker),
        by_filter(&admin, &broker, filter(), BY_FILTER),
        by_filter(&other, &broker, filter(), BY_FILTER),
        retried(&admin, &broker, &book),
        sent_now(&other, &broker, &book),
    );
    // Asked twice for one, where the database had the first answer get lost in a conflict, it says that the message goes already.
    assert!((EACH / 2..=EACH).contains(&retried.1), "{retried:?}");
    assert!((EACH..=2 * EACH).contains(&now), "{now}");

    let (first, second, all, all_there) = tokio::join!(
        load(&here, first.expect("it ends"), 0, SECOND, &book),
        load(&there, second.expect("it ends"), 1, SECOND, &book),
        by_filter(&admin, &broker, DeadLetterFilter::new(), ALL_AT_ONCE),
        by_filter(&other, &broker, DeadLetterFilter::new(), ALL_AT_ONCE),
    );
    assert!(first.is_ok() && second.is_ok(), "every message enqueued meanwhile is recorded");
    audit(relays, &admin, &broker, &book).await;
    let called_back = called_back.lock().expect("no callback panics");
    let redriven = [
        (ONE_BY_ONE, one),
        (BY_FILTER, filtered + filtered_there),
        (RETRIED, retried.0),
        (ALL_AT_ONCE, all + all_there),
    ];
    for (kind, redriven) in redriven {
        assert_eq!(called_back.get(kind), Some(&redriven), "each dead letter of {kind} was redriven once");
        assert!(letters.contains(&redriven), "{redriven} of {kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_admin_action_at_once_on_postgres() {
    let Some(url) = fresh_postgres() else { return };
    let connect = || PgConnection::establish(&url).expect("connect");
    every_admin_action_at_once(connect, || PostgresStore::new(pool::<PgConnection>(&url)), EACH_TWICE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_admin_action_at_once_on_mariadb() {
    let Some(url) = fresh_mariadb() else { return };
    let connect = || MysqlConnection::establish(&url).expect("connect");
    every_admin_action_at_once(connect, || MysqlStore::new(pool::<MysqlConnection>(&url)), EACH_TWICE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_admin_action_at_once_on_sqlite() {
    let file = SqliteFile::fresh();
    let store = || SqliteStore::new(pool::<SqliteConnection>(&file.url()));
    // While others write, the write of a dead letter may take too long: then the row is only sent again.
    every_admin_action_at_once(|| file.connect(), store, EACH..=2 * EACH).await;
}
