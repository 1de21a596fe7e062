//! What the statements read, as the server counted it: a plan can suit an empty table and fail for a backlog.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use diesel::connection::InstrumentationEvent;
use diesel::pg::Pg;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, ManagerConfig};
use diesel_async::{AsyncConnection, AsyncPgConnection};
use diesel_outbox::MessageId;
use diesel_outbox::internals::store::{
    CancelOutcome, ClaimSpec, Failed, Held, Loaded, Locking, NewDeadLetter, PollSpec, RowKey, RowRef, Store,
};
use diesel_outbox::store::{ConnectionPool, PostgresStore};

use super::connections::NamedStore;
use super::reads::{Reads, counted};
use super::under_test::PostgresUnderTest;
use crate::store::{insert, spec};

/// More calls than PostgreSQL needs to keep a plan.
const CALLS: usize = 8;

/// Rows of the topic that are not due.
const BACKLOG: i32 = 20_000;

fn insert_backlog(test: &PostgresUnderTest<impl ConnectionPool<Pg>>) {
    test.run(&format!(
        "INSERT INTO {{m}} (message_id, topic, kind, headers, due_at, deliver_at) \
         SELECT gen_random_uuid(), 'orders', '', '[]', now() + interval '1 year', now() + interval '1 year' \
         FROM generate_series(1, {BACKLOG})"
    ));
}

async fn sweep(test: &PostgresUnderTest<impl ConnectionPool<Pg>>) {
    for _ in 0..CALLS {
        let key = insert(test).await;
        let claim = test.store.claim(&spec()).await.expect("claim");
        assert_eq!(claim.rows.len(), 1);
        claim.handle.close(&[key], &[]).await.expect("close");
    }
}

/// T6: rows that are not due cost a claim nothing. With `clock_timestamp()` instead of `statement_timestamp()` each claim reads all
/// of them.
#[tokio::test]
async fn claim_reads_only_what_is_due() {
    let Some((counted, before)) = counted(insert_backlog).await else { return };
    sweep(&counted.test.inner).await;
    let Reads { table_scans, due_entries, .. } = counted.since(before).await;
    assert_eq!(table_scans, 0);
    assert!(due_entries < BACKLOG / 10, "{CALLS} claims of a row each read {due_entries} entries of the index");
}

/// By default the planner reads all of a topic, whatever the limit of the count.
#[tokio::test]
async fn backlog_reads_no_more_than_it_counts() {
    let filled = counted(|test| {
        insert_backlog(test);
        test.run(&format!(
            "INSERT INTO {{d}} (id, message_id, topic, lane, kind, headers, due_at, epoch, attempts, failures, errors, \
             created_at, reason) SELECT n, gen_random_uuid(), 'orders', -1, '', '[]', now(), 0, 0, 0, '[]', now(), '' \
             FROM generate_series(1, {BACKLOG}) n"
        ));
    });
    let Some((counted, before)) = filled.await else { return };
    for _ in 0..CALLS {
        let topics = counted.test.inner.store.backlog(100).await.expect("backlog");
        assert_eq!((topics.len(), topics[0].live, topics[0].dead), (1, 100, 100));
    }
    let Reads { table_scans, due_entries, dead_entries, .. } = counted.since(before).await;
    assert_eq!(table_scans, 0);
    let most = due_entries.max(dead_entries);
    assert!(most < BACKLOG / 10, "{CALLS} counts of 100 rows each read {most} entries of an index");
}

/// A plan made while the table was empty is not used for the backlog.
#[tokio::test]
async fn claim_of_a_backlog_after_an_empty_table_uses_the_index() {
    let Some((counted, before)) = counted(|_| ()).await else { return };
    sweep(&counted.test.inner).await;
    insert_backlog(&counted.test.inner);
    sweep(&counted.test.inner).await;
    let Reads { table_scans, due_entries, .. } = counted.since(before).await;
    assert_eq!(table_scans, 0);
    assert!(due_entries < BACKLOG / 10, "{due_entries}");
}

