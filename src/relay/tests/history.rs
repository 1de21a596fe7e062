//! Topics that keep what was sent.

use std::time::{Duration, SystemTime};

use super::World;
use crate::limits::{PROCESSED_REPORT_AGE_MAX, PRUNE_ROWS_MAX};
use crate::message::MessageId;
use crate::relay::StartError;
use crate::store::{
    AdminStore as _, AuditFilter, AuditRecord, AuditStore as _, Call, Fault, HistoryStore as _, InsertOptions,
    MemoryStore, ProcessedOutcome, RowKey, SchemaProblem, StoreError,
};
use crate::topic::Topic;

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// It begins with a day: rows are kept for whole days, and a test must not depend on the hour at which it runs.
fn world_on(store: MemoryStore) -> World {
    let since_1970 = store.now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros();
    let of_the_day = u64::try_from(since_1970 % DAY.as_micros()).unwrap();
    store.advance(DAY - Duration::from_micros(of_the_day));
    let mut world = World::on(store);
    world.topics = vec![
        Topic::new("orders").keep_sent_days(2).processed_within(Duration::from_secs(60)),
        Topic::new("invoices"),
        Topic::new("ordered").ordered_by_key().keep_sent_days(1),
    ];
    world
}

async fn is_sent(world: &World, message: MessageId) -> bool {
    world.store.sent(message).await.unwrap().is_some()
}

#[tokio::test(start_paused = true)]
async fn every_settle_keeps_the_rows_of_topics_with_a_history() {
    for store in [MemoryStore::new(), MemoryStore::leasing()] {
        let world = world_on(store);
        let _relay = world.start().await;
        let (direct, swept) = (world.commit_and_hand_over("orders"), world.commit("orders"));
        let (deleted, ordered) = (world.commit_and_hand_over("invoices"), in_lane(&world));
        world.delivered(4).await;
        world.drained().await;
        for key in [direct, swept, ordered] {
            assert!(is_sent(&world, key.message_id).await, "{key:?}");
        }
        assert!(!is_sent(&world, deleted.message_id).await);
        let sent = world.store.sent(direct.message_id).await.unwrap().unwrap();
        assert!(sent.awaits_processing);
    }
}

fn in_lane(world: &World) -> RowKey {
    let mut envelope = super::envelope("ordered");
    envelope.key = Some("42".to_owned());
    let lane = crate::lane::lane_of("42", crate::limits::LANES);
    world.store.insert(envelope, crate::store::InsertOptions::default().in_lane(lane))
}

/// A settle whose answer was lost is repeated. The message is kept once, unchanged.
#[tokio::test(start_paused = true)]
async fn a_settle_that_is_repeated_keeps_once() {
    let world = world_on(MemoryStore::new());
    world.store.inject(Call::Settle, Fault::ResponseLost(StoreError::Conflict("answer lost".into())));
    let _relay = world.start().await;
    let key = world.commit_and_hand_over("orders");
    world.delivered(1).await;
    world.drained().await;
    world.until("it is settled again", || world.store.calls(Call::SettleDeadLetters) == 1).await;
    assert!(is_sent(&world, key.message_id).await);
    assert_eq!(world.broker.delivered().len(), 1);
}

/// An operator reads a row with `FOR UPDATE`, so the settle times out after most of its batch is gone.
#[tokio::test(start_paused = true)]
async fn a_row_that_somebody_locks_is_settled_later_and_the_others_of_its_batch_once() {
    let mut world = world_on(MemoryStore::new());
    world.limits.settle_workers = 1;
    let relay = world.start().await;
    world.broker.hold();
    let keys: Vec<_> = (0..5).map(|_| world.commit_and_hand_over("orders")).collect();
    world.until("all are sent", || world.broker.sends() == 5).await;
    let locked = world.store.lock(keys[2]).unwrap();
    world.broker.release();
    world.until("the others of its batch are settled", || relay.status().in_flight == 1).await;
    // With one worker: it does not wait for that row again.
    for topic in ["orders", "invoices"].repeat(10) {
        world.commit_and_hand_over(topic);
    }
    world.until("the others are settled", || world.store.live_rows().len() == 1 && relay.status().in_flight == 1).await;
    drop(locked);
    world.until("everything is settled", || relay.status().in_flight == 0).await;
    assert!(world.store.live_rows().is_empty());
    for key in keys {
        assert!(is_sent(&world, key.message_id).await);
    }
    assert_eq!(world.broker.sends(), 25, "nothing is sent twice");
    assert_eq!(world.store.calls(Call::SettleDeadLetters), 0, "no other relay had any of these rows");
}

