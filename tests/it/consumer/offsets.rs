//! Offsets in the database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use diesel_outbox::consumer::{HandlerError, Progress};

use super::bed::{Bed, DEADLINE, On, number, numbers, wait_until};

async fn the_database_says_where_to_go_on(on: On) {
    let Some(bed) = Bed::open(on, 2).await else { return };
    let place = &bed.place;
    place.send(numbers(0..40));
    let consumer = place.start(place.consumer().progress(Progress::Offsets), |_| Ok(()));
    place.wait_until_consumed();
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
    // The broker has forgotten what the group committed.
    place.commit_offsets(0);
    place.send(numbers(40..60));
    let consumer = place.start(place.consumer().progress(Progress::Offsets), |_| Ok(()));
    place.wait_until_consumed();
    place.assert_once_in_order(60);
    assert_eq!(place.count("SELECT CAST(sum(next_offset) AS decimal(20)) = 60 FROM outbox_consumer_offsets").min(1), 1);
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_says_where_to_go_on_on_mariadb() {
    the_database_says_where_to_go_on(On::Mariadb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_says_where_to_go_on_on_sqlite() {
    the_database_says_where_to_go_on(On::Sqlite).await;
}

/// Another process has gone on with a record between two attempts of this one.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_lost_its_partition_writes_nothing() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = bed.place.clone();
    place.send((0..10).map(|number| (number, "k".to_owned())));
    let attempts = Arc::new(AtomicU32::new(0));
    let of_handler = Arc::clone(&attempts);
    let of_other = place.clone();
    // The hook runs between the attempts, after the rollback.
    let consumer = place.consumer().progress(Progress::Offsets).on_error(move |_, _| {
        of_other.run(
            "INSERT INTO effects (number, record_key) VALUES (4, 'k');
             UPDATE outbox_consumer_offsets SET next_offset = 5 WHERE next_offset = 4",
        );
    });
    let consumer = place.start(consumer, move |record| {
        if number(record) == 4 {
            of_handler.fetch_add(1, Ordering::SeqCst);
            return Err(HandlerError::retriable("not now"));
        }
        Ok(())
    });
    place.wait_until_consumed();
    place.assert_once_in_order(10);
    assert_eq!(attempts.load(Ordering::SeqCst), 1, "the second attempt did not come to its handler");
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

/// The tables are missing at first: nothing is processed, and nothing is lost.
#[tokio::test(flavor = "multi_thread")]
async fn it_waits_for_its_tables() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    place.run("ALTER TABLE outbox_consumer_offsets RENAME TO elsewhere");
    place.send(numbers(0..5));
    let consumer = place.start(place.consumer().progress(Progress::Offsets), |_| Ok(()));
    place.run("ALTER TABLE elsewhere RENAME TO outbox_consumer_offsets");
    wait_until("all effects", || place.effects().len() == 5);
    place.wait_until_consumed();
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}
