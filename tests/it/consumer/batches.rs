//! Several records in one transaction.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use diesel::connection::SimpleConnection as _;
use diesel::mysql::MysqlConnection;
use diesel::pg::PgConnection;
use diesel::r2d2::{ConnectionManager, Pool};
use diesel::{Connection as _, RunQueryDsl as _};
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, deadpool};
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_outbox::consumer::{HandlerError, KafkaConsumer, OnFailure, Progress, Record, RunningConsumer};
use diesel_outbox::{MessageId, TableNames};

use super::bed::{Act, Bed, DEADLINE, Gate, On, Place, insert, number, numbers, wait_until};

const RECORDS: i32 = 200;

fn consumer(place: &Place) -> KafkaConsumer {
    place.consumer().batch_records_max(16).workers(2)
}

fn async_pool(place: &Place) -> deadpool::Pool<AsyncPgConnection> {
    let manager = AsyncDieselConnectionManager::<AsyncPgConnection>::new(&place.database_url);
    deadpool::Pool::builder(manager).max_size(9).build().expect("a pool")
}

/// A test for each database, way to keep progress, and what the handler does.
macro_rules! each {
    ($check:ident; $($(#[$doc:meta])* $test:ident = $on:ident, $progress:ident $(, $act:expr)?;)+) => {
        $($(#[$doc])*
        #[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            $check(On::$on, Progress::$progress $(, $act)?).await;
        })+
    };
}

/// Lets handlers run once all records are in memory.
fn open_when_all_wait(gate: &Gate, running: &RunningConsumer) {
    let all = usize::try_from(RECORDS).expect("few");
    tokio::task::block_in_place(|| wait_until("all are in memory", || running.status().unprocessed == all));
    gate.open();
}

/// Starts a consumer whose handler counts its calls.
fn start_counting(place: &Place, consumer: KafkaConsumer) -> (RunningConsumer, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let of_handler = Arc::clone(&calls);
    let running = place.start(consumer, move |_| {
        of_handler.fetch_add(1, Ordering::SeqCst);
        Ok(())
    });
    (running, calls)
}

/// All records wait in memory before the first one runs.
async fn few_transactions(
    place: &Place,
    progress: Progress,
    start: impl Fn(&Place, KafkaConsumer, Gate) -> RunningConsumer,
) {
    let gate = Gate::default();
    let running = start(place, consumer(place).progress(progress), gate.clone());
    // Opening a partition may write its offset, and a handler that waits keeps SQLite's lock.
    tokio::task::block_in_place(|| wait_until("it reads both partitions", || running.status().partitions == 2));
    place.send(numbers(0..RECORDS));
    open_when_all_wait(&gate, &running);
    let place = place.clone();
    let consumed = tokio::task::spawn_blocking(move || {
        place.wait_until_consumed();
        place.assert_once_in_order(RECORDS);
        if place.on == On::Postgres {
            let transactions = place.count("SELECT count(DISTINCT xmin::text) FROM effects");
            assert!(transactions <= i64::from(RECORDS) / 5, "{transactions} transactions for {RECORDS} records");
        }
    });
    let report = running.run_until(async { consumed.await.expect("consumed") }).await;
    assert!(report.is_clean(), "{report:?}");
}

async fn few_transactions_on(on: On, progress: Progress) {
    let Some(bed) = Bed::open(on, 2).await else { return };
    let start = |place: &Place, consumer: KafkaConsumer, gate: Gate| {
        place.start(consumer, move |_| {
            gate.wait();
            Ok(())
        })
    };
    few_transactions(&bed.place, progress, start).await;
}

each! {
    few_transactions_on;
    waiting_records_take_few_transactions_on_postgres = Postgres, Inbox;
    waiting_records_take_few_transactions_with_offsets = Postgres, Offsets;
    waiting_records_take_few_transactions_with_both = Postgres, InboxAndOffsets;
    waiting_records_take_few_transactions_on_mariadb = Mariadb, InboxAndOffsets;
    waiting_records_take_few_transactions_on_sqlite = Sqlite, InboxAndOffsets;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_records_take_few_transactions_with_diesel_async() {
    let Some(bed) = Bed::on_postgres(2).await else { return };
    let start = |place: &Place, consumer: KafkaConsumer, gate: Gate| {
        let handle = async move |conn: &mut AsyncPgConnection, record: &Record| {
            gate.wait();
            Ok::<_, HandlerError>(conn.batch_execute(&insert(record)).await?)
        };
        consumer.start_async(async_pool(place), handle).expect("it starts")
    };
    few_transactions(&bed.place, Progress::Inbox, start).await;
}

/// One record does something that its transaction does not survive. It is parked; each other one has its effect once.
async fn one_record_costs_the_others_nothing(on: On, progress: Progress, act: fn() -> Act) {
    const BAD: i32 = 13;
    let Some(bed) = Bed::open(on, 1).await else { return };
    let place = &bed.place;
    place.send(numbers(0..60));
    let errors = Arc::new(AtomicUsize::new(0));
    let of_hook = Arc::clone(&errors);
    let consumer = consumer(place).progress(progress).on_failure(OnFailure::ParkAlone).on_error(move |record, _| {
        assert_eq!(number(record), BAD, "no other one has failed");
        of_hook.fetch_add(1, Ordering::SeqCst);
    });
    let running = place.start_acting(consumer, move |record| if number(record) == BAD { act() } else { Act::Write });
    place.wait_until_consumed();
    assert!(running.shutdown_blocking(DEADLINE).is_clean());
    let parked: Vec<_> = place.parked().iter().map(|record| record.offset).collect();
    assert_eq!((parked, errors.load(Ordering::SeqCst)), (vec![i64::from(BAD)], 3), "it has three attempts of its own");
    let mut seen: Vec<i32> = place.effects().iter().map(|effect| effect.number).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..60).filter(|number| *number != BAD).collect::<Vec<_>>());
}

fn fails() -> Act {
    Act::WriteThen(Box::new(|| Err(HandlerError::retriable("refused"))))
}

fn panics() -> Act {
    Act::WriteThen(Box::new(|| panic!("a defect of the handler")))
}

each! {
    one_record_costs_the_others_nothing;
    a_record_that_fails_costs_the_others_nothing = Postgres, Inbox, fails;
    a_record_that_fails_costs_the_others_nothing_with_offsets = Postgres, Offsets, fails;
    a_record_that_fails_costs_the_others_nothing_on_mariadb = Mariadb, Inbox, fails;
    a_record_that_fails_costs_the_others_nothing_on_sqlite = Sqlite, Inbox, fails;
    a_record_that_panics_costs_the_others_nothing = Postgres, Inbox, panics;
    an_ignored_error_costs_the_others_nothing = Postgres, Inbox, || Act::Ignore("SELECT nothing");
    a_savepoint_that_is_left_open_costs_the_others_nothing = Postgres, Inbox, || Act::LeaveOpen;
}

/// A handler that breaks the rules and ends the transaction: the records of its batch may have their effects twice, and none is lost.
async fn the_end_of_a_transaction_loses_no_record(on: On, progress: Progress, act: fn() -> Act) {
    let Some(bed) = Bed::open(on, 1).await else { return };
    let place = &bed.place;
    place.send(numbers(0..60));
    let consumer = consumer(place).progress(progress).on_failure(OnFailure::ParkAlone);
    let running = place.start_acting(consumer, move |record| if number(record) == 13 { act() } else { Act::Write });
    place.wait_until_consumed();
    assert!(running.shutdown_blocking(DEADLINE).is_clean());
    let parked = place.parked().into_iter().map(|record| i32::try_from(record.offset).expect("few"));
    let seen: BTreeSet<i32> = place.effects().iter().map(|effect| effect.number).chain(parked).collect();
    assert_eq!(seen, (0..60).collect());
}

each! {
    the_end_of_a_transaction_loses_no_record;
    a_handler_that_commits_loses_no_record_on_postgres = Postgres, Inbox, || Act::Commit;
    a_handler_that_commits_loses_no_record_on_mariadb = Mariadb, Inbox, || Act::Run("CREATE TABLE IF NOT EXISTS made (n integer)");
    a_handler_that_rolls_back_loses_no_record_on_postgres = Postgres, InboxAndOffsets, || Act::Ignore("ROLLBACK");
    a_handler_that_rolls_back_loses_no_record_on_mariadb = Mariadb, Offsets, || Act::Ignore("ROLLBACK");
    /// As a full disk does.
    a_handler_that_rolls_back_loses_no_record_on_sqlite = Sqlite, Inbox, || Act::Ignore("ROLLBACK");
}

/// A deadlock ends the transaction, and what the next handlers write would be committed at once.
#[tokio::test(flavor = "multi_thread")]
async fn an_ignored_deadlock_gives_no_record_two_effects_on_mariadb() {
    let Some(bed) = Bed::open(On::Mariadb, 1).await else { return };
    let place = &bed.place;
    place.run("CREATE TABLE locks (id integer PRIMARY KEY); INSERT INTO locks VALUES (1), (2); CREATE TABLE heavy (id integer)");
    place.send(numbers(0..60));
    let lock = |conn: &mut MysqlConnection, id: i32| {
        diesel::sql_query(format!("SELECT id FROM locks WHERE id = {id} FOR UPDATE")).execute(conn)
    };
    let mut other = MysqlConnection::establish(&place.database_url).expect("connect");
    // InnoDB rolls back the transaction that has written less.
    let values = vec!["(1)"; 5_000].join(", ");
    other.batch_execute(&format!("BEGIN; INSERT INTO heavy VALUES {values}")).expect("write much");
    lock(&mut other, 2).expect("lock the second");
    let (other, deadlocks) = (Mutex::new(Some(other)), Arc::new(AtomicUsize::new(0)));
    let of_handler = Arc::clone(&deadlocks);
    let handle = move |conn: &mut MysqlConnection, record: &Record| {
        conn.batch_execute(&insert(record))?;
        if number(record) == 13
            && let Some(mut other) = other.lock().expect("no panic").take()
        {
            lock(conn, 1)?;
            let waiting = std::thread::spawn(move || lock(&mut other, 1));
            of_handler.fetch_add(usize::from(lock(conn, 2).is_err()), Ordering::SeqCst);
            waiting.join().expect("no panic")?;
        }
        Ok::<_, HandlerError>(())
    };
    let pool = Pool::builder().max_size(9).build(ConnectionManager::new(&place.database_url)).expect("a pool");
    let running = consumer(place).start(pool, handle).expect("it starts");
    place.wait_until_consumed();
    assert!(running.shutdown_blocking(DEADLINE).is_clean());
    assert_eq!(deadlocks.load(Ordering::SeqCst), 1);
    place.assert_once_in_order(60);
}

/// diesel-async does not see it.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_rolls_back_loses_no_record_with_diesel_async() {
    const BAD: i32 = 13;
    let Some(bed) = Bed::on_postgres(1).await else { return };
    bed.place.send(numbers(0..60));
    let handle = async move |conn: &mut AsyncPgConnection, record: &Record| {
        if number(record) == BAD {
            conn.batch_execute("ROLLBACK").await?;
        }
        Ok::<_, HandlerError>(conn.batch_execute(&insert(record)).await?)
    };
    let running = consumer(&bed.place).start_async(async_pool(&bed.place), handle).expect("it starts");
    let place = bed.place.clone();
    let consumed = tokio::task::spawn_blocking(move || place.wait_until_consumed());
    let report = running.run_until(async { consumed.await.expect("consumed") }).await;
    assert!(report.is_clean(), "{report:?}");
    let seen: BTreeSet<i32> = bed.place.effects().iter().map(|effect| effect.number).collect();
    assert_eq!(seen, (0..60).collect());
}

