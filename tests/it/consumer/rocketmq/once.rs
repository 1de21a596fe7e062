//! Each message has its effect once, and each key in order.

use std::sync::{Arc, Mutex};

use diesel_outbox::Headers;
use diesel_outbox::consumer::{Progress, StartFrom};

use super::super::bed::{DEADLINE, On, numbers, wait_until};
use super::super::once::{a_shutdown_commits, each_message_has_one_effect};
use super::{QUEUES, bed, consumer};

fn copies_have_one_effect(on: On, progress: Progress) {
    let Some(bed) = bed(on) else { return };
    each_message_has_one_effect(&bed.place, |place| place.start(consumer(place).progress(progress), |_| Ok(())));
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_have_one_effect_on_postgres() {
    copies_have_one_effect(On::Postgres, Progress::Inbox);
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_have_one_effect_on_mariadb() {
    copies_have_one_effect(On::Mariadb, Progress::InboxAndOffsets);
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_have_one_effect_on_sqlite() {
    copies_have_one_effect(On::Sqlite, Progress::Inbox);
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_bounded_and_nothing_is_left_out() {
    let Some(bed) = bed(On::Postgres) else { return };
    let place = &bed.place;
    place.send(numbers(0..1_000));
    let consumer = place.start(consumer(place).records_max(20).workers(4), |_| Ok(()));
    let most = std::cell::Cell::new(0);
    wait_until("all effects", || {
        most.set(most.get().max(consumer.status().unprocessed));
        place.effects().len() >= 1_000
    });
    place.wait_until_consumed();
    place.assert_once_in_order(1_000);
    let bound = 20 + usize::try_from(QUEUES).expect("few");
    assert!(most.get() <= bound, "{most:?} records were in memory");
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

/// A shutdown waits for the handler that runs, commits what it did, and reports what it leaves.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_lets_handlers_end() {
    let Some(bed) = bed(On::Postgres) else { return };
    a_shutdown_commits(&bed.place, consumer);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_consumer_may_begin_at_the_end() {
    let Some(bed) = bed(On::Postgres) else { return };
    let place = &bed.place;
    place.send(numbers(0..20));
    let consumer = place.start(consumer(place).start_from(StartFrom::Latest), |_| Ok(()));
    wait_until("it reads every queue", || consumer.status().partitions == usize::try_from(QUEUES).expect("few"));
    // Of one key: the effects of several may come in any order.
    place.send((20..23).map(|number| (number, "k".to_owned())));
    place.wait_until_consumed();
    let numbers: Vec<i32> = place.effects().iter().map(|effect| effect.number).collect();
    assert_eq!(numbers, [20, 21, 22]);
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

/// What a handler sees is what the transport was given.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_has_its_headers_and_its_place() {
    let Some(bed) = bed(On::Postgres) else { return };
    let place = &bed.place;
    let id = place.send([(7, "k".to_owned())]).remove(0);
    let seen = Arc::new(Mutex::new(None));
    let of_handler = Arc::clone(&seen);
    let consumer = place.start(consumer(place), move |record| {
        *of_handler.lock().expect("no panic") = Some(record.clone());
        Ok(())
    });
    place.wait_until_consumed();
    let record = seen.lock().expect("no panic").take().expect("a record");
    assert_eq!((record.message_id(), record.key(), record.payload()), (Some(id), Some(&b"k"[..]), Some(&b"7"[..])));
    let own: Headers =
        [("outbox-message-id", id.to_string()), ("outbox-created-at", "0".to_owned())].into_iter().collect();
    assert_eq!(*record.headers(), own);
    let (_, queue) = record.partition().rsplit_once('/').expect("broker/queue");
    assert!((0..QUEUES).contains(&queue.parse::<i32>().expect("a number")), "{}", record.partition());
    assert_eq!((record.topic(), record.offset()), (place.topic.as_str(), 0));
    assert!(record.timestamp().is_some());
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}
