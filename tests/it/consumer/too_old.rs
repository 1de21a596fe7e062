//! Records that are older than what the inbox keeps.

use diesel_outbox::consumer::Progress;

use super::bed::{Bed, DEADLINE, On, Place, numbers, wait_until};

/// Moves the inbox's start beyond every message of the test, as the prune of another consumer may.
fn forget_everything(place: &Place) {
    let far = 32_503_680_000_000_i64;
    place.run(&match place.on {
        On::Postgres => format!("SELECT setval('outbox_inbox_start', {far})"),
        _ => format!("UPDATE outbox_inbox_start SET kept_from = {far}"),
    });
}

/// Nobody knows whether they were processed, so a person decides. To read them again adds nothing.
async fn they_are_parked_alone(on: On) {
    let Some(bed) = Bed::open(on, 1).await else { return };
    let place = &bed.place;
    forget_everything(place);
    place.send(numbers(0..5));
    let consumer = place.start(place.consumer(), |_| Ok(()));
    place.wait_until_consumed();
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
    let parked = place.parked();
    assert_eq!((place.effects().len(), parked.len()), (0, 5), "{parked:?}");
    assert!(parked.iter().all(|parked| parked.error.contains("older") && !parked.holds_key), "{parked:?}");
    place.commit_offsets(0);
    // Of entries that the claims may have written: only the rows say that they are parked.
    place.prune();
    let consumer = place.start(place.consumer(), |_| Ok(()));
    place.wait_until_consumed();
    assert_eq!(place.parked().len(), 5);
    place.release(3);
    wait_until("it is processed", || place.effects().len() == 1 && place.parked().len() == 4);
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

#[tokio::test(flavor = "multi_thread")]
async fn they_are_parked_alone_on_postgres() {
    they_are_parked_alone(On::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn they_are_parked_alone_on_mariadb() {
    they_are_parked_alone(On::Mariadb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn they_are_parked_alone_on_sqlite() {
    they_are_parked_alone(On::Sqlite).await;
}

/// The offset in the database says that they are new.
#[tokio::test(flavor = "multi_thread")]
async fn with_offsets_in_the_database_they_are_processed() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    forget_everything(place);
    place.send(numbers(0..5));
    let consumer = place.start(place.consumer().progress(Progress::InboxAndOffsets), |_| Ok(()));
    place.wait_until_consumed();
    place.assert_once_in_order(5);
    assert!(place.parked().is_empty());
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}
