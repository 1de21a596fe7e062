use std::time::Duration;

use tokio::time::Instant;

use super::World;
use crate::limits::SEND_BATCH_ROWS_MAX;
use crate::relay::TransportStatus;
use crate::retry::Fixed;
use crate::store::{Call, ClaimSpec, Failed, Fault, MemoryStore, RowKey, Store as _, StoreError};
use crate::topic::Topic;
use crate::transport::{FailureClass, ScriptedResponse};

#[tokio::test(start_paused = true)]
async fn a_failure_about_the_record_is_retried_and_spends_an_attempt() {
    let world = World::new();
    world.broker.respond_next(2, ScriptedResponse::Fail(FailureClass::Record));
    let _relay = world.start().await;
    let start = Instant::now();
    let key = world.commit_and_hand_over("orders");
    assert_eq!(world.delivered(1).await, [key.message_id]);
    assert!(start.elapsed() >= Duration::from_millis(800), "it waited for its back-off: {:?}", start.elapsed());
    assert_eq!(world.broker.delivered()[0].attempt, 3);
    world.drained().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_is_dead_lettered_after_its_attempts_with_its_history() {
    for store in [MemoryStore::new(), MemoryStore::leasing()] {
        let world = World::on(store);
        world.broker.respond_next(3, ScriptedResponse::Fail(FailureClass::Record));
        let _relay = world.start().await;
        let key = world.commit_and_hand_over("orders");
        world.drained().await;
        let dead = world.store.dead_letter_rows();
        assert_eq!(dead[0].key.message_id, key.message_id);
        assert!(dead[0].reason.starts_with("attempts"), "{}", dead[0].reason);
        assert_eq!(dead[0].errors.len(), 2, "one error for each attempt except the last, whose error is the reason");
        assert_eq!(world.broker.sends(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_temporary_failure_never_dead_letters_a_message() {
    let world = World::new();
    world.broker.respond_next(20, ScriptedResponse::Fail(FailureClass::Temporary));
    let _relay = world.start().await;
    let key = world.commit_and_hand_over("orders");
    assert_eq!(world.delivered(1).await, [key.message_id]);
    assert_eq!(world.broker.delivered()[0].attempt, 1, "no attempt was spent");
    assert!(world.store.dead_letter_rows().is_empty());
}

/// A statement that fails permanently because of one row is repeated without that row.
#[tokio::test(start_paused = true)]
async fn a_batch_that_cannot_be_written_is_written_in_parts() {
    for (call, attempts_max) in [(Call::Fail, 3), (Call::DeadLetter, 1)] {
        let mut world = World::new();
        let hour = Fixed::seconds(&[3_600]);
        world.topics = vec![Topic::new("orders").attempts_max(attempts_max).retry(hour)];
        for _ in 0..10 {
            world.commit("orders");
        }
        world.broker.respond_next(10, ScriptedResponse::Fail(FailureClass::Record));
        for _ in 0..2 {
            world.store.inject(call, Fault::Refused(StoreError::Statement("as the test says".into())));
        }
        let _relay = world.start().await;
        let written = || {
            let noted = world.store.live_rows().iter().filter(|row| row.failures == 1).count();
            noted + world.store.dead_letter_rows().len()
        };
        world.until(&format!("{call:?} of each row"), || written() == 10).await;
        assert_eq!(world.broker.sends(), 10, "no row is sent again because its outcome was not written");
    }
}

/// The broker refuses every batch with the bad record in it, as Kafka does. A refusal of the batch spends no attempt,
/// even of a message that has only one.
#[tokio::test(start_paused = true)]
async fn one_refused_record_takes_no_neighbour_with_it() {
    for attempts_max in [1, 3] {
        let mut world = World::new();
        world.topics = vec![Topic::new("orders").attempts_max(attempts_max)];
        let keys: Vec<_> = (0..10).map(|_| world.commit("orders")).collect();
        let bad = keys[4].message_id;
        world.broker.respond_next(10, ScriptedResponse::Fail(FailureClass::RecordRefused));
        world
            .broker
            .respond_when(ScriptedResponse::Fail(FailureClass::RecordRefused), move |sent| sent.message_id == bad);
        let _relay = world.start().await;
        world.drained().await;
        assert_eq!(world.delivered(9).await.len(), 9, "of at most {attempts_max} attempts");
        assert!(world.broker.delivered().iter().all(|sent| sent.attempt == 1));
        let dead = world.store.dead_letter_rows();
        assert_eq!(dead.len(), 1);
        assert_eq!(dead[0].key.message_id, bad);
        assert!(dead[0].reason.starts_with("refused"), "{}", dead[0].reason);
    }
}

/// A row that is due at once is often claimed by another relay next, which sees from the row that it has to go alone.
#[tokio::test(start_paused = true)]
async fn a_row_that_another_relay_had_refused_goes_alone() {
    let world = World::new();
    let keys: Vec<_> = (0..10).map(|_| world.commit("orders")).collect();
    refused_elsewhere(&world, &keys).await;
    let bad = keys[4].message_id;
    world.broker.respond_when(ScriptedResponse::Fail(FailureClass::RecordRefused), move |sent| sent.message_id == bad);
    let _relay = world.start().await;
    world.drained().await;
    assert_eq!(world.delivered(9).await.len(), 9);
    assert_eq!(world.broker.sends(), 10, "a row that is refused alone is not sent again");
    assert!(world.store.dead_letter_rows()[0].reason.starts_with("refused"));
}

/// There is nothing else with which to try the broker.
#[tokio::test(start_paused = true)]
async fn a_row_that_goes_alone_ends_an_outage() {
    let world = World::new();
    let key = world.commit("orders");
    refused_elsewhere(&world, &[key]).await;
    world.broker.go_down();
    let relay = world.start().await;
    assert!(matches!(relay.status().transport, TransportStatus::Down { .. }));
    world.broker.go_up();
    assert_eq!(world.delivered(1).await, [key.message_id]);
    world.drained().await;
    assert_eq!(relay.status().transport, TransportStatus::Up);
}

async fn refused_elsewhere(world: &World, rows: &[RowKey]) {
    let spec = ClaimSpec {
        topic: "orders".into(),
        after: None,
        rows_max: rows.len(),
        bytes_max: usize::MAX,
        lock_duration: Duration::from_secs(1),
        lease_duration: Duration::from_secs(30),
        watermark_slack_duration: Duration::ZERO,
        keep: None,
    };
    let claim = world.store.claim(&spec).await.unwrap();
    let held = claim.handle.close(&[], rows).await.unwrap().held;
    let class = FailureClass::RecordRefused.as_str();
    let failed = held.into_iter().map(|held| {
        let error = "too large".to_owned();
        Failed { held, wait: Duration::ZERO, spends_attempt: false, class, error }
    });
    let failed: Vec<Failed> = failed.collect();
    assert_eq!(world.store.fail(&failed).await.unwrap().len(), rows.len());
}

#[tokio::test(start_paused = true)]
async fn a_refused_topic_waits_and_slows_no_other() {
    let world = World::new();
    world.broker.respond_when(ScriptedResponse::Fail(FailureClass::Topic), |sent| &*sent.topic == "orders");
    let refused = SEND_BATCH_ROWS_MAX + 50;
    for _ in 0..refused {
        world.commit("orders");
    }
    let relay = world.start().await;
    for _ in 0..50 {
        world.commit_and_hand_over("invoices");
    }
    world.delivered(50).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(relay.status().refused_topics.len(), 1);
    assert_eq!(world.broker.delivered_to("invoices").len(), 50);
    let sends = world.broker.sends() - 50;
    assert!(sends <= SEND_BATCH_ROWS_MAX + 4, "after the first batch, one row every ten seconds: {sends}");
    assert!(world.store.live_rows().iter().all(|row| row.attempts == 0), "an unknown topic spends no attempt");
    world.broker.clear_responses();
    world.drained().await;
    assert_eq!(world.broker.delivered_to("orders").len(), refused);
    assert!(relay.status().refused_topics.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_client_without_room_delays_and_loses_nothing() {
    for store in [MemoryStore::new(), MemoryStore::leasing()] {
        let world = World::on(store);
        world.broker.respond_next(30, ScriptedResponse::Busy);
        let _relay = world.start().await;
        for _ in 0..20 {
            world.commit_and_hand_over("orders");
            world.commit("orders");
        }
        world.delivered(40).await;
        world.drained().await;
        assert!(world.store.dead_letter_rows().is_empty());
    }
}
