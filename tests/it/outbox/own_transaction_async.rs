//! As `own_transaction`, over diesel-async; and the flight of INSERT and COMMIT together.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use diesel::QueryableByName;
use diesel::connection::{CacheSize, InstrumentationEvent};
use diesel::result::{Error, QueryResult};
use diesel::sql_types::Bool;
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, bb8, deadpool, mobc};
use diesel_async::{AsyncConnection, AsyncMysqlConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_outbox::{AsyncOutboxBackend, MessageId, Outbox, TransactionConnection};

use super::databases::{AsyncDatabase, AsyncSqlite, fresh_mariadb, fresh_postgres, fresh_sqlite};
use super::{handed_over, order, outbox};

const NONE: [MessageId; 0] = [];

async fn commits_and_rolls_back<C: AsyncDatabase + TransactionConnection<Inner = C>>()
where
    C::Backend: AsyncOutboxBackend<C>,
{
    let Some(mut conn) = C::fresh().await else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    // Somebody else's instrumentation, so that no hook can help.
    conn.set_instrumentation(|_: InstrumentationEvent<'_>| {});
    for round in 0..3 {
        let sent = outbox.transaction_async(&mut conn, async |tx| {
            let sent = vec![tx.enqueue(&order(1))?, tx.enqueue(&order(2))?];
            tx.batch_execute(&format!("INSERT INTO shop_orders VALUES ({round})")).await?;
            Ok::<_, Error>(sent)
        });
        let sent = sent.await.expect("commit");
        assert_eq!(handed_over(&test_hook), sent);
    }
    let rolled_back = outbox.transaction_async(&mut conn, async |tx| {
        tx.enqueue(&order(3))?;
        Err::<(), _>(Error::RollbackTransaction)
    });
    rolled_back.await.expect_err("rolled back");
    assert_eq!(handed_over(&test_hook), NONE);
    assert_eq!(conn.messages().await.len(), 6);
}

async fn savepoints<C: AsyncDatabase + TransactionConnection<Inner = C>>()
where
    C::Backend: AsyncOutboxBackend<C>,
{
    let Some(mut conn) = C::fresh().await else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let kept = outbox.transaction_async(&mut conn, async |tx| {
        let first = tx.enqueue(&order(1))?;
        let dropped = tx.transaction(async |tx| {
            tx.enqueue(&order(2))?;
            Err::<(), _>(Error::RollbackTransaction)
        });
        dropped.await.expect_err("rolled back");
        let last = tx.transaction(async |tx| tx.enqueue(&order(3))).await?;
        Ok::<_, Error>([first, last])
    });
    let kept = kept.await.expect("commit");
    assert_eq!(handed_over(&test_hook), kept);
    assert_eq!(conn.messages().await, kept);
}

async fn nested<C: AsyncDatabase + TransactionConnection<Inner = C>>()
where
    C::Backend: AsyncOutboxBackend<C>,
{
    let Some(mut conn) = C::fresh().await else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let kept = conn.transaction(async |conn| {
        let kept = outbox.transaction_async(conn, async |tx| tx.enqueue(&order(1))).await?;
        assert_eq!(handed_over(&test_hook), NONE);
        Ok::<_, Error>(kept)
    });
    let kept = kept.await.expect("commit");
    assert_eq!(handed_over(&test_hook), [kept]);
    assert_eq!(conn.messages().await, [kept]);
}

#[derive(QueryableByName)]
struct Condition {
    #[diesel(sql_type = Bool)]
    yes: bool,
}

async fn holds(conn: &mut AsyncPgConnection, sql: &str) -> bool {
    diesel::sql_query(sql).get_result::<Condition>(conn).await.expect("an answer").yes
}

/// The message belongs to the business data's transaction, whatever the state of the statement cache. A COMMIT that
/// overtakes the INSERT would leave two transactions.
#[tokio::test]
async fn the_insert_goes_before_the_commit() {
    let Some(mut conn) = AsyncPgConnection::fresh().await else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    for cache in [CacheSize::Unbounded, CacheSize::Unbounded, CacheSize::Disabled, CacheSize::Unbounded] {
        conn.set_prepared_statement_cache_size(cache);
        for rows in [1, 3] {
            conn.batch_execute("TRUNCATE shop_orders, outbox_messages").await.expect("empty");
            let transaction = outbox.transaction_async(&mut conn, async |tx| {
                tx.batch_execute("INSERT INTO shop_orders VALUES (1)").await?;
                tx.enqueue_all((0..rows).map(order))
            });
            transaction.await.expect("commit");
            let together =
                "SELECT count(*) > 0 AND bool_and(m.xmin = o.xmin) AS yes FROM outbox_messages m, shop_orders o";
            assert!(holds(&mut conn, together).await, "{rows} rows, {cache:?}");
            assert!(
                test_hook.take().iter().all(|captured| captured.inline.is_some()),
                "the commit is verified, so the row is not read again"
            );
        }
    }
}

/// Both are sent before either is answered, and every instrumentation sees a COMMIT as it always does.
#[tokio::test]
async fn insert_and_commit_travel_together() {
    let Some(mut conn) = AsyncPgConnection::fresh().await else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    outbox.transaction_async(&mut conn, async |tx| tx.enqueue(&order(1))).await.expect("the statements are cached");
    test_hook.take();
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&log);
    conn.set_instrumentation(outbox.commit_hook().chain(move |event: InstrumentationEvent<'_>| {
        let line = match event {
            InstrumentationEvent::CommitTransaction { .. } => "commit",
            InstrumentationEvent::StartQuery { .. } => "start",
            InstrumentationEvent::FinishQuery { error: None, .. } => "ok",
            _ => return,
        };
        seen.lock().expect("log").push(line);
    }));
    let sent = outbox.transaction_async(&mut conn, async |tx| {
        let last = tx.enqueue(&order(2))?;
        let now = outbox.enqueue_async(tx, &order(3)).await?;
        Ok::<_, Error>([now, last])
    });
    let sent = sent.await.expect("commit");
    let begin_and_enqueue = ["start", "ok", "start", "ok"];
    let log = log.lock().expect("log");
    assert_eq!(log[..4], begin_and_enqueue);
    assert_eq!(log[4..], ["commit", "start", "start", "ok", "ok"]);
    assert_eq!(handed_over(&test_hook), sent, "by the hook, and by the transaction");
}