/// Handlers that read before they write: another worker writes meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn on_sqlite_batches_wait_for_each_other() {
    let Some(bed) = Bed::open(On::Sqlite, 2).await else { return };
    let place = &bed.place;
    place.send(numbers(0..RECORDS));
    let (calls, gate) = (Arc::new(AtomicUsize::new(0)), Gate::default());
    let (of_handler, of_gate) = (Arc::clone(&calls), gate.clone());
    let running = place.start_acting(consumer(place), move |_| {
        of_gate.wait();
        of_handler.fetch_add(1, Ordering::SeqCst);
        Act::ReadAndWrite
    });
    open_when_all_wait(&gate, &running);
    place.wait_until_consumed();
    place.assert_once_in_order(RECORDS);
    assert_eq!(calls.load(Ordering::SeqCst), usize::try_from(RECORDS).expect("few"), "no batch was rolled back");
    assert!(running.shutdown_blocking(DEADLINE).is_clean());
}

/// No handler sees a message that may have been processed, and its entry removed.
#[tokio::test(flavor = "multi_thread")]
async fn messages_that_are_too_old_reach_no_handler() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    place.prune();
    let of_1970 = |number: u64| {
        let random = *MessageId::new().as_uuid().as_bytes().last_chunk().expect("a UUID has 16 bytes");
        MessageId::from(uuid::Builder::from_unix_timestamp_millis(1 + number, &random).into_uuid())
    };
    place.send_copies(numbers(0..20).zip(0..).map(|((number, key), at)| (of_1970(at), number, key)));
    place.send(numbers(20..40));
    let old_calls = Arc::new(AtomicUsize::new(0));
    let of_handler = Arc::clone(&old_calls);
    let running = place.start(consumer(place), move |record| {
        of_handler.fetch_add(usize::from(number(record) < 20), Ordering::SeqCst);
        Ok(())
    });
    place.wait_until_consumed();
    assert!(running.shutdown_blocking(DEADLINE).is_clean());
    assert_eq!(old_calls.load(Ordering::SeqCst), 0);
    assert_eq!((place.effects().len(), place.parked().len()), (20, 20));
}

