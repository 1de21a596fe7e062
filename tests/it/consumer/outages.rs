//! The database or the broker is away.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use diesel::prelude::*;
use diesel_migrations::MigrationHarness as _;
use diesel_outbox::consumer::HandlerError;
use diesel_outbox::migrations::MIGRATIONS;
use xtask::servers::{Kafka, Postgres, ServerKind};
use xtask::test_servers;

use super::bed::{Bed, DEADLINE, On, numbers, wait_until};
use crate::outbox::databases::fresh_postgres;

/// With a database server that a test may kill.
async fn with_own_database(partitions: i32) -> Option<(Postgres, Bed)> {
    let bootstrap = test_servers::shared_or_skip(ServerKind::Kafka)?;
    let server = test_servers::own_or_skip(Postgres::start(&xtask::servers::postgres::Options::default()))?;
    PgConnection::establish(&server.url()).expect("connect").run_pending_migrations(MIGRATIONS).expect("migrate");
    let bed = Bed::open_at(On::Postgres, server.url(), bootstrap, partitions, None).await;
    Some((server, bed))
}

/// With a broker that a test may kill.
async fn with_own_broker(partitions: i32) -> Option<(Kafka, Bed)> {
    let broker = test_servers::own_or_skip(Kafka::start(&Default::default()))?;
    let bed = Bed::open_at(On::Postgres, fresh_postgres()?, broker.bootstrap(), partitions, None).await;
    Some((broker, bed))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_spends_no_attempt() {
    let Some((mut server, bed)) = with_own_database(2).await else { return };
    let place = &bed.place;
    let failures = Arc::new(AtomicU32::new(0));
    let of_hook = Arc::clone(&failures);
    let consumer = place.consumer().attempts_max(1).on_error(move |_, _| {
        of_hook.fetch_add(1, Ordering::SeqCst);
    });
    place.send(numbers(0..50));
    let consumer = place.start(consumer, |_| Ok(()));
    place.wait_for_effects(10);
    server.kill9().expect("kill -9");
    place.send(numbers(50..100));
    wait_until("it knows that the database is away", || consumer.status().is_database_away);
    server.start_again().expect("start again");
    place.wait_until_consumed();
    place.assert_once_in_order(100);
    assert_eq!((failures.load(Ordering::SeqCst), place.parked().len()), (0, 0));
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

/// Nothing is to be processed, so only the loop itself can find that the database is back.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_ends_without_a_record() {
    let Some((mut server, bed)) = with_own_database(1).await else { return };
    let place = &bed.place;
    place.send(numbers(0..1));
    let consumer = place.start(place.consumer(), |_| Err(HandlerError::permanent("of this test")));
    place.wait_until_consumed();
    server.kill9().expect("kill -9");
    wait_until("it knows that the database is away", || consumer.status().is_database_away);
    server.start_again().expect("start again");
    wait_until("it knows that the database is back", || !consumer.status().is_database_away);
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_away_loses_nothing() {
    let Some((mut broker, bed)) = with_own_broker(2).await else { return };
    let place = &bed.place;
    place.send(numbers(0..50));
    let consumer = place.start(place.consumer(), |_| Ok(()));
    place.wait_for_effects(10);
    broker.kill9().expect("kill -9");
    broker.start_again().expect("start again");
    place.send(numbers(50..100));
    place.wait_until_consumed();
    place.assert_once_in_order(100);
    assert!(consumer.shutdown_blocking(DEADLINE).is_clean());
}

/// A broker that never comes back holds up no shutdown for longer than the grace and a bound.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_ends_without_a_broker() {
    let Some((mut broker, bed)) = with_own_broker(1).await else { return };
    let place = &bed.place;
    place.send(numbers(0..5));
    let consumer = place.start(place.consumer(), |_| Ok(()));
    place.wait_for_effects(5);
    broker.kill9().expect("kill -9");
    let began = std::time::Instant::now();
    let report = consumer.shutdown_blocking(std::time::Duration::from_secs(1));
    assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}: {report:?}", began.elapsed());
}