#[tokio::test(start_paused = true)]
async fn expired_rows_are_removed_step_by_step() {
    let world = world_on(MemoryStore::new());
    let relay = world.start().await;
    let count = 2 * PRUNE_ROWS_MAX + 1;
    for _ in 0..count {
        world.commit("orders");
    }
    world.delivered(count).await;
    world.drained().await;
    world.store.advance(DAY * 2);
    tokio::time::sleep(world.limits.prune_interval * 2).await;
    assert_eq!(world.store.count_sent(&"orders".into(), usize::MAX).await.unwrap().sent, count);
    // A failed step is tried again.
    world.store.inject(Call::Prune, Fault::Refused(StoreError::Conflict("deadlock".into())));
    world.store.advance(DAY);
    let calls = world.store.calls(Call::Prune);
    let is_empty = async || world.store.count_sent(&"orders".into(), 1).await.unwrap().sent == 0;
    let deadline = tokio::time::Instant::now() + world.limits.prune_interval * 3;
    while !is_empty().await {
        assert!(tokio::time::Instant::now() < deadline, "it is never removed");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    // Failed, then three steps: each of a history and of reports.
    assert!(world.store.calls(Call::Prune) - calls >= 8, "the removal takes several bounded steps");
    assert!(relay.shutdown(Duration::from_secs(1)).await.is_clean());
}

#[tokio::test(start_paused = true)]
async fn a_processed_flag_waits_for_the_settle_of_its_message_and_not_for_ever() {
    for (waits, is_processed) in [(PROCESSED_REPORT_AGE_MAX - DAY, true), (PROCESSED_REPORT_AGE_MAX + DAY, false)] {
        let world = world_on(MemoryStore::new());
        let _relay = world.start().await;
        let message = super::envelope("orders");
        let message_id = message.message_id;
        assert_eq!(
            world.store.report_processed(&[message_id], None).await.unwrap(),
            [(message_id, ProcessedOutcome::NotSettledYet)]
        );
        world.store.advance(waits);
        tokio::time::sleep(world.limits.prune_interval * 2).await;
        world.store.insert(message, InsertOptions::default());
        world.delivered(1).await;
        world.drained().await;
        let sent = world.store.sent(message_id).await.unwrap().unwrap();
        assert_eq!(sent.processed_at.is_some(), is_processed, "after {waits:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn old_dead_letters_are_removed_if_the_topic_says_so() {
    let mut world = World::new();
    world.topics = vec![Topic::new("orders").keep_dead_days(1), Topic::new("invoices")];
    for topic in ["orders", "invoices"] {
        let key = world.commit(topic);
        assert!(world.store.poison(key));
    }
    let _relay = world.start().await;
    world.until("both are dead-lettered", || world.store.dead_letter_rows().len() == 2).await;
    world.store.advance(DAY * 2);
    world.until("one is too old", || world.store.dead_letter_rows().len() == 1).await;
    assert_eq!(&*world.store.dead_letter_rows()[0].topic, "invoices");
}

/// The audit is of no topic: it goes by its own age, and without one it stays.
#[tokio::test(start_paused = true)]
async fn an_old_audit_goes_where_the_outbox_says_so() {
    for (days, is_kept) in [(Some(3), true), (None, true), (Some(1), false)] {
        let world = World::new();
        let record = AuditRecord {
            id: uuid::Uuid::now_v7(),
            actor: None,
            action: "pause",
            message_id: None,
            filter: None,
            reason: None,
            ends: true,
        };
        world.store.pause(&"invoices".into(), Some(&record)).await.unwrap();
        world.store.advance(DAY * 2);
        let _relay = world.relay().keep_audit_days(days).start().await.unwrap();
        tokio::time::sleep(world.limits.prune_interval * 2).await;
        let left = world.store.audit_entries(&AuditFilter::new(), None, 10).await.unwrap();
        assert_eq!(left.len(), usize::from(is_kept), "{days:?}");
    }
}

/// No topic keeps history any more, but older history is still there.
#[tokio::test(start_paused = true)]
async fn a_relay_without_a_history_removes_the_history_of_earlier() {
    let mut world = world_on(MemoryStore::new());
    let relay = world.start().await;
    let key = world.commit_and_hand_over("orders");
    world.delivered(1).await;
    world.drained().await;
    relay.shutdown(Duration::from_secs(1)).await;
    world.topics = vec![Topic::new("orders")];
    world.store.advance(DAY * 3);
    let _relay = world.start().await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(!is_sent(&world, key.message_id).await, "it is never removed");
}

/// A relay without a history pays one statement per prune interval and logs nothing about it.
#[tokio::test(start_paused = true)]
async fn a_relay_without_a_history_prunes_nothing() {
    let world = World::new();
    let _relay = world.start().await;
    let missing = SchemaProblem::NotMigrated { table: "outbox_history".into(), migration: "0000outbox05_history" };
    for _ in 0..10 {
        world.store.inject(Call::Check, Fault::Refused(StoreError::Schema(missing.clone())));
    }
    tokio::time::sleep(world.limits.prune_interval * 10 - Duration::from_secs(5)).await;
    assert_eq!((world.store.calls(Call::Prune), world.store.calls(Call::Check)), (0, 11), "one at the start");
}

#[tokio::test(start_paused = true)]
async fn a_missing_table_refuses_the_start_and_names_its_migration() {
    let world = world_on(MemoryStore::new());
    let missing = || SchemaProblem::NotMigrated { table: "outbox_history".into(), migration: "0000outbox05_history" };
    // The first check is that of the tables that every outbox has.
    world.store.inject(Call::Check, Fault::ResponseLost(StoreError::Conflict("busy".into())));
    world.store.inject(Call::Check, Fault::Refused(StoreError::Schema(missing())));
    let error = world.relay().start().await.unwrap_err();
    assert!(matches!(&error, StartError::Schema(problem) if *problem == missing()), "{error}");
    assert!(error.to_string().contains("0000outbox05_history"), "{error}");
}
