//! The commit hook over real connections: what a transaction's end hands over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use diesel::connection::InstrumentationEvent;
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, Pool, R2D2Connection};
use diesel::result::Error;
use diesel_outbox::{MessageId, OutboxBackend};

use super::databases::Database;
use super::{handed_over, order, outbox};

const NONE: [MessageId; 0] = [];

fn commit_and_rollback<C: Database>()
where
    C::Backend: OutboxBackend<C>,
{
    let Some(mut conn) = C::fresh() else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let sent = conn.transaction(|conn| {
        let sent = [outbox.enqueue(conn, &order(1))?, outbox.enqueue(conn, &order(2))?];
        assert_eq!(handed_over(&test_hook), NONE, "not before the COMMIT");
        conn.place(1)?;
        Ok::<_, Error>(sent)
    });
    let sent = sent.expect("commit");
    assert_eq!(handed_over(&test_hook), sent);
    assert_eq!(conn.messages(), sent);

    let rolled_back = conn.transaction(|conn| {
        outbox.enqueue(conn, &order(3))?;
        Err::<(), _>(Error::RollbackTransaction)
    });
    rolled_back.expect_err("rolled back");
    assert_eq!(handed_over(&test_hook), NONE);
    conn.transaction(|conn| conn.place(2)).expect("an unrelated COMMIT");
    assert_eq!(handed_over(&test_hook), NONE);
    assert_eq!(conn.messages(), sent);
}

fn savepoints<C: Database>()
where
    C::Backend: OutboxBackend<C>,
{
    let Some(mut conn) = C::fresh() else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let kept = conn.transaction(|conn| {
        // The first enqueue of this connection, and so the hook's beginning, is inside a savepoint.
        let first = conn.transaction(|conn| outbox.enqueue(conn, &order(1)))?;
        let dropped = conn.transaction(|conn| {
            outbox.enqueue(conn, &order(2))?;
            conn.transaction(|conn| outbox.enqueue(conn, &order(3)))?;
            Err::<(), _>(Error::RollbackTransaction)
        });
        dropped.expect_err("rolled back");
        let last = conn.transaction(|conn| conn.transaction(|conn| outbox.enqueue(conn, &order(4))))?;
        Ok::<_, Error>([first, last])
    });
    let kept = kept.expect("commit");
    assert_eq!(handed_over(&test_hook), kept);
    assert_eq!(conn.messages(), kept);
}

/// T4: no CommitTransaction event follows an enqueue in autocommit.
fn outside_a_transaction<C: Database>()
where
    C::Backend: OutboxBackend<C>,
{
    let Some(mut conn) = C::fresh() else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let sent = outbox.enqueue(&mut conn, &order(1)).expect("enqueue");
    assert_eq!(handed_over(&test_hook), [sent]);
    conn.transaction(|conn| conn.place(1)).expect("an unrelated COMMIT");
    assert_eq!(handed_over(&test_hook), NONE, "not a second time");
}

/// More than one statement takes and more than one hook's mark: all or none, and all handed over.
fn many<C: Database>()
where
    C::Backend: OutboxBackend<C>,
{
    let Some(mut conn) = C::fresh() else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let sent = conn.transaction(|conn| outbox.enqueue_all(conn, (0..10_000).map(order))).expect("commit");
    assert_eq!(sent.len(), 10_000);
    assert_eq!(handed_over(&test_hook), sent);
    assert_eq!(conn.messages(), sent, "ids grow in the order of the messages");

    let alone = outbox.enqueue_all(&mut conn, (0..700).map(order)).expect("in a transaction of its own");
    assert_eq!(handed_over(&test_hook), alone);
}

fn test_transactions<C: Database>()
where
    C::Backend: OutboxBackend<C>,
{
    let Some(mut conn) = C::fresh() else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    conn.begin_test_transaction().expect("begin");
    outbox.enqueue(&mut conn, &order(1)).expect("enqueue");
    conn.transaction(|conn| outbox.enqueue(conn, &order(2))).expect("a savepoint");
    assert_eq!(conn.messages().len(), 2);
    assert_eq!(handed_over(&test_hook), NONE, "it will never commit");
}