/// A future dropped in mid-COMMIT leaves a connection that says so.
#[tokio::test]
async fn a_dropped_commit_breaks_the_connection() {
    let Some(url) = fresh_postgres() else { return };
    let manager = AsyncDieselConnectionManager::<AsyncPgConnection>::new(&url);
    let pool = deadpool::Pool::builder(manager).max_size(1).build().expect("deadpool");
    let outbox = outbox();
    let mut conn = pool.get().await.expect("get");
    outbox.transaction_async(&mut conn, async |tx| tx.enqueue(&order(1))).await.expect("the statements are cached");
    let started = Arc::new(Mutex::new(0));
    let count = Arc::clone(&started);
    conn.set_instrumentation(move |event: InstrumentationEvent<'_>| {
        if matches!(event, InstrumentationEvent::StartQuery { .. }) {
            *count.lock().expect("count") += 1;
        }
    });
    {
        let mut dropped = pin!(outbox.transaction_async(&mut conn, async |tx| tx.enqueue(&order(2))));
        poll_fn(|context| {
            assert!(dropped.as_mut().poll(context).is_pending());
            // BEGIN, INSERT and COMMIT were sent.
            if *started.lock().expect("count") == 3 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
    let broken = conn.transaction(async |_| Ok::<_, Error>(())).await;
    assert!(matches!(broken, Err(Error::BrokenTransactionManager)));
    drop(conn);
    let mut conn = pool.get().await.expect("a new one");
    outbox.transaction_async(&mut conn, async |tx| tx.enqueue(&order(3))).await.expect("commit");
}

/// Neither a failing INSERT nor a failing COMMIT leaves the connection in a transaction.
#[tokio::test]
async fn failures_end_the_transaction() {
    let Some(mut conn) = AsyncPgConnection::fresh().await else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let swallowed = outbox.transaction_async(&mut conn, async |tx| {
        let _swallowed = tx.batch_execute("INSERT INTO nowhere VALUES (1)").await;
        tx.enqueue(&order(1))
    });
    assert!(swallowed.await.expect_err("aborted").to_string().contains("aborted"));

    conn.batch_execute("CREATE TABLE child (id int REFERENCES shop_orders DEFERRABLE INITIALLY DEFERRED)")
        .await
        .expect("table");
    let deferred = outbox.transaction_async(&mut conn, async |tx| {
        tx.batch_execute("INSERT INTO child VALUES (9)").await?;
        tx.enqueue(&order(2))
    });
    assert!(deferred.await.expect_err("foreign key").to_string().contains("foreign key"));
    assert_eq!(handed_over(&test_hook), NONE);
    assert_eq!(conn.messages().await, NONE);

    outbox
        .transaction_async(&mut conn, async |tx| tx.enqueue(&order(3)))
        .await
        .expect("the connection is as good as before");
    assert_eq!(handed_over(&test_hook).len(), 1);
}

/// The future can be spawned, over each pool's connection.
async fn in_task<D, C>(mut conn: D, outbox: Outbox) -> MessageId
where
    D: TransactionConnection<Inner = C> + 'static,
    C: AsyncConnection + 'static,
    C::Backend: AsyncOutboxBackend<C>,
{
    let task = tokio::spawn(async move {
        outbox.transaction_async(&mut conn, async |tx| -> QueryResult<MessageId> { tx.enqueue(&order(1)) }).await
    });
    task.await.expect("task").expect("commit")
}

macro_rules! on {
    ($database:ident: $connection:ty, $url:expr) => {
        mod $database {
            use super::*;

            on!(@ $connection: commits_and_rolls_back, savepoints, nested);

            #[tokio::test(flavor = "multi_thread")]
            async fn pools() {
                let Some(url) = $url else { return };
                let outbox = outbox();
                let test_hook = outbox.test_hook();
                let manager = || AsyncDieselConnectionManager::<$connection>::new(&url);

                let pool = deadpool::Pool::builder(manager()).build().expect("deadpool");
                let sent = in_task(pool.get().await.expect("get"), outbox.clone()).await;
                assert_eq!(handed_over(&test_hook), [sent]);

                let pool = bb8::Pool::builder().max_size(1).build(manager()).await.expect("bb8");
                let sent = in_task(pool.get_owned().await.expect("get"), outbox.clone()).await;
                assert_eq!(handed_over(&test_hook), [sent]);
                let mut borrowed = pool.get().await.expect("get");
                let sent = outbox.transaction_async(&mut borrowed, async |tx| tx.enqueue(&order(2))).await.expect("commit");
                assert_eq!(handed_over(&test_hook), [sent]);

                let pool = mobc::Pool::builder().max_open(1).build(manager());
                let sent = in_task(pool.get().await.expect("get"), outbox.clone()).await;
                assert_eq!(handed_over(&test_hook), [sent]);
            }
        }
    };
    (@ $connection:ty: $($test:ident),+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            super::$test::<$connection>().await;
        })+
    };
}

on!(sqlite: AsyncSqlite, fresh_sqlite());
on!(postgres: AsyncPgConnection, fresh_postgres());
on!(mariadb: AsyncMysqlConnection, fresh_mariadb());
