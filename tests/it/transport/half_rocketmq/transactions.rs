//! What becomes of a half message is what becomes of its transaction, whatever the client is told.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use diesel::result::Error;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection as _, AsyncMysqlConnection, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_outbox::EnqueueError;

use super::database::{TestDatabase, on_each_database};
use super::fixture::{DEADLINE, Fixture, insert, until};

fn a_committed_message_is_delivered_and_no_other<S: TestDatabase>() {
    let Some(fixture) = Fixture::<S>::open() else { return };
    let (halves, mut conn) = (fixture.halves(), fixture.connect());
    for number in 0..30 {
        let half = halves.send_blocking(&fixture.message(number)).unwrap();
        let id = half.message_id();
        let ended = conn.transaction(|conn| {
            half.mark(conn)?;
            insert(conn, number, id)?;
            match number % 5 {
                1 => Err(Error::RollbackTransaction),
                2 => {
                    // Somebody overlooks an error. PostgreSQL rolls back then, and answers the COMMIT with "ok".
                    assert!(insert(conn, number, id).is_err());
                    Ok(())
                }
                3 => {
                    let savepoint = conn.transaction(|conn| {
                        insert(conn, number, id)?;
                        Ok::<_, Error>(())
                    });
                    assert!(savepoint.is_err());
                    Ok(())
                }
                _ => Ok(()),
            }
        });
        assert_eq!(ended.is_err(), number % 5 == 1, "{ended:?}");
    }
    assert_eq!(halves.flush_blocking(DEADLINE), 0);
    assert_eq!(fixture.committed().len(), if S::ERROR_ABORTS { 18 } else { 24 });
    fixture.until_delivered_once();
    assert!(fixture.marks().iter().all(|(_, is_void)| *is_void), "the broker was told of every message");
}

macro_rules! async_connections_mark_too {
    ($($test:ident: $site:ty = $conn:ty;)+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            let Some(fixture) = tokio::task::spawn_blocking(Fixture::<$site>::open).await.unwrap() else { return };
            let config = crate::transport::rocketmq::config(&fixture.name_server).group(fixture.topic.as_str());
            let store = <$site>::store(&fixture.database_url);
            let halves = fixture.outbox().half_messages(store, config).await.unwrap();
            let mut conn = <$conn>::establish(&fixture.database_url).await.unwrap();
            conn.batch_execute(<$site>::SET_UP).await.unwrap();
            for number in 0..6 {
                let half = halves.send(&fixture.message(number)).await.unwrap();
                let outside = half.mark_async(&mut conn).await.unwrap_err();
                assert!(matches!(EnqueueError::of(&outside), Some(EnqueueError::NotInTransaction { .. })), "{outside}");
                let id = half.message_id();
                let ended = conn.transaction(async |conn| {
                    half.mark_async(conn).await?;
                    conn.batch_execute(&format!("INSERT INTO scans VALUES ({number}, '{id}')")).await?;
                    if number % 2 == 0 { Ok(()) } else { Err(Error::RollbackTransaction) }
                });
                assert_eq!(ended.await.is_ok(), number % 2 == 0);
            }
            assert_eq!(halves.flush(DEADLINE).await, 0);
            let read = tokio::task::spawn_blocking(move || {
                assert_eq!(fixture.committed().len(), 3);
                fixture.until_delivered_once();
            });
            read.await.unwrap();
        })+
    };
}

async_connections_mark_too! {
    async_connections_mark_as_well_postgres: diesel::PgConnection = AsyncPgConnection;
    async_connections_mark_as_well_mariadb: diesel::MysqlConnection = AsyncMysqlConnection;
    async_connections_mark_as_well_sqlite: diesel::SqliteConnection = SyncConnectionWrapper<diesel::SqliteConnection>;
}

fn a_broker_that_asks_during_a_transaction_waits_for_its_end<S: TestDatabase>() {
    let Some(fixture) = Fixture::<S>::open() else { return };
    let ((halves, watch), mut conn) = (fixture.watched_halves(), fixture.connect());
    for (number, commits) in [(1, true), (2, false)] {
        let half = halves.send_blocking(&fixture.message(number)).unwrap();
        let id = half.message_id();
        let ended = conn.transaction(|conn| {
            half.mark(conn)?;
            insert(conn, number, id)?;
            let before = watch.open.load(Ordering::Relaxed);
            until("the broker has asked twice", || watch.open.load(Ordering::Relaxed) >= before + 2);
            assert!(!fixture.delivered().contains(&id), "nobody sees a message of an open transaction");
            if commits { Ok(()) } else { Err(Error::RollbackTransaction) }
        });
        assert_eq!(ended.is_ok(), commits, "{ended:?}");
        drop(half);
    }
    assert_eq!(halves.flush_blocking(DEADLINE), 0);
    // Once, or once more by the answer to a broker that asked in that very moment.
    let delivered = || fixture.delivered().into_iter().collect::<BTreeSet<_>>();
    until("the committed one is delivered", || !delivered().is_empty());
    assert_eq!(delivered(), fixture.committed());
}

