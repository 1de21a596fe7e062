//! What becomes of a half message is what becomes of its transaction, whatever the client is told.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use diesel::result::Error;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection as _, AsyncMysqlConnection, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_outbox::EnqueueError;

use super::site::{Site, on_each_site};
use super::yard::{DEADLINE, Yard, insert, until};

fn a_committed_message_is_delivered_and_no_other<S: Site>() {
    let Some(yard) = Yard::<S>::open() else { return };
    let (halves, mut conn) = (yard.halves(), yard.connect());
    for number in 0..30 {
        let half = halves.send_blocking(&yard.message(number)).unwrap();
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
    assert_eq!(yard.committed().len(), if S::ERROR_ABORTS { 18 } else { 24 });
    yard.until_delivered_once();
    assert!(yard.marks().iter().all(|(_, is_void)| *is_void), "the broker was told of all of them");
}

macro_rules! async_connections_mark_as_well {
    ($($test:ident: $site:ty = $conn:ty;)+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            let Some(yard) = tokio::task::spawn_blocking(Yard::<$site>::open).await.unwrap() else { return };
            let config = crate::transport::rocketmq::config(&yard.name_server).group(yard.topic.as_str());
            let store = <$site>::store(&yard.database_url);
            let halves = yard.outbox().half_messages(store, config).await.unwrap();
            let mut conn = <$conn>::establish(&yard.database_url).await.unwrap();
            conn.batch_execute(<$site>::SET_UP).await.unwrap();
            for number in 0..6 {
                let half = halves.send(&yard.message(number)).await.unwrap();
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
                assert_eq!(yard.committed().len(), 3);
                yard.until_delivered_once();
            });
            read.await.unwrap();
        })+
    };
}

async_connections_mark_as_well! {
    async_connections_mark_as_well_postgres: diesel::PgConnection = AsyncPgConnection;
    async_connections_mark_as_well_mariadb: diesel::MysqlConnection = AsyncMysqlConnection;
    async_connections_mark_as_well_sqlite: diesel::SqliteConnection = SyncConnectionWrapper<diesel::SqliteConnection>;
}

fn a_broker_that_asks_during_a_transaction_waits_for_its_end<S: Site>() {
    let Some(yard) = Yard::<S>::open() else { return };
    let ((halves, watch), mut conn) = (yard.watched_halves(), yard.connect());
    for (number, commits) in [(1, true), (2, false)] {
        let half = halves.send_blocking(&yard.message(number)).unwrap();
        let id = half.message_id();
        let ended = conn.transaction(|conn| {
            half.mark(conn)?;
            insert(conn, number, id)?;
            let before = watch.open.load(Ordering::Relaxed);
            until("the broker has asked twice", || watch.open.load(Ordering::Relaxed) >= before + 2);
            assert!(!yard.delivered().contains(&id), "nobody sees a message of an open transaction");
            if commits { Ok(()) } else { Err(Error::RollbackTransaction) }
        });
        assert_eq!(ended.is_ok(), commits, "{ended:?}");
        drop(half);
    }
    assert_eq!(halves.flush_blocking(DEADLINE), 0);
    // Once, or once more by the answer to a broker that asked in that very moment.
    let delivered = || yard.delivered().into_iter().collect::<BTreeSet<_>>();
    until("the committed one is delivered", || !delivered().is_empty());
    assert_eq!(delivered(), yard.committed());
}

fn a_flush_waits_until_the_marks_are_gone<S: Site>() {
    let Some(yard) = Yard::<S>::open() else { return };
    let ((halves, watch), mut conn) = (yard.watched_halves(), yard.connect());
    let kept = watch.forgetting.blocking_lock();
    let half = halves.send_blocking(&yard.message(1)).unwrap();
    let id = half.message_id();
    conn.transaction(|conn| half.mark(conn).and_then(|()| insert(conn, 1, id))).unwrap();
    drop(half);
    until("the broker was told", || watch.forgets.load(Ordering::Relaxed) == 1);
    assert_eq!(halves.flush_blocking(Duration::ZERO), 1, "its mark is still there");
    assert_eq!(yard.marks(), [(id, false)]);
    drop(kept);
    assert_eq!(halves.flush_blocking(DEADLINE), 0);
    assert_eq!(yard.marks(), []);
    yard.until_delivered_once();
}