/// While an old snapshot keeps the rows that a drain removed, the next claim does not read them again. Otherwise each claim would
/// read all index entries from the beginning.
#[tokio::test]
async fn drain_beside_an_old_snapshot_reads_each_row_a_few_times() {
    const ROWS: i32 = 5_000;
    let filled = counted(|test| {
        test.run(&format!(
            "INSERT INTO {{m}} (message_id, topic, kind, headers, due_at) \
             SELECT gen_random_uuid(), 'orders', '', '[]', now() - interval '1 hour' + n * interval '1 millisecond' \
             FROM generate_series(1, {ROWS}) n"
        ));
    });
    let Some((counted, before)) = filled.await else { return };
    let snapshot = counted.test.inner.begin("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    let mut spec = ClaimSpec { rows_max: 100, ..spec() };
    loop {
        let claim = counted.test.inner.store.claim(&spec).await.expect("claim");
        let keys: Vec<RowKey> = claim.rows.iter().map(Loaded::key).collect();
        claim.handle.close(&keys, &[]).await.expect("close");
        spec.after = claim.watermark;
        if claim.found_all {
            break;
        }
    }
    let Reads { due_entries, .. } = counted.since(before).await;
    drop(snapshot);
    assert!((ROWS..ROWS * 5).contains(&due_entries), "{due_entries} index entries for {ROWS} rows");
}

/// The same holds for rows that are too young for the watermark: the claim run remembers its position.
#[tokio::test]
async fn successive_claims_read_young_rows_once() {
    const ROWS: i32 = 5_000;
    let filled = counted(|test| {
        test.run(&format!(
            "INSERT INTO {{m}} (message_id, topic, kind, headers, due_at) \
             SELECT gen_random_uuid(), 'orders', '', '[]', now() - n * interval '1 microsecond' \
             FROM generate_series(1, {ROWS}) n"
        ));
    });
    let Some((counted, before)) = filled.await else { return };
    let snapshot = counted.test.inner.begin("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    let (mut spec, mut taken) = (ClaimSpec { rows_max: 100, ..spec() }, 0);
    loop {
        let claim = counted.test.inner.store.claim(&spec).await.expect("claim");
        let keys: Vec<RowKey> = claim.rows.iter().map(Loaded::key).collect();
        claim.handle.close(&keys, &[]).await.expect("close");
        taken += keys.len();
        spec.after = claim.reached;
        if claim.found_all {
            break;
        }
    }
    let Reads { due_entries, .. } = counted.since(before).await;
    drop(snapshot);
    assert_eq!(taken, ROWS as usize);
    assert!((ROWS..ROWS * 5).contains(&due_entries), "{due_entries} index entries for {ROWS} rows");
}

/// The watermark and the rows to lock are found in one walk: the second part begins where the first found a row.
#[tokio::test]
async fn a_claim_reads_dead_index_entries_once() {
    const GONE: i32 = 5_000;
    let mut snapshot = None;
    let filled = counted(|test| {
        test.run(&format!(
            "INSERT INTO {{m}} (message_id, topic, kind, headers, due_at) \
             SELECT gen_random_uuid(), 'orders', '', '[]', now() - n * interval '1 millisecond' \
             FROM generate_series(1, {GONE}) n"
        ));
        snapshot = Some(test.begin("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1"));
        test.run("DELETE FROM {m}");
    });
    let Some((counted, before)) = filled.await else { return };
    let key = insert(&counted.test.inner).await;
    let claim = counted.test.inner.store.claim(&spec()).await.expect("claim");
    assert_eq!(claim.rows.iter().map(Loaded::key).collect::<Vec<_>>(), [key]);
    claim.handle.close(&[key], &[]).await.expect("close");
    let Reads { due_entries, .. } = counted.since(before).await;
    drop(snapshot);
    assert!((GONE..GONE + GONE / 2).contains(&due_entries), "{due_entries} index entries for {GONE} removed rows");
}

/// I10: rows are found by primary key, whatever else is in the table.
#[tokio::test]
async fn rows_are_found_by_primary_key() {
    let filled = counted(|test| {
        insert_backlog(test);
        test.run("ANALYZE {m}");
    });
    let Some((counted, before)) = filled.await else { return };
    let store = &counted.test.inner.store;
    for _ in 0..CALLS {
        let mut held =
            [insert(&counted.test.inner).await, insert(&counted.test.inner).await].map(|key| Held { key, epoch: 0 });
        let refs = held.map(|held| RowRef { id: Some(held.key.id), message_id: held.key.message_id });
        assert_eq!(store.confirm(&refs).await.expect("confirm").len(), 2);
        assert_eq!(store.extend(&held, Duration::from_secs(30)).await.expect("extend").len(), 2);
        assert_eq!(store.fail(&held.map(failed)).await.expect("fail").len(), 2);
        held = held.map(|held| Held { epoch: 1, ..held });
        assert_eq!(dead_letter(store, held[0]).await, [held[0].key]);
        assert_eq!(store.settle(&[held[1].key], Locking::Skip).await.expect("settle"), [held[1].key]);
        assert_eq!(store.settle(&[held[1].key], Locking::Wait).await.expect("settle"), []);
        assert_eq!(store.poll(&PollSpec::everything(["orders".into()])).await.expect("poll").due.len(), 1);
        let admin = store.admin().expect("admin operations");
        assert_eq!(admin.cancel_delayed(MessageId::new(), None).await.expect("cancel"), CancelOutcome::NotFound);
    }
    let Reads { table_scans, due_entries, .. } = counted.since(before).await;
    assert_eq!(table_scans, 0);
    // Each poll reads index entries of removed rows while a snapshot of another test may see them.
    assert!(due_entries < BACKLOG / 10, "{due_entries}");
}

/// A plan made for a few rows is not kept for a backlog, where it made a settle of 500 rows take 16 s. An idle store only polls,
/// and has nothing to renew.
#[tokio::test]
async fn plans_are_renewed_before_a_write_and_not_by_polling() {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let Some(test) = NamedStore::open(|url| logging_pool(url, &sent)) else { return };
    let store = &test.inner.store;
    let renewals = || sent.lock().expect("unpoisoned").iter().filter(|text| *text == "DISCARD PLANS").count();
    let absent = [RowKey { id: 1, message_id: MessageId::new() }];
    let end = tokio::time::Instant::now() + Duration::from_secs(15);
    while renewals() == 0 {
        assert!(tokio::time::Instant::now() < end, "no renewal in 15 s of writes");
        store.settle(&absent, Locking::Skip).await.expect("settle");
    }
    store.poll(&PollSpec::everything(["orders".into()])).await.expect("a first poll, which checks the tables");
    let polled_until = tokio::time::Instant::now() + Duration::from_millis(1_200);
    sent.lock().expect("unpoisoned").clear();
    let mut polls = 0;
    while tokio::time::Instant::now() < polled_until {
        store.poll(&PollSpec::everything(["orders".into()])).await.expect("poll");
        polls += 1;
    }
    assert_eq!(sent.lock().expect("unpoisoned").len(), polls);
    store.settle(&absent, Locking::Skip).await.expect("settle");
    assert_eq!(renewals(), 1);
}

/// A pool whose connections record the texts that they send.
fn logging_pool(url: &str, sent: &Arc<Mutex<Vec<String>>>) -> Pool<AsyncPgConnection> {
    let mut config = ManagerConfig::default();
    let sent = Arc::clone(sent);
    config.custom_setup = Box::new(move |url| {
        let sent = Arc::clone(&sent);
        let url = url.to_owned();
        Box::pin(async move {
            let mut conn = AsyncPgConnection::establish(&url).await?;
            conn.set_instrumentation(move |event: InstrumentationEvent<'_>| {
                if let InstrumentationEvent::StartQuery { query, .. } = event {
                    sent.lock().expect("unpoisoned").push(query.to_string());
                }
            });
            Ok(conn)
        })
    });
    let manager = AsyncDieselConnectionManager::new_with_config(url, config);
    Pool::builder(manager).build().expect("a pool")
}

fn failed(held: Held) -> Failed {
    let wait = Duration::from_secs(10);
    Failed { held, wait, spends_attempt: true, class: "temporary", error: "timed out".to_owned() }
}

async fn dead_letter(store: &PostgresStore<impl ConnectionPool<Pg>>, held: Held) -> Vec<RowKey> {
    store.dead_letter(&[NewDeadLetter { held, reason: "attempts".to_owned() }]).await.expect("dead_letter")
}
