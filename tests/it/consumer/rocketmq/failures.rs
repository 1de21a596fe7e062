//! Records that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use diesel_outbox::consumer::HandlerError;

use super::super::bed::{DEADLINE, On, number, wait_until};
use super::{bed, consumer};

/// A record fails for good and is parked, with what follows of its key. After the release all go in order.
fn parked_records_are_replayed_in_order(on: On) {
    let Some(bed) = bed(on) else { return };
    let place = &bed.place;
    place.send((0..12).map(|number| (number, ["a", "b"][usize::from(number % 2 == 1)].to_owned())));
    let is_broken = Arc::new(AtomicBool::new(true));
    let of_handler = Arc::clone(&is_broken);
    let consumer =
        place.start(consumer(place), move |record| match of_handler.load(Ordering::SeqCst) && number(record) == 2 {
            true => Err(HandlerError::retriable("the address is unknown")),
            false => Ok(()),
        });
    place.wait_until_consumed();
    let numbers = |key: &str| -> Vec<i32> {
        place.effects().iter().filter(|effect| effect.record_key == key).map(|effect| effect.number).collect()
    };
    assert_eq!((numbers("a"), numbers("b")), (vec![0], vec![1, 3, 5, 7, 9, 11]), "the other key is not held up");
    let parked = place.parked();
    let first = parked.first().expect("parked");
    assert!(parked.len() == 5 && first.error.contains("the address is unknown") && first.holds_key, "{parked:?}");
    is_broken.store(false, Ordering::SeqCst);
    place.release(first.offset);
    wait_until("nothing is parked", || place.parked().is_empty());
    place.send([(12, "a".to_owned())]);
    place.wait_until_consumed();
    place.assert_once_in_order(13);
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_records_are_replayed_in_order_on_postgres() {
    parked_records_are_replayed_in_order(On::Postgres);
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_records_are_replayed_in_order_on_mariadb() {
    parked_records_are_replayed_in_order(On::Mariadb);
}
