//! Records that fail: tried again, parked, replayed, or in the way of their key.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use diesel_outbox::consumer::{HandlerError, OnFailure, Progress, Record, RunningConsumer};
use diesel_outbox::retry::RetryPolicy;

use super::bed::{Bed, DEADLINE, On, Place, number, wait_until};

/// Six records of the key `a`, and as many of `b`, in turns.
fn send(place: &Place) {
    place.send((0..12).map(|number| (number, ["a", "b"][usize::from(number % 2 == 1)].to_owned())));
}

/// Fails at the record 2, of the key `a`, while the flag is set.
fn failing(is_broken: &Arc<AtomicBool>) -> impl Fn(&Record) -> Result<(), HandlerError> + Send + Sync + 'static {
    let is_broken = Arc::clone(is_broken);
    move |record| match is_broken.load(Ordering::SeqCst) && number(record) == 2 {
        true => Err(HandlerError::retriable("the address is unknown")),
        false => Ok(()),
    }
}

fn of_key(place: &Place, key: &str) -> Vec<i32> {
    place.effects().iter().filter(|effect| effect.record_key == key).map(|effect| effect.number).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_attempt_leaves_nothing_and_the_next_one_is_told() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    send(place);
    let (attempts, errors) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (of_handler, of_hook) = (Arc::clone(&attempts), Arc::clone(&errors));
    let consumer = place.consumer().on_error(move |record, error| {
        assert_eq!((number(record), error.to_string()), (2, "not yet".to_owned()));
        of_hook.fetch_add(1, Ordering::SeqCst);
    });
    let consumer = place.start(consumer, move |record| {
        if number(record) == 2 && of_handler.fetch_add(1, Ordering::SeqCst) < 2 {
            return Err(HandlerError::retriable("not yet"));
        }
        Ok(())
    });
    place.wait_until_consumed();
    place.assert_once_in_order(12);
    assert_eq!((attempts.load(Ordering::SeqCst), errors.load(Ordering::SeqCst)), (3, 2));
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

/// A record fails for good and is parked, with what follows of its key. After the release all go in order.
async fn parked_records_are_replayed_in_order(on: On, progress: Progress) {
    let Some(bed) = Bed::open(on, 1).await else { return };
    let place = &bed.place;
    send(place);
    let is_broken = Arc::new(AtomicBool::new(true));
    let consumer = place.start(place.consumer().progress(progress), failing(&is_broken));
    place.wait_until_consumed();
    assert_eq!(of_key(place, "a"), [0]);
    assert_eq!(of_key(place, "b"), [1, 3, 5, 7, 9, 11], "the other key is not held up");
    let parked = place.parked();
    assert_eq!(parked.iter().map(|parked| parked.offset).collect::<Vec<_>>(), [2, 4, 6, 8, 10]);
    assert!(parked[0].error.contains("the address is unknown") && parked[0].holds_key, "{parked:?}");
    // Another process knows it from the table.
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
    let consumer = place.start(place.consumer().progress(progress), failing(&is_broken));
    place.send([(12, "a".to_owned())]);
    wait_until("what follows is parked as well", || place.parked().len() == 6);
    // It still fails: it stays where it is, and its release is taken back.
    place.release(2);
    wait_until("the release is taken back", || {
        place.count("SELECT count(*) FROM outbox_parked WHERE replays = 1") == 1
    });
    assert_eq!((place.parked().len(), of_key(place, "a")), (6, vec![0]));
    is_broken.store(false, Ordering::SeqCst);
    place.release(2);
    wait_until("nothing is parked", || place.parked().is_empty());
    place.send([(13, "a".to_owned())]);
    place.wait_until_consumed();
    place.assert_once_in_order(14);
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_records_are_replayed_in_order_on_postgres() {
    parked_records_are_replayed_in_order(On::Postgres, Progress::Inbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_records_are_replayed_in_order_on_mariadb() {
    parked_records_are_replayed_in_order(On::Mariadb, Progress::Inbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_records_are_replayed_in_order_on_sqlite() {
    parked_records_are_replayed_in_order(On::Sqlite, Progress::Inbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_records_are_replayed_in_order_with_offsets() {
    parked_records_are_replayed_in_order(On::Postgres, Progress::Offsets).await;
}

/// Records of the key arrive while it is replayed.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_beside_new_records_keeps_the_order() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    let is_broken = Arc::new(AtomicBool::new(true));
    let consumer = place.start(place.consumer().attempts_max(1), failing(&is_broken));
    place.send((0..40).map(|number| (number, "a".to_owned())));
    place.wait_until_consumed();
    is_broken.store(false, Ordering::SeqCst);
    place.release(2);
    for number in 40..80 {
        place.send([(number, "a".to_owned())]);
    }
    wait_until("all effects", || place.effects().len() >= 80);
    place.wait_until_consumed();
    place.assert_once_in_order(80);
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_parked_alone_leaves_its_key_free_and_can_be_released() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    send(place);
    let is_broken = Arc::new(AtomicBool::new(true));
    let consumer = place.start(place.consumer().on_failure(OnFailure::ParkAlone), failing(&is_broken));
    place.wait_until_consumed();
    assert_eq!(of_key(place, "a"), [0, 4, 6, 8, 10]);
    let parked = place.parked();
    assert!(parked.len() == 1 && parked[0].offset == 2 && !parked[0].holds_key, "{parked:?}");
    is_broken.store(false, Ordering::SeqCst);
    place.release(2);
    wait_until("it is replayed", || place.parked().is_empty());
    assert_eq!(of_key(place, "a"), [0, 4, 6, 8, 10, 2]);
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_key_waits_until_its_record_succeeds() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    send(place);
    let is_broken = Arc::new(AtomicBool::new(true));
    let consumer = place.start(place.consumer().on_failure(OnFailure::BlockKey), failing(&is_broken));
    wait_until("the other key is done", || of_key(place, "b").len() == 6);
    assert_eq!(of_key(place, "a"), [0]);
    is_broken.store(false, Ordering::SeqCst);
    place.wait_until_consumed();
    place.assert_once_in_order(12);
    assert!(place.parked().is_empty());
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_panics_has_failed() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    send(place);
    let consumer = place.start(place.consumer().on_failure(OnFailure::ParkAlone), |record| {
        assert_ne!(number(record), 3, "of this test");
        Ok(())
    });
    place.wait_until_consumed();
    assert_eq!(of_key(place, "b"), [1, 5, 7, 9, 11]);
    assert!(place.parked()[0].error.contains("panicked"), "{:?}", place.parked());
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

/// A policy that asks how the consumer is, and is slow.
#[derive(Debug)]
struct Asking(Arc<Mutex<Option<RunningConsumer>>>);

impl RetryPolicy for Asking {
    fn wait(&self, _failures: u32) -> Duration {
        let consumer = self.0.lock().expect("no panic");
        let status = consumer.as_ref().expect("it runs").status();
        assert!(!status.is_database_away);
        Duration::from_millis(20)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_policy_may_ask_the_consumer() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    let (running, attempts) = (Arc::new(Mutex::new(None)), AtomicU32::new(0));
    let consumer = place.consumer().retry(Asking(Arc::clone(&running)));
    let consumer =
        place.start(consumer, move |record| match number(record) == 2 && attempts.fetch_add(1, Ordering::SeqCst) < 2 {
            true => Err(HandlerError::retriable("not yet")),
            false => Ok(()),
        });
    *running.lock().expect("no panic") = Some(consumer);
    send(place);
    place.wait_until_consumed();
    place.assert_once_in_order(12);
    let consumer = running.lock().expect("no panic").take().expect("it runs");
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}