fn a_flush_waits_until_the_marks_are_gone<S: TestDatabase>() {
    let Some(fixture) = Fixture::<S>::open() else { return };
    let ((halves, watch), mut conn) = (fixture.watched_halves(), fixture.connect());
    let kept = watch.forgetting.blocking_lock();
    let half = halves.send_blocking(&fixture.message(1)).unwrap();
    let id = half.message_id();
    conn.transaction(|conn| half.mark(conn).and_then(|()| insert(conn, 1, id))).unwrap();
    drop(half);
    until("the broker was told", || watch.forgets.load(Ordering::Relaxed) == 1);
    assert_eq!(halves.flush_blocking(Duration::ZERO), 1, "its mark is still there");
    assert_eq!(fixture.marks(), [(id, false)]);
    drop(kept);
    assert_eq!(halves.flush_blocking(DEADLINE), 0);
    assert_eq!(fixture.marks(), []);
    fixture.until_delivered_once();
}

fn a_half_message_dropped_too_early_is_still_delivered<S: TestDatabase>() {
    let Some(fixture) = Fixture::<S>::open() else { return };
    let (halves, mut conn) = (fixture.halves(), fixture.connect());
    let half = halves.send_blocking(&fixture.message(1)).unwrap();
    let id = half.message_id();
    let ended = conn.transaction(|conn| {
        half.mark(conn)?;
        drop(half);
        assert_eq!(halves.flush_blocking(DEADLINE), 0, "no half message is left after the flush");
        insert(conn, 1, id)
    });
    ended.unwrap();
    fixture.until_delivered_once();
    assert_eq!(fixture.marks(), [(id, false)], "kept for as long as the broker may ask again");
}

fn a_transaction_that_marks_too_late_cannot_commit<S: TestDatabase>() {
    let Some(fixture) = Fixture::<S>::open() else { return };
    let (halves, mut conn) = (fixture.halves(), fixture.connect());
    let half = halves.send_blocking(&fixture.message(1)).unwrap();
    let id = half.message_id();
    until("the broker has asked", || fixture.marks() == [(id, true)]);
    let ended = conn.transaction(|conn| {
        insert(conn, 1, id)?;
        half.mark(conn)
    });
    let error = ended.unwrap_err();
    assert!(matches!(EnqueueError::of(&error), Some(EnqueueError::HalfMessageDropped { .. })), "{error}");
    drop(half);
    assert_eq!(halves.flush_blocking(DEADLINE), 0);
    assert_eq!((fixture.committed(), fixture.delivered()), (BTreeSet::new(), Vec::new()));
    // The next one is none the worse for it.
    let half = halves.send_blocking(&fixture.message(2)).unwrap();
    let id = half.message_id();
    conn.transaction(|conn| half.mark(conn).and_then(|()| insert(conn, 2, id))).unwrap();
    drop(half);
    assert_eq!(halves.flush_blocking(Duration::from_secs(10)), 0);
    fixture.until_delivered_once();
}

/// MariaDB and SQLite end a transaction behind the connection's back, as at a deadlock or by `OR ROLLBACK`: a mark would be
/// committed by itself.
fn a_finished_transaction_marks_nothing<S: TestDatabase>() {
    let Some(fixture) = Fixture::<S>::open() else { return };
    let (halves, mut conn) = (fixture.halves(), fixture.connect());
    let half = halves.send_blocking(&fixture.message(1)).unwrap();
    let _what_diesel_says = conn.transaction(|conn| {
        conn.batch_execute("ROLLBACK")?;
        let error = half.mark(conn).unwrap_err();
        assert!(matches!(EnqueueError::of(&error), Some(EnqueueError::TransactionLost { .. })), "{error}");
        Err::<(), _>(error)
    });
    drop(half);
    assert_eq!(halves.flush_blocking(DEADLINE), 0);
    assert!(fixture.marks().iter().all(|(_, is_void)| *is_void), "{:?}", fixture.marks());
    assert_eq!(fixture.delivered(), []);
}

#[test]
fn a_transaction_that_mariadb_has_ended_marks_nothing() {
    a_finished_transaction_marks_nothing::<diesel::MysqlConnection>();
}

#[test]
fn a_transaction_that_sqlite_has_ended_marks_nothing() {
    a_finished_transaction_marks_nothing::<diesel::SqliteConnection>();
}

on_each_database!(
    a_committed_message_is_delivered_and_no_other,
    a_broker_that_asks_during_a_transaction_waits_for_its_end,
    a_flush_waits_until_the_marks_are_gone,
    a_half_message_dropped_too_early_is_still_delivered,
    a_transaction_that_marks_too_late_cannot_commit,
);