fn a_half_message_that_is_dropped_too_early_is_delivered_all_the_same<S: Site>() {
    let Some(yard) = Yard::<S>::open() else { return };
    let (halves, mut conn) = (yard.halves(), yard.connect());
    let half = halves.send_blocking(&yard.message(1)).unwrap();
    let id = half.message_id();
    let ended = conn.transaction(|conn| {
        half.mark(conn)?;
        drop(half);
        assert_eq!(halves.flush_blocking(DEADLINE), 0, "it was looked at, in vain");
        insert(conn, 1, id)
    });
    ended.unwrap();
    yard.until_delivered_once();
    assert_eq!(yard.marks(), [(id, false)], "kept for as long as the broker may ask again");
}

fn a_transaction_that_marks_too_late_cannot_commit<S: Site>() {
    let Some(yard) = Yard::<S>::open() else { return };
    let (halves, mut conn) = (yard.halves(), yard.connect());
    let half = halves.send_blocking(&yard.message(1)).unwrap();
    let id = half.message_id();
    until("the broker has asked", || yard.marks() == [(id, true)]);
    let ended = conn.transaction(|conn| {
        insert(conn, 1, id)?;
        half.mark(conn)
    });
    let error = ended.unwrap_err();
    assert!(matches!(EnqueueError::of(&error), Some(EnqueueError::HalfMessageDropped { .. })), "{error}");
    drop(half);
    assert_eq!(halves.flush_blocking(DEADLINE), 0);
    assert_eq!((yard.committed(), yard.delivered()), (BTreeSet::new(), Vec::new()));
    // The next one is none the worse for it.
    let half = halves.send_blocking(&yard.message(2)).unwrap();
    let id = half.message_id();
    conn.transaction(|conn| half.mark(conn).and_then(|()| insert(conn, 2, id))).unwrap();
    drop(half);
    assert_eq!(halves.flush_blocking(Duration::from_secs(10)), 0);
    yard.until_delivered_once();
}

/// MariaDB and SQLite end a transaction behind the connection's back, as at a deadlock or by `OR ROLLBACK`: a mark would be
/// committed by itself.
fn a_transaction_that_is_over_marks_nothing<S: Site>() {
    let Some(yard) = Yard::<S>::open() else { return };
    let (halves, mut conn) = (yard.halves(), yard.connect());
    let half = halves.send_blocking(&yard.message(1)).unwrap();
    let _what_diesel_says = conn.transaction(|conn| {
        conn.batch_execute("ROLLBACK")?;
        let error = half.mark(conn).unwrap_err();
        assert!(matches!(EnqueueError::of(&error), Some(EnqueueError::TransactionLost { .. })), "{error}");
        Err::<(), _>(error)
    });
    drop(half);
    assert_eq!(halves.flush_blocking(DEADLINE), 0);
    assert!(yard.marks().iter().all(|(_, is_void)| *is_void), "{:?}", yard.marks());
    assert_eq!(yard.delivered(), []);
}

#[test]
fn a_transaction_that_mariadb_has_ended_marks_nothing() {
    a_transaction_that_is_over_marks_nothing::<diesel::MysqlConnection>();
}

#[test]
fn a_transaction_that_sqlite_has_ended_marks_nothing() {
    a_transaction_that_is_over_marks_nothing::<diesel::SqliteConnection>();
}

on_each_site!(
    a_committed_message_is_delivered_and_no_other,
    a_broker_that_asks_during_a_transaction_waits_for_its_end,
    a_flush_waits_until_the_marks_are_gone,
    a_half_message_that_is_dropped_too_early_is_delivered_all_the_same,
    a_transaction_that_marks_too_late_cannot_commit,
);