/// Handlers see no copy of what is committed, and each message has its effect once.
#[tokio::test(flavor = "multi_thread")]
async fn copies_among_new_records_reach_no_handler() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    let ids = place.send(numbers(0..50));
    let (running, calls) = start_counting(place, consumer(place));
    place.wait_until_consumed();
    assert_eq!(calls.swap(0, Ordering::SeqCst), 50, "nothing was rolled back");
    let copies = ids.into_iter().zip(numbers(0..50)).map(|(id, (number, key))| (id, number, key));
    let new = numbers(50..100).map(|(number, key)| (MessageId::new(), number, key));
    place.send_copies(copies.zip(new).flat_map(|(copy, new)| [copy, new]));
    place.wait_until_consumed();
    place.assert_once_in_order(100);
    assert_eq!(calls.load(Ordering::SeqCst), 50, "new ones only");
    assert!(running.shutdown_blocking(DEADLINE).is_clean());
}

/// A relay that sends again leaves copies beside each other.
#[tokio::test(flavor = "multi_thread")]
async fn copies_within_a_batch_reach_one_handler() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    let twice = numbers(0..50).flat_map(|(number, key)| {
        let id = MessageId::new();
        [(id, number, key.clone()), (id, number, key)]
    });
    place.send_copies(twice);
    let (running, calls) = start_counting(place, consumer(place));
    place.wait_until_consumed();
    place.assert_once_in_order(50);
    assert_eq!(calls.load(Ordering::SeqCst), 50);
    assert!(running.shutdown_blocking(DEADLINE).is_clean());
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_may_have_other_names() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    place.send(numbers(0..50));
    let names = TableNames::default().prefix("shop_").expect("a prefix");
    let consumer = consumer(place).progress(Progress::InboxAndOffsets).tables(names);
    consumer.migrate(&mut PgConnection::establish(&place.database_url).expect("connect")).expect("migrate");
    let (running, calls) = start_counting(place, consumer);
    place.wait_until_consumed();
    place.assert_once_in_order(50);
    assert_eq!(calls.load(Ordering::SeqCst), 50, "no batch was rolled back");
    assert!(running.shutdown_blocking(DEADLINE).is_clean());
}
