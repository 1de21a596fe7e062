//! As `transactions`, over diesel-async: bare connections and those of pools.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use diesel::result::{Error, QueryResult};
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, bb8, deadpool, mobc};
use diesel_async::{AsyncConnection, AsyncMysqlConnection, AsyncPgConnection};
use diesel_outbox::{AsyncOutboxBackend, MessageId, Outbox};

use super::databases::{AsyncDatabase, AsyncSqlite, fresh_mariadb, fresh_postgres, fresh_sqlite};
use super::{handed_over, order, outbox};

const NONE: [MessageId; 0] = [];

async fn commit_and_rollback<C: AsyncDatabase>()
where
    C::Backend: AsyncOutboxBackend<C>,
{
    let Some(mut conn) = C::fresh().await else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let sent = conn.transaction(async |conn| {
        let sent = [outbox.enqueue_async(conn, &order(1)).await?, outbox.enqueue_async(conn, &order(2)).await?];
        assert_eq!(handed_over(&test_hook), NONE, "not before the COMMIT");
        Ok::<_, Error>(sent)
    });
    let sent = sent.await.expect("commit");
    assert_eq!(handed_over(&test_hook), sent);
    assert_eq!(conn.messages().await, sent);

    let rolled_back = conn.transaction(async |conn| {
        outbox.enqueue_async(conn, &order(3)).await?;
        Err::<(), _>(Error::RollbackTransaction)
    });
    rolled_back.await.expect_err("rolled back");
    conn.transaction(async |conn| place(conn, 2).await).await.expect("an unrelated COMMIT");
    assert_eq!(handed_over(&test_hook), NONE);
    assert_eq!(conn.messages().await, sent);
}

async fn place<C: AsyncConnection>(conn: &mut C, order: i64) -> QueryResult<()> {
    conn.batch_execute(&format!("INSERT INTO shop_orders VALUES ({order})")).await
}

async fn savepoints<C: AsyncDatabase>()
where
    C::Backend: AsyncOutboxBackend<C>,
{
    let Some(mut conn) = C::fresh().await else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let kept = conn.transaction(async |conn| {
        let first = conn.transaction(async |conn| outbox.enqueue_async(conn, &order(1)).await).await?;
        let dropped = conn.transaction(async |conn| {
            outbox.enqueue_async(conn, &order(2)).await?;
            Err::<(), _>(Error::RollbackTransaction)
        });
        dropped.await.expect_err("rolled back");
        let last = conn.transaction(async |conn| outbox.enqueue_async(conn, &order(3)).await).await?;
        Ok::<_, Error>([first, last])
    });
    let kept = kept.await.expect("commit");
    assert_eq!(handed_over(&test_hook), kept);
    assert_eq!(conn.messages().await, kept);
}

async fn outside_a_transaction<C: AsyncDatabase>()
where
    C::Backend: AsyncOutboxBackend<C>,
{
    let Some(mut conn) = C::fresh().await else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let sent = outbox.enqueue_async(&mut conn, &order(1)).await.expect("enqueue");
    assert_eq!(handed_over(&test_hook), [sent]);
    let many = outbox.enqueue_all_async(&mut conn, (0..700).map(order)).await.expect("many");
    assert_eq!(handed_over(&test_hook), many);
    conn.transaction(async |conn| place(conn, 1).await).await.expect("an unrelated COMMIT");
    assert_eq!(handed_over(&test_hook), NONE, "not a second time");
    assert_eq!(conn.messages().await.len(), 701);
}

async fn test_transactions<C: AsyncDatabase>()
where
    C::Backend: AsyncOutboxBackend<C>,
{
    let Some(mut conn) = C::fresh().await else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    conn.begin_test_transaction().await.expect("begin");
    outbox.enqueue_async(&mut conn, &order(1)).await.expect("enqueue");
    conn.transaction(async |conn| outbox.enqueue_async(conn, &order(2)).await).await.expect("a savepoint");
    assert_eq!(conn.messages().await.len(), 2);
    assert_eq!(handed_over(&test_hook), NONE, "it will never commit");
}

