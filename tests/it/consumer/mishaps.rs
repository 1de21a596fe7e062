//! What a handler may do wrong on the consumer's connection. Each is a failed attempt of its record, and of no other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use diesel_outbox::consumer::OnFailure;

use super::bed::{Act, Bed, DEADLINE, On, number};

/// Numbers under one key; the handler of the 3 does something wrong each time.
async fn is_an_attempt(on: On, act: fn() -> Act, says: &str) {
    let Some(bed) = Bed::open(on, 1).await else { return };
    let place = &bed.place;
    place.send((0..8).map(|number| (number, "k".to_owned())));
    let attempts = Arc::new(AtomicU32::new(0));
    let of_hook = Arc::clone(&attempts);
    let consumer = place.consumer().attempts_max(2).on_failure(OnFailure::ParkAlone).on_error(move |record, _| {
        assert_eq!(number(record), 3);
        of_hook.fetch_add(1, Ordering::SeqCst);
    });
    let consumer = place.start_acting(consumer, move |record| if number(record) == 3 { act() } else { Act::Write });
    place.wait_until_consumed();
    let parked = place.parked();
    assert!(parked.len() == 1 && parked[0].offset == 3 && parked[0].error.contains(says), "{parked:?}");
    let numbers: Vec<i32> = place.effects().iter().map(|effect| effect.number).collect();
    assert_eq!(numbers, [0, 1, 2, 4, 5, 6, 7], "what it wrote is gone, and nothing else");
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

macro_rules! mishaps {
    ($($test:ident = $on:ident, $act:expr, $says:literal;)+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            is_an_attempt(On::$on, || $act, $says).await;
        })+
    };
}

mishaps! {
    a_savepoint_that_stays_open_on_postgres = Postgres, Act::LeaveOpen, "did not end it";
    a_savepoint_that_stays_open_on_mariadb = Mariadb, Act::LeaveOpen, "did not end it";
    a_savepoint_that_stays_open_on_sqlite = Sqlite, Act::LeaveOpen, "did not end it";
    an_ignored_error_on_postgres = Postgres, Act::Ignore("SELECT 1 / 0"), "one of its statements had failed";
    // As a deadlock does on MariaDB, and a full disk on SQLite.
    an_ignored_error_on_mariadb = Mariadb, Act::Ignore("ROLLBACK"), "was over before the handler returned";
    an_ignored_error_on_sqlite = Sqlite, Act::Ignore("ROLLBACK"), "no transaction is active";
    a_connection_that_it_breaks_on_postgres = Postgres, Act::Run("SELECT pg_terminate_backend(pg_backend_pid())"), "";
    a_connection_that_it_breaks_on_mariadb = Mariadb, Act::Run("KILL CONNECTION_ID()"), "";
    a_broken_connection_that_it_ignores = Postgres, Act::Ignore("SELECT pg_terminate_backend(pg_backend_pid())"), "";
}

/// Its effect and the claim are committed, so the next attempt finds a duplicate.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_commits_is_told_so() {
    let Some(bed) = Bed::on_postgres(1).await else { return };
    let place = &bed.place;
    place.send((0..5).map(|number| (number, "k".to_owned())));
    let attempts = Arc::new(AtomicU32::new(0));
    let of_hook = Arc::clone(&attempts);
    let consumer = place.consumer().on_error(move |_, error| {
        assert!(error.to_string().contains("neither commit it nor roll it back"), "{error}");
        of_hook.fetch_add(1, Ordering::SeqCst);
    });
    let consumer = place.start_acting(consumer, |record| if number(record) == 3 { Act::Commit } else { Act::Write });
    place.wait_until_consumed();
    place.assert_once_in_order(5);
    assert_eq!((attempts.load(Ordering::SeqCst), place.parked().len()), (1, 0));
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}
