//! The hook where COMMIT follows an enqueue at once: on PostgreSQL that proves the commit, and the row itself is handed over.

use diesel::connection::{InstrumentationEvent, SimpleConnection};
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::result::Error;
use diesel::sql_types::Integer;
use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};
use diesel_outbox::internals::limits::{INLINE_BYTES_MAX, INLINE_ROWS_MAX};
use diesel_outbox::{Outbox, OutboxBackend, TestHook};

use super::databases::{AsyncDatabase, Database, fresh_postgres};
use super::{order, outbox};

/// Which of the rows handed over since the last call were inline.
fn inline(test_hook: &TestHook) -> Vec<bool> {
    test_hook.take().into_iter().map(|captured| captured.inline.is_some()).collect()
}

type Trace<C> = fn(&Outbox, &mut C) -> QueryResult<()>;

fn traces() -> Vec<(&'static str, Trace<PgConnection>, Vec<bool>)> {
    vec![
        ("alone", |outbox, conn| outbox.enqueue(conn, &order(1)).map(|_| ()), vec![true]),
        (
            "behind business data",
            |outbox, conn| {
                conn.batch_execute("INSERT INTO shop_orders VALUES (1)")?;
                outbox.enqueue(conn, &order(1)).map(|_| ())
            },
            vec![true],
        ),
        (
            "before another statement",
            |outbox, conn| {
                outbox.enqueue(conn, &order(1))?;
                conn.batch_execute("SELECT 1")
            },
            vec![false],
        ),
        (
            "one after the other",
            |outbox, conn| {
                outbox.enqueue(conn, &order(1))?;
                outbox.enqueue_all(conn, [order(2), order(3)]).map(|_| ())
            },
            vec![true, true, true],
        ),
        (
            "on both sides of a statement",
            |outbox, conn| {
                outbox.enqueue(conn, &order(1))?;
                conn.batch_execute("SELECT 1")?;
                outbox.enqueue(conn, &order(2)).map(|_| ())
            },
            vec![false, true],
        ),
        (
            "in a savepoint",
            |outbox, conn| conn.transaction(|conn| outbox.enqueue(conn, &order(1)).map(|_| ())),
            vec![false],
        ),
        (
            "behind a savepoint that was rolled back",
            |outbox, conn| {
                let dropped = conn.transaction(|conn| {
                    outbox.enqueue(conn, &order(1))?;
                    Err::<(), _>(Error::RollbackTransaction)
                });
                dropped.expect_err("rolled back");
                outbox.enqueue(conn, &order(2)).map(|_| ())
            },
            vec![true],
        ),
        (
            "larger than is inline",
            |outbox, conn| {
                let large = order(1).payload_bytes(vec![b'x'; INLINE_BYTES_MAX]);
                outbox.enqueue_all(conn, [large, order(2)]).map(|_| ())
            },
            vec![false, true],
        ),
    ]
}

#[test]
fn rows_right_before_a_commit_are_inline() {
    let Some(mut conn) = PgConnection::fresh() else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    for (what, trace, expected) in traces() {
        conn.transaction(|conn| trace(&outbox, conn)).expect("commit");
        assert_eq!(inline(&test_hook), expected, "{what}");
    }
    conn.set_instrumentation(outbox.commit_hook().chain(|_: InstrumentationEvent<'_>| {}));
    let many = (0..=INLINE_ROWS_MAX).map(|key| order(key as i64));
    conn.transaction(|conn| outbox.enqueue_all(conn, many)).expect("commit");
    let flags = inline(&test_hook);
    assert!(flags[..INLINE_ROWS_MAX].iter().all(|is_inline| *is_inline) && !flags[INLINE_ROWS_MAX]);
}

#[test]
fn a_row_outside_a_transaction_is_read() {
    let Some(mut conn) = PgConnection::fresh() else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    // Which Diesel does not know of.
    conn.batch_execute("BEGIN").expect("BEGIN");
    outbox.enqueue(&mut conn, &order(1)).expect("enqueue");
    conn.batch_execute("ROLLBACK").expect("ROLLBACK");
    assert_eq!(inline(&test_hook), [false]);
}

#[test]
fn an_unanswered_commit_verifies_nothing() {
    let Some(url) = fresh_postgres() else { return };
    let mut conn = PgConnection::establish(&url).expect("connect");
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let ended = conn.transaction(|conn| {
        let pid: i32 = diesel::RunQueryDsl::get_result(diesel::select(sql::<Integer>("pg_backend_pid()")), conn)?;
        outbox.enqueue(conn, &order(1))?;
        let mut other = PgConnection::establish(&url).expect("connect");
        other.batch_execute(&format!("SELECT pg_terminate_backend({pid}, 10000)"))
    });
    ended.expect_err("the connection is gone");
    assert_eq!(inline(&test_hook), [false]);
}

fn is_read<C: Database>()
where
    C::Backend: OutboxBackend<C>,
{
    let Some(mut conn) = C::fresh() else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    conn.transaction(|conn| outbox.enqueue(conn, &order(1))).expect("commit");
    assert_eq!(inline(&test_hook), [false]);
}

/// A COMMIT there says less: InnoDB may have rolled back before.
#[test]
fn mariadb_and_sqlite_are_read() {
    is_read::<MysqlConnection>();
    is_read::<SqliteConnection>();
}

#[tokio::test]
async fn rows_right_before_a_commit_are_inline_over_diesel_async() {
    let Some(mut conn) = <AsyncPgConnection as AsyncDatabase>::fresh().await else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    for _ in 0..3 {
        let alone = conn.transaction(async |conn| {
            conn.batch_execute("SELECT 1").await?;
            outbox.enqueue_async(conn, &order(1)).await
        });
        alone.await.expect("commit");
        assert_eq!(inline(&test_hook), [true]);
    }
    let sides = conn.transaction(async |conn| {
        outbox.enqueue_async(conn, &order(1)).await?;
        conn.batch_execute("SELECT 1").await?;
        outbox.enqueue_all_async(conn, [order(2), order(3)]).await
    });
    sides.await.expect("commit");
    assert_eq!(inline(&test_hook), [false, true, true]);
    let unpolled = conn.transaction(async |conn| {
        outbox.enqueue_async(conn, &order(1)).await?;
        drop(diesel_async::RunQueryDsl::execute(diesel::sql_query("SELECT 1"), conn));
        Ok::<_, Error>(())
    });
    unpolled.await.expect("commit");
    assert_eq!(inline(&test_hook), [false]);
    let own = outbox.transaction_async(&mut conn, async |tx| tx.enqueue(&order(1)));
    own.await.expect("commit");
    assert_eq!(inline(&test_hook), [true]);
}