fn own_instrumentation<C: Database>()
where
    C::Backend: OutboxBackend<C>,
{
    let Some(mut conn) = C::fresh() else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let seen = Arc::new(AtomicUsize::new(0));
    let mine = |seen: &Arc<AtomicUsize>| {
        let seen = Arc::clone(seen);
        move |_: InstrumentationEvent<'_>| {
            seen.fetch_add(1, Ordering::Relaxed);
        }
    };
    conn.set_instrumentation(mine(&seen));
    conn.transaction(|conn| outbox.enqueue(conn, &order(1))).expect("commit");
    assert!(seen.swap(0, Ordering::Relaxed) > 0, "it was not replaced");
    assert_eq!(handed_over(&test_hook), NONE, "the sweeper's");

    conn.set_instrumentation(outbox.commit_hook().chain(mine(&seen)));
    let sent = conn.transaction(|conn| outbox.enqueue(conn, &order(2))).expect("commit");
    assert!(seen.load(Ordering::Relaxed) > 0, "it is passed on to");
    assert_eq!(handed_over(&test_hook), [sent]);
}

/// A statement fails, the closure swallows it, and COMMIT answers "ok" all the same.
fn swallowed_error<C: Database>()
where
    C::Backend: OutboxBackend<C>,
{
    let Some(mut conn) = C::fresh() else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    conn.place(1).expect("place");
    let swallowed = conn.transaction(|conn| {
        outbox.enqueue(conn, &order(1))?;
        let _swallowed = conn.place(1);
        Ok::<_, Error>(())
    });
    swallowed.expect("COMMIT answers ok");
    let committed = conn.messages();
    let taken = test_hook.take();
    // PostgreSQL rolled back, the others committed. Either way the relay reads the row before it sends it.
    assert!(taken.iter().all(|captured| captured.inline.is_none()));
    assert!(committed.iter().all(|message| taken.iter().any(|captured| captured.row.message_id == *message)));
}

/// A pool's only connection fails in a transaction and goes on.
fn pool_reuse<C>(pool: Option<Pool<ConnectionManager<C>>>)
where
    C: R2D2Connection + 'static,
    C::Backend: OutboxBackend<C> + OutboxBackend<diesel::r2d2::PooledConnection<ConnectionManager<C>>>,
{
    let Some(pool) = pool else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let mut conn = pool.get().expect("get");
    let failed = conn.transaction(|conn| {
        outbox.enqueue(conn, &order(1))?;
        conn.batch_execute("INSERT INTO nowhere VALUES (1)")
    });
    failed.expect_err("no such table");
    drop(conn);
    let mut conn = pool.get().expect("get");
    let sent = conn.transaction(|conn| outbox.enqueue(conn, &order(2))).expect("commit");
    assert_eq!(handed_over(&test_hook), [sent]);
    assert_eq!(pool.state().connections, 1, "the same connection");
}

/// A pool of one connection.
fn pool<C: R2D2Connection + 'static>(url: String) -> Pool<ConnectionManager<C>> {
    Pool::builder().max_size(1).build(ConnectionManager::new(url)).expect("pool")
}

macro_rules! on {
    ($database:ident: $connection:ty, $url:expr) => {
        mod $database {
            use diesel::prelude::*;

            on!(@ $connection: commit_and_rollback, savepoints, outside_a_transaction, many, test_transactions,
                own_instrumentation, swallowed_error);

            #[test]
            fn pool_reuse() {
                super::pool_reuse::<$connection>($url.map(super::pool));
            }
        }
    };
    (@ $connection:ty: $($test:ident),+) => {
        $(#[test]
        fn $test() {
            super::$test::<$connection>();
        })+
    };
}

on!(sqlite: SqliteConnection, crate::outbox::databases::fresh_sqlite());
on!(postgres: PgConnection, crate::outbox::databases::fresh_postgres());
on!(mariadb: MysqlConnection, crate::outbox::databases::fresh_mariadb());
