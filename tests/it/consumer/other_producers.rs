//! Records that no outbox sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::UNIX_EPOCH;

use diesel_outbox::consumer::{HandlerError, Progress, Record};
use diesel_outbox::inbox::InboxKey;
use uuid::Uuid;

use super::bed::{Bed, DEADLINE, On, number, wait_until};

/// The order's number, which such a producer sends as its payload.
fn order(record: &Record) -> Option<InboxKey> {
    Some(InboxKey::of_text(number(record).to_string()))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_producer_sent_twice_is_recognised_by_the_application_s_key() {
    for on in [On::Postgres, On::Mariadb, On::Sqlite] {
        let Some(bed) = Bed::open(on, 1).await else { continue };
        let place = &bed.place;
        for _ in 0..2 {
            place.send_without_ids([(0, "a"), (1, "b"), (2, "a")]);
        }
        let consumer = place.start(place.consumer().inbox_key(order), |_| Ok(()));
        place.wait_until_consumed();
        place.assert_once_in_order(3);
        assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
    }
}

/// The other records have their own places.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_whose_key_is_not_found_is_parked_and_others_go_on() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    place.send_without_ids([(0, "a"), (1, "b"), (2, "c"), (2, "d")]);
    let consumer = place.consumer().inbox_key(|record| match number(record) {
        1 => panic!("a defect of the application"),
        _ => None,
    });
    let consumer = place.start(consumer, |_| Ok(()));
    place.wait_until_consumed();
    let numbers: Vec<i32> = place.effects().iter().map(|effect| effect.number).collect();
    assert_eq!((numbers.len(), numbers.iter().filter(|number| **number == 2).count()), (3, 2), "{numbers:?}");
    let parked = place.parked();
    assert_eq!(parked.iter().map(|record| record.offset).collect::<Vec<_>>(), [1]);
    assert!(parked[0].error.contains("inbox_key"), "{}", parked[0].error);
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

/// While the function is broken, copies are parked.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_parked_without_its_key_is_claimed_when_it_is_replayed() {
    for on in [On::Postgres, On::Mariadb, On::Sqlite] {
        let Some(bed) = Bed::open(on, 1).await else { continue };
        let place = &bed.place;
        place.send_without_ids([(7, "a"), (7, "b")]);
        let (is_broken, calls) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU32::new(0)));
        let of_key = (Arc::clone(&is_broken), Arc::clone(&calls));
        let consumer = place.consumer().attempts_max(1).inbox_key(move |record| {
            let is_broken = of_key.0.load(Ordering::SeqCst);
            of_key.1.fetch_add(1, Ordering::SeqCst);
            assert!(!is_broken, "a defect of the application");
            order(record)
        });
        let consumer = place.start(consumer, |_| Ok(()));
        place.wait_until_consumed();
        assert_eq!(place.parked().len(), 2, "on {on:?}");
        let before = calls.load(Ordering::SeqCst);
        place.release(0);
        wait_until("its replay fails", || calls.load(Ordering::SeqCst) > before);
        is_broken.store(false, Ordering::SeqCst);
        place.release(0);
        place.release(1);
        wait_until("nothing is parked", || place.parked().is_empty());
        place.send_without_ids([(7, "c")]);
        place.wait_until_consumed();
        assert_eq!(place.effects().len(), 1, "on {on:?}");
        assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
    }
}

/// An operator lets the consumer read them again, and the mended function finds their keys.
#[tokio::test(flavor = "multi_thread")]
async fn parked_copies_are_recognised_when_they_are_read_again_and_replayed_in_order() {
    for on in [On::Postgres, On::Mariadb, On::Sqlite] {
        let Some(bed) = Bed::open(on, 1).await else { continue };
        let place = &bed.place;
        let start = |is_broken: bool| {
            let consumer = place.consumer().attempts_max(1).progress(Progress::InboxAndOffsets);
            let consumer = consumer.inbox_key(move |record| {
                assert!(!is_broken, "a defect of the application");
                order(record)
            });
            place.start(consumer, |_| Ok(()))
        };
        place.send_without_ids([(0, "a"), (1, "a"), (0, "a")]);
        let consumer = start(true);
        place.wait_until_consumed();
        assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
        place.run("UPDATE outbox_consumer_offsets SET next_offset = 0");
        place.send_without_ids([(2, "b")]);
        let consumer = start(false);
        place.wait_until_consumed();
        let numbers = || place.effects().iter().map(|effect| effect.number).collect::<Vec<_>>();
        assert_eq!((numbers(), place.parked().len()), (vec![2], 3), "on {on:?}");
        place.release(0);
        wait_until("nothing is parked", || place.parked().is_empty());
        assert_eq!(numbers(), [2, 0, 1], "on {on:?}");
        assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
    }
}

/// The claim may have written the key, which the replay must not take for a copy.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_whose_key_is_too_old_is_parked_and_processed_when_it_is_released() {
    for on in [On::Postgres, On::Mariadb, On::Sqlite] {
        let Some(bed) = Bed::open(on, 1).await else { continue };
        let place = &bed.place;
        let old = |record: &Record| Some(InboxKey::of_text(number(record).to_string()).dated(UNIX_EPOCH));
        let start_at = |ms: i64| match on {
            On::Postgres => place.run(&format!("SELECT setval('outbox_inbox_start', {ms})")),
            On::Mariadb | On::Sqlite => place.run(&format!("UPDATE outbox_inbox_start SET kept_from = {ms}")),
        };
        let consumer = place.start(place.consumer().without_pruning().inbox_key(old), |_| Ok(()));
        // It has seen the start where that key is not too old yet.
        place.send_without_ids([(0, "k")]);
        place.wait_for_effects(1);
        start_at(1_000_000_000_000);
        place.send_without_ids([(1, "k")]);
        place.wait_until_consumed();
        let parked = place.parked();
        assert!(parked.len() == 1 && parked[0].error.contains("older"), "on {on:?}: {parked:?}");
        start_at(0);
        place.release(1);
        wait_until("nothing is parked", || place.parked().is_empty());
        place.assert_once_in_order(2);
        assert!(consumer.shutdown(DEADLINE).await.is_clean());
    }
}

/// A row of an index has 2,704 bytes at most on PostgreSQL.
#[tokio::test(flavor = "multi_thread")]
async fn records_of_a_long_key_are_parked_and_replayed_in_order() {
    for on in [On::Postgres, On::Mariadb, On::Sqlite] {
        let Some(bed) = Bed::open(on, 1).await else { continue };
        let place = &bed.place;
        // It does not compress.
        let long: String = (0..200).map(|_| Uuid::new_v4().simple().to_string()).collect();
        let other = format!("{long}-");
        place.send_without_ids([(0, &*long), (1, &*long), (2, &*other)]);
        let is_broken = Arc::new(AtomicBool::new(true));
        let of_handler = Arc::clone(&is_broken);
        let consumer = place.start(place.consumer(), move |record| {
            match of_handler.load(Ordering::SeqCst) && [0, 2].contains(&number(record)) {
                true => Err(HandlerError::permanent("refused")),
                false => Ok(()),
            }
        });
        place.wait_until_consumed();
        let mut parked = place.parked();
        parked.sort_by_key(|record| record.offset);
        let errors: Vec<String> = parked.into_iter().map(|record| record.error).collect();
        assert_eq!(errors, ["refused", "an earlier record of its key is parked", "refused"]);
        is_broken.store(false, Ordering::SeqCst);
        place.release(0);
        place.release(2);
        wait_until("nothing is parked", || place.parked().is_empty());
        place.assert_once_in_order(3);
        assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
    }
}
