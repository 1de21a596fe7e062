//! Each message has its effect once, and each key in order.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use diesel_outbox::consumer::{Progress, RunningConsumer, StartFrom};

use super::bed::{AnyConsumer, Bed, DEADLINE, Gate, On, Place, numbers, wait_until};

/// Sends each message twice, and lets one consumer after the other read all of it.
async fn copies_have_one_effect(on: On, progress: Progress) {
    let Some(bed) = Bed::open(on, 3).await else { return };
    each_message_has_one_effect(&bed.place, |place| place.start(place.consumer().progress(progress), |_| Ok(())));
}

pub(super) fn each_message_has_one_effect(place: &Place, start: impl Fn(&Place) -> RunningConsumer) {
    let ids = place.send(numbers(0..60));
    let copies = ids.into_iter().zip(numbers(0..60)).map(|(id, (number, key))| (id, number, key));
    place.send_copies(copies);
    let consumer = start(place);
    place.wait_until_consumed();
    place.assert_once_in_order(60);
    let report = consumer.shutdown_blocking(DEADLINE);
    assert!(report.is_clean(), "{report:?}");
    // A group that has forgotten its offsets reads everything again.
    place.send(numbers(60..70));
    let again = start(place);
    place.wait_until_consumed();
    place.assert_once_in_order(70);
    assert!(again.shutdown_blocking(DEADLINE).is_clean());
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_have_one_effect_on_postgres() {
    copies_have_one_effect(On::Postgres, Progress::Inbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_have_one_effect_on_mariadb() {
    copies_have_one_effect(On::Mariadb, Progress::Inbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_have_one_effect_on_sqlite() {
    copies_have_one_effect(On::Sqlite, Progress::Inbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_have_one_effect_with_inbox_and_offsets() {
    copies_have_one_effect(On::Postgres, Progress::InboxAndOffsets).await;
}

/// The handlers of six keys wait for each other: one partition runs them at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn keys_of_one_partition_run_at_the_same_time_and_each_in_order() {
    const KEYS: usize = 6;
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    place.send((0..60).map(|number| (number, format!("k{}", number % 6))));
    let meeting = Arc::new((Mutex::new(HashSet::new()), Condvar::new()));
    let consumer = place.start(place.consumer().workers(KEYS), move |record| {
        let (present, all_are_there) = &*meeting;
        let mut present = present.lock().expect("no panic");
        present.insert(record.key().map(<[u8]>::to_vec));
        all_are_there.notify_all();
        let waited = all_are_there.wait_timeout_while(present, DEADLINE, |present| present.len() < KEYS);
        assert!(!waited.expect("no panic").1.timed_out(), "the keys do not run at the same time");
        Ok(())
    });
    place.wait_until_consumed();
    place.assert_once_in_order(60);
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_bounded_and_nothing_is_left_out() {
    let Some(bed) = Bed::on_postgres(2).await else { return };
    let place = &bed.place;
    place.send(numbers(0..500));
    let consumer = place.start(place.consumer().records_max(20).workers(4), |_| Ok(()));
    let most = std::cell::Cell::new(0);
    wait_until("all effects", || {
        most.set(most.get().max(consumer.status().unprocessed));
        place.effects().len() >= 500
    });
    place.wait_until_consumed();
    place.assert_once_in_order(500);
    // One more of each partition, if one was full before the others came.
    assert!(most.get() <= 22, "{most:?} records were in memory");
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

/// A shutdown waits for the handler that runs, commits what it did, and reports what it leaves.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_lets_handlers_end() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    a_shutdown_commits(&bed.place, Place::consumer);
}

pub(super) fn a_shutdown_commits<C: AnyConsumer>(place: &Place, consumer: impl Fn(&Place) -> C) {
    place.send((0..5).map(|number| (number, "k".to_owned())));
    let gate = Gate::default();
    let of_handler = gate.clone();
    let running = place.start(consumer(place), move |_| {
        of_handler.wait();
        Ok(())
    });
    wait_until("a handler runs", || running.status().running == 1);
    let ending = std::thread::spawn(move || running.shutdown_blocking(DEADLINE));
    gate.open();
    let report = ending.join().expect("no panic");
    assert!(report.is_clean(), "{report:?}");
    let done = place.effects().len();
    assert_eq!(report.unprocessed, 5 - done, "{report:?}");
    let next = place.start(consumer(place), |_| Ok(()));
    place.wait_until_consumed();
    place.assert_once_in_order(5);
    assert!(next.shutdown_blocking(DEADLINE).is_clean());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_outlasts_the_grace_is_reported_and_not_waited_for() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    place.send(numbers(0..1));
    let gate = Gate::default();
    let of_handler = gate.clone();
    let consumer = place.start(place.consumer(), move |_| {
        of_handler.wait();
        Ok(())
    });
    wait_until("a handler runs", || consumer.status().running == 1);
    let report = consumer.shutdown_blocking(Duration::from_millis(100));
    assert!(!report.in_time && report.running == 1, "{report:?}");
    gate.open();
    place.wait_for_effects(1);
    let next = place.start(place.consumer(), |_| Ok(()));
    place.wait_until_consumed();
    place.assert_once_in_order(1);
    assert!(next.shutdown_blocking(DEADLINE).is_clean());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_consumer_may_begin_at_the_end() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    place.send(numbers(0..5));
    let consumer = place.start(place.consumer().start_from(StartFrom::Latest), |_| Ok(()));
    wait_until("it reads the partition", || consumer.status().partitions == 1);
    // Of one key: the effects of several may come in any order.
    place.send((5..8).map(|number| (number, "k".to_owned())));
    place.wait_until_consumed();
    let numbers: Vec<i32> = place.effects().iter().map(|effect| effect.number).collect();
    assert_eq!(numbers, [5, 6, 7]);
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}