/// A future is dropped in mid-enqueue, and the transaction goes on to its COMMIT. Returns what was enqueued: the message
/// before, and the dropped one where it was ready at once, as SQLite's may be.
async fn drop_an_enqueue<C>(conn: &mut C, outbox: &Outbox) -> Vec<MessageId>
where
    C: AsyncConnection,
    C::Backend: AsyncOutboxBackend<C>,
{
    let transaction = conn.transaction(async |conn| {
        let kept = outbox.enqueue_async(conn, &order(1)).await?;
        let mut dropped = pin!(outbox.enqueue_async(conn, &order(2)));
        match poll_fn(|context| Poll::Ready(dropped.as_mut().poll(context))).await {
            Poll::Pending => Ok::<_, Error>(vec![kept]),
            Poll::Ready(second) => Ok(vec![kept, second?]),
        }
    });
    transaction.await.expect("COMMIT answers ok")
}

async fn cancelled<C: AsyncDatabase>()
where
    C::Backend: AsyncOutboxBackend<C>,
{
    let Some(mut conn) = C::fresh().await else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let kept = drop_an_enqueue(&mut conn, &outbox).await;
    assert_eq!(handed_over(&test_hook), kept, "the dropped one is the sweeper's, where it was written at all");
    assert!(conn.messages().await.starts_with(&kept));
}

/// After a dropped future diesel-async reads each answer one statement late, the COMMIT's too; the row shows.
#[tokio::test]
async fn cancelled_on_mariadb() {
    let Some(url) = fresh_mariadb() else { return };
    let mut conn = AsyncMysqlConnection::establish(&url).await.expect("connect");
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let kept = drop_an_enqueue(&mut conn, &outbox).await;
    assert_eq!(handed_over(&test_hook), kept);
    let mut other = AsyncMysqlConnection::establish(&url).await.expect("connect");
    let committed = async {
        while !other.messages().await.starts_with(&kept) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), committed).await.expect("the COMMIT was sent");
}

async fn in_pool<C>(conn: &mut C, outbox: &Outbox, key: i64) -> QueryResult<MessageId>
where
    C: AsyncConnection,
    C::Backend: AsyncOutboxBackend<C>,
{
    let failed = conn.transaction(async |conn| {
        outbox.enqueue_async(conn, &order(key)).await?;
        conn.batch_execute("INSERT INTO nowhere VALUES (1)").await
    });
    failed.await.expect_err("no such table");
    conn.transaction(async |conn| outbox.enqueue_async(conn, &order(key)).await).await
}

macro_rules! on {
    ($database:ident: $connection:ty, $url:expr) => {
        mod $database {
            use super::*;

            on!(@ $connection: commit_and_rollback, savepoints, outside_a_transaction, test_transactions);

            #[tokio::test(flavor = "multi_thread")]
            async fn pools() {
                let Some(url) = $url else { return };
                let outbox = outbox();
                let test_hook = outbox.test_hook();
                let manager = || AsyncDieselConnectionManager::<$connection>::new(&url);

                let pool = deadpool::Pool::builder(manager()).max_size(1).build().expect("deadpool");
                let mut conn = pool.get().await.expect("get");
                let sent = in_pool(&mut conn, &outbox, 1).await.expect("commit");
                assert_eq!(handed_over(&test_hook), [sent]);

                let pool = bb8::Pool::builder().max_size(1).build(manager()).await.expect("bb8");
                let mut conn = pool.get().await.expect("get");
                let sent = in_pool(&mut conn, &outbox, 2).await.expect("commit");
                assert_eq!(handed_over(&test_hook), [sent]);

                let pool = mobc::Pool::builder().max_open(1).build(manager());
                let mut conn = pool.get().await.expect("get");
                let sent = in_pool(&mut conn, &outbox, 3).await.expect("commit");
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

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_on_sqlite() {
    cancelled::<AsyncSqlite>().await;
}

#[tokio::test]
async fn cancelled_on_postgres() {
    cancelled::<AsyncPgConnection>().await;
}

on!(sqlite: AsyncSqlite, fresh_sqlite());
on!(postgres: AsyncPgConnection, fresh_postgres());
on!(mariadb: AsyncMysqlConnection, fresh_mariadb());
