//! What becomes of a half message is what becomes of its transaction, whatever the client is told.

use std::collections::BTreeSet;
use std::time::Duration;

use diesel::prelude::*;
use diesel::result::Error;
use diesel::sql_query;
use diesel::sql_types::BigInt;
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use diesel_outbox::EnqueueError;

use super::yard::{DEADLINE, Yard, insert, until};

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

/// Whether somebody who was asked by the broker waits for an open transaction just now.
fn somebody_waits(conn: &mut PgConnection) -> bool {
    let waiting = sql_query(
        "SELECT count(*) AS count FROM pg_stat_activity WHERE datname = current_database() \
         AND wait_event_type = 'Lock' AND query LIKE 'INSERT INTO outbox_half_messages%'",
    );
    waiting.get_result::<Count>(conn).unwrap().count > 0
}

#[test]
fn a_committed_message_is_delivered_and_no_other() {
    let Some(yard) = Yard::open() else { return };
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
                    // Somebody overlooks an error: PostgreSQL rolls back, and answers the COMMIT with "ok".
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
    assert_eq!(yard.committed().len(), 18);
    yard.until_delivered_once();
    assert!(yard.marks().iter().all(|(_, is_void)| *is_void), "the broker was told of all of them");
}

#[tokio::test(flavor = "multi_thread")]
async fn async_connections_mark_as_well() {
    let Some(yard) = Yard::open() else { return };
    let config = crate::transport::rocketmq::config(&yard.name_server).group(yard.topic.as_str());
    let halves = yard.outbox().half_messages(yard.store(), config).await.unwrap();
    let mut conn = AsyncPgConnection::establish(&yard.database_url).await.unwrap();
    for number in 0..6 {
        let half = halves.send(&yard.message(number)).await.unwrap();
        let outside = half.mark_async(&mut conn).await.unwrap_err();
        assert!(matches!(EnqueueError::of(&outside), Some(EnqueueError::NotInTransaction { .. })), "{outside}");
        let id = *half.message_id().as_uuid();
        let ended = conn.transaction(async |conn| {
            half.mark_async(conn).await?;
            let insert = sql_query("INSERT INTO scans VALUES ($1, $2)").bind::<diesel::sql_types::Integer, _>(number);
            diesel_async::RunQueryDsl::execute(insert.bind::<diesel::sql_types::Uuid, _>(id), conn).await?;
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
}

#[test]
fn a_broker_that_asks_during_a_transaction_waits_for_its_end() {
    let Some(yard) = Yard::open() else { return };
    let (halves, mut conn, mut observer) = (yard.halves(), yard.connect(), yard.connect());
    for (number, commits) in [(1, true), (2, false)] {
        let half = halves.send_blocking(&yard.message(number)).unwrap();
        let id = half.message_id();
        let ended = conn.transaction(|conn| {
            half.mark(conn)?;
            insert(conn, number, id)?;
            until("the broker asks", || somebody_waits(&mut observer));
            until("it was answered", || !somebody_waits(&mut observer));
            until("it asks again", || somebody_waits(&mut observer));
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

#[test]
fn a_half_message_that_is_dropped_too_early_is_delivered_all_the_same() {
    let Some(yard) = Yard::open() else { return };
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

#[test]
fn a_transaction_that_marks_too_late_cannot_commit() {
    let Some(yard) = Yard::open() else { return };
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
