use std::time::Duration;

use tokio::time::Instant;

use super::World;
use crate::limits::SEND_GROUP_ROWS_MAX;
use crate::store::MemoryStore;
use crate::transport::{Answer, FailureClass};

#[tokio::test(start_paused = true)]
async fn a_failure_about_the_record_is_retried_and_spends_an_attempt() {
    let world = World::new();
    world.broker.answer_next(2, Answer::Fail(FailureClass::Record));
    let _relay = world.start().await;
    let start = Instant::now();
    let key = world.commit_and_hand_over("orders");
    assert_eq!(world.delivered(1).await, [key.message_id]);
    assert!(start.elapsed() >= Duration::from_millis(800), "it waited for its back-off: {:?}", start.elapsed());
    assert_eq!(world.broker.delivered()[0].attempt, 3);
    world.drained().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_is_given_up_after_its_attempts_with_its_history() {
    for store in [MemoryStore::new(), MemoryStore::leasing()] {
        let world = World::on(store);
        world.broker.answer_next(3, Answer::Fail(FailureClass::Record));
        let _relay = world.start().await;
        let key = world.commit_and_hand_over("orders");
        world.drained().await;
        let dead = world.store.dead_rows();
        assert_eq!(dead[0].key.message_id, key.message_id);
        assert!(dead[0].reason.starts_with("attempts"), "{}", dead[0].reason);
        assert_eq!(dead[0].errors.len(), 2, "one for each attempt but the last, which is the reason");
        assert_eq!(world.broker.sends(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_temporary_failure_never_gives_a_message_up() {
    let world = World::new();
    world.broker.answer_next(20, Answer::Fail(FailureClass::Temporary));
    let _relay = world.start().await;
    let key = world.commit_and_hand_over("orders");
    assert_eq!(world.delivered(1).await, [key.message_id]);
    assert_eq!(world.broker.delivered()[0].attempt, 1, "no attempt was spent");
    assert!(world.store.dead_rows().is_empty());
}

/// The broker refuses every batch with the bad record in it, as Kafka does.
#[tokio::test(start_paused = true)]
async fn one_refused_record_takes_no_neighbour_with_it() {
    let world = World::new();
    let keys: Vec<_> = (0..10).map(|_| world.commit("orders")).collect();
    let bad = keys[4].message_id;
    world.broker.answer_next(10, Answer::Fail(FailureClass::RecordRefused));
    world.broker.answer_matching(Answer::Fail(FailureClass::RecordRefused), move |sent| sent.message_id == bad);
    let _relay = world.start().await;
    world.drained().await;
    assert_eq!(world.delivered(9).await.len(), 9);
    let dead = world.store.dead_rows();
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].key.message_id, bad);
    assert!(dead[0].reason.starts_with("refused"), "{}", dead[0].reason);
}

#[tokio::test(start_paused = true)]
async fn a_refused_topic_waits_and_slows_no_other() {
    let world = World::new();
    world.broker.answer_matching(Answer::Fail(FailureClass::Topic), |sent| &*sent.topic == "orders");
    let refused = SEND_GROUP_ROWS_MAX + 50;
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
    assert!(sends <= SEND_GROUP_ROWS_MAX + 4, "after the first group one row at a time, every ten seconds: {sends}");
    assert!(world.store.live_rows().iter().all(|row| row.attempts == 0), "an unknown topic spends no attempt");
    world.broker.forget_answers();
    world.drained().await;
    assert_eq!(world.broker.delivered_to("orders").len(), refused);
    assert!(relay.status().refused_topics.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_client_without_room_delays_and_loses_nothing() {
    for store in [MemoryStore::new(), MemoryStore::leasing()] {
        let world = World::on(store);
        world.broker.answer_next(30, Answer::Busy);
        let _relay = world.start().await;
        for _ in 0..20 {
            world.commit_and_hand_over("orders");
            world.commit("orders");
        }
        world.delivered(40).await;
        world.drained().await;
        assert!(world.store.dead_rows().is_empty());
    }
}
