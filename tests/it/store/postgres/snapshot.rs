//! A relay while an old snapshot keeps vacuum from removing the index entries of deleted rows.

use std::time::Duration;

use diesel::pg::Pg;
use diesel_outbox::internals::store::{PollFrom, PollSpec, PollTopic, Store};
use diesel_outbox::store::{ConnectionPool, PostgresStore};
use diesel_outbox::transport::MemoryTransport;
use diesel_outbox::{Limits, Outbox, Topic};

use super::connections::deadpool;
use super::reads::{Reads, counted};
use super::under_test::{OpenPostgres, PostgresUnderTest};
use crate::store::insert;

/// So many that reading them takes tens of milliseconds.
const GONE: i32 = 300_000;
/// Sweeps of one message each, one after the other.
const SWEEPS: i32 = 20;

/// Leaves the entries of `GONE` rows that were due a while ago, and the snapshot that keeps them.
pub(super) fn insert_dead_entries(test: &PostgresUnderTest<impl ConnectionPool<Pg>>) -> OpenPostgres {
    test.run("ALTER TABLE {m} SET (autovacuum_enabled = off)");
    test.run(&format!(
        "INSERT INTO {{m}} (message_id, topic, kind, headers, due_at) \
         SELECT gen_random_uuid(), 'orders', '', '[]', now() - interval '1 hour' + n * interval '1 millisecond' \
         FROM generate_series(1, {GONE}) n"
    ));
    let snapshot = test.begin("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    test.run("DELETE FROM {m}");
    snapshot
}

/// A poll finds each message and a claim takes it, and none of them reads the dead entries. Only the full scan reads them, to find
/// late commits; it then pauses for fifty times as long as it took.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweeps_beside_an_old_snapshot_read_no_dead_entries() {
    let mut snapshot = None;
    let Some((counted, before)) = counted(|test| snapshot = Some(insert_dead_entries(test))).await else { return };
    let test = &counted.test.inner;
    let mut store = PostgresStore::new(deadpool(&format!("{}?application_name={}", test.url, counted.test.name)));
    store.use_tables(&test.names);
    let outbox = Outbox::builder().topic(Topic::new("orders")).tables(test.names.clone()).build().expect("build");
    let limits = Limits::default().poll_interval(Duration::from_millis(20));
    let broker = MemoryTransport::new();
    let relay = outbox.relay().store(store).transport(broker.clone()).limits(limits).start().await.expect("start");
    for sweep in 1..=SWEEPS {
        insert(test).await;
        broker.wait_for_delivered(sweep as usize, Duration::from_secs(30)).await.expect("it is swept");
    }
    relay.shutdown(Duration::from_secs(5)).await;
    let Reads { due_entries, .. } = counted.since(before).await;
    drop(snapshot);
    assert!(
        due_entries < GONE * SWEEPS / 2,
        "{due_entries} index entries in {SWEEPS} sweeps beside {GONE} that are gone"
    );
}

/// A poll from the watermark ends where the next poll begins: it reads no dead entries below or ahead.
#[tokio::test]
async fn a_poll_reads_no_entry_outside_of_its_bounds() {
    const GONE: i32 = 5_000;
    const POLLS: i32 = 10;
    let mut snapshot = None;
    let filled = counted(|test| {
        for due_at in [
            "now() - interval '1 hour' + n * interval '1 millisecond'",
            "now() + interval '1 hour' + n * interval '1 second'",
        ] {
            test.run(&format!(
                "INSERT INTO {{m}} (message_id, topic, kind, headers, due_at) \
                 SELECT gen_random_uuid(), 'orders', '', '[]', {due_at} FROM generate_series(1, {GONE}) n"
            ));
        }
        snapshot = Some(test.begin("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1"));
        test.run("DELETE FROM {m}");
    });
    let Some((counted, before)) = filled.await else { return };
    let test = &counted.test.inner;
    let key = insert(test).await;
    let ahead = Duration::from_secs(1);
    let mut from = PollFrom::Beginning;
    for _ in 0..=POLLS {
        let topics = vec![PollTopic { topic: "orders".into(), from }];
        let poll = test
            .store
            .poll(&PollSpec { topics, ahead, watermark_slack_duration: Duration::from_secs(3) })
            .await
            .expect("poll");
        assert_eq!(poll.due.len(), 1, "{key:?} is due");
        from = PollFrom::After(poll.ranges[0].watermark);
    }
    let Reads { due_entries, .. } = counted.since(before).await;
    drop(snapshot);
    let first = GONE..GONE + GONE / 10;
    assert!(
        first.contains(&due_entries),
        "{due_entries} of {GONE} dead index entries on each side were read, in a poll from the beginning and {POLLS} more"
    );
}
