//! `outbox.transaction` where the transaction that it began is over before its messages are written: it refuses, nothing
//! is written or handed over, and the connection is as good as before.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::result::{Error, QueryResult};
use diesel_async::{AsyncConnection, AsyncMysqlConnection, AsyncPgConnection, SimpleAsyncConnection};
use diesel_outbox::{AsyncOutboxBackend, MessageId, Outbox, OutboxBackend, Topic, TransactionConnection};

use super::databases::{AsyncDatabase, AsyncSqlite, Database, fresh_mariadb};
use super::transaction_lost::{Deadlock, assert_lost};
use super::{handed_over, order};

const NONE: [MessageId; 0] = [];

/// Row 7 is there, and what would insert row 13 rolls back.
const SQLITE_SET_UP: &str = "INSERT INTO shop_orders VALUES (7); \
     CREATE TRIGGER unlucky BEFORE INSERT ON shop_orders WHEN NEW.id = 13 BEGIN SELECT RAISE(ROLLBACK, 'unlucky'); END";

/// No server takes an empty text.
const NOTHING: &str = "DELETE FROM shop_orders";

const ON_SQLITE: [&str; 6] = [
    "INSERT OR ROLLBACK INTO shop_orders VALUES (7)",
    "INSERT INTO shop_orders VALUES (13)",
    "ROLLBACK",
    "COMMIT",
    "ROLLBACK; BEGIN",
    "COMMIT; BEGIN",
];

const ON_POSTGRES: [&str; 7] = [
    "ROLLBACK",
    "COMMIT",
    "ROLLBACK; BEGIN",
    "COMMIT; BEGIN",
    "ROLLBACK AND CHAIN",
    "COMMIT AND CHAIN",
    "ROLLBACK; BEGIN; INSERT INTO shop_orders VALUES (9)",
];

const ON_MARIADB: [&str; 4] = ["ROLLBACK", "COMMIT", "CREATE TABLE ddl (id integer)", "TRUNCATE shop_orders"];

fn outboxes() -> [Outbox; 2] {
    let builder = || Outbox::builder().topic(Topic::new("orders"));
    [builder().build().expect("build"), builder().allow_outside_transaction().build().expect("build")]
}

fn refuses<C: Database>(set_up: &str, ways: &[&str])
where
    C::Backend: OutboxBackend<C>,
{
    for (way, outbox) in ways.iter().flat_map(|way| outboxes().map(|outbox| (*way, outbox))) {
        let Some(mut conn) = C::fresh() else { return };
        conn.batch_execute(set_up).expect("set up");
        let test_hook = outbox.test_hook();
        let ended = outbox.transaction(&mut conn, |tx| {
            tx.batch_execute("INSERT INTO shop_orders VALUES (1)")?;
            let _swallowed = tx.batch_execute(way);
            tx.enqueue(&order(1))
        });
        assert_lost(ended, way);
        assert_eq!(handed_over(&test_hook), NONE, "{way}");
        assert_eq!(conn.messages(), NONE, "{way}");
        for key in 2..4 {
            outbox.transaction(&mut conn, |tx| tx.enqueue(&order(key))).expect("the connection is as good as before");
        }
        assert_eq!(conn.messages().len(), 2, "{way}");
    }
}

/// As a prepared statement, which no driver looks behind.
fn refuses_behind_prepared<C: Database>(set_up: &str, ways: &[&str], execute: fn(&mut C, &str) -> QueryResult<usize>)
where
    C::Backend: OutboxBackend<C>,
{
    for way in ways.iter().filter(|way| !way.contains(';')) {
        let Some(mut conn) = C::fresh() else { return };
        conn.batch_execute(set_up).expect("set up");
        let [outbox, _] = outboxes();
        let ended = outbox.transaction(&mut conn, |tx| {
            let _swallowed = execute(tx, way);
            tx.enqueue(&order(1))
        });
        assert_lost(ended, way);
        assert_eq!(conn.messages(), NONE, "{way}");
        outbox.transaction(&mut conn, |tx| tx.enqueue(&order(2))).expect("the connection is as good as before");
    }
}

/// Inside Diesel's transaction it is a savepoint, which is gone as well.
fn refuses_nested<C: Database>(set_up: &str, ways: &[&str])
where
    C::Backend: OutboxBackend<C>,
{
    for way in ways {
        let Some(mut conn) = C::fresh() else { return };
        conn.batch_execute(set_up).expect("set up");
        let [outbox, _] = outboxes();
        let _what_diesel_says = conn.transaction(|conn| {
            let ended = outbox.transaction(conn, |tx| {
                let _swallowed = tx.batch_execute(way);
                tx.enqueue(&order(1))
            });
            assert_lost(ended, way);
            Err::<(), _>(Error::RollbackTransaction)
        });
        assert_eq!(conn.messages(), NONE, "{way}");
    }
}

async fn refuses_async<C: AsyncDatabase + TransactionConnection<Inner = C>>(set_up: &str, ways: &[&str])
where
    C::Backend: AsyncOutboxBackend<C>,
{
    for (way, outbox) in ways.iter().flat_map(|way| outboxes().map(|outbox| (*way, outbox))) {
        let Some(mut conn) = C::fresh().await else { return };
        conn.batch_execute(set_up).await.expect("set up");
        let test_hook = outbox.test_hook();
        let ended = outbox.transaction_async(&mut conn, async |tx| {
            tx.batch_execute("INSERT INTO shop_orders VALUES (1)").await?;
            let _swallowed = tx.batch_execute(way).await;
            tx.enqueue(&order(1))
        });
        assert_lost(ended.await, way);
        assert_eq!(handed_over(&test_hook), NONE, "{way}");
        assert_eq!(conn.messages().await, NONE, "{way}");
        for key in 2..4 {
            let next = outbox.transaction_async(&mut conn, async |tx| tx.enqueue(&order(key)));
            next.await.expect("the connection is as good as before");
        }
        assert_eq!(conn.messages().await.len(), 2, "{way}");
    }
}

#[test]
fn sqlite() {
    refuses::<SqliteConnection>(SQLITE_SET_UP, &ON_SQLITE);
    refuses_nested::<SqliteConnection>(SQLITE_SET_UP, &ON_SQLITE);
}

#[test]
fn sqlite_behind_a_prepared_statement() {
    let execute = |conn: &mut SqliteConnection, sql: &str| diesel::sql_query(sql).execute(conn);
    refuses_behind_prepared(SQLITE_SET_UP, &ON_SQLITE, execute);
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_async() {
    refuses_async::<AsyncSqlite>(SQLITE_SET_UP, &ON_SQLITE).await;
}

#[test]
fn postgres() {
    refuses::<PgConnection>(NOTHING, &ON_POSTGRES);
    refuses_nested::<PgConnection>(NOTHING, &ON_POSTGRES);
}

#[tokio::test]
async fn postgres_async() {
    refuses_async::<AsyncPgConnection>(NOTHING, &ON_POSTGRES).await;
}

/// The mark is no query, before which alone an isolation level can be set.
#[test]
fn an_isolation_level_on_postgres() {
    let Some(mut conn) = PgConnection::fresh() else { return };
    let [outbox, _] = outboxes();
    let serializable = outbox.transaction(&mut conn, |tx| {
        tx.batch_execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")?;
        tx.enqueue(&order(1))
    });
    serializable.expect("commit");
}

/// A savepoint of the application's that is rolled back takes no mark with it; one that takes the outbox's own does.
#[test]
fn savepoints_on_postgres() {
    let Some(mut conn) = PgConnection::fresh() else { return };
    let [outbox, _] = outboxes();
    let kept = outbox.transaction(&mut conn, |tx| {
        tx.batch_execute("SAVEPOINT mine; ROLLBACK TO mine; RELEASE mine")?;
        tx.enqueue(&order(1))
    });
    kept.expect("commit");
    conn.transaction(|conn| {
        let ended = outbox.transaction(conn, |tx| {
            tx.batch_execute("ROLLBACK TO diesel_savepoint_1")?;
            tx.enqueue(&order(2))
        });
        assert_lost(ended, "its savepoint");
        outbox.transaction(conn, |tx| tx.enqueue(&order(3)))
    })
    .expect("commit");
    assert_eq!(conn.messages().len(), 2);
}

#[test]
fn mariadb() {
    refuses::<MysqlConnection>(NOTHING, &ON_MARIADB);
    refuses_nested::<MysqlConnection>(NOTHING, &ON_MARIADB);
}

#[tokio::test]
async fn mariadb_async() {
    refuses_async::<AsyncMysqlConnection>(NOTHING, &ON_MARIADB).await;
}

/// The hook that MySQL 8 needs to know of it is there, on a connection that nothing was enqueued on before.
#[test]
fn deadlock_on_mariadb() {
    let Some(url) = fresh_mariadb() else { return };
    let deadlock = Deadlock::arrange(&url);
    let mut conn = MysqlConnection::establish(&url).expect("connect");
    let [outbox, _] = outboxes();
    let ended = outbox.transaction(&mut conn, |tx| {
        tx.batch_execute("SELECT id FROM shop_orders WHERE id = 1 FOR UPDATE")?;
        tx.batch_execute("SELECT id FROM shop_orders WHERE id = 2 FOR UPDATE").expect_err("deadlock");
        tx.enqueue(&order(1))
    });
    assert_lost(ended, "deadlock");
    drop(deadlock);
    assert_eq!(conn.messages(), NONE);
    assert!(conn.instrumentation().downcast_ref::<diesel_outbox::CommitHook>().is_some(), "it saw the deadlock");
}

#[tokio::test(flavor = "multi_thread")]
async fn deadlock_on_mariadb_async() {
    let Some(url) = fresh_mariadb() else { return };
    let deadlock = Deadlock::arrange(&url);
    let mut conn = AsyncMysqlConnection::establish(&url).await.expect("connect");
    let [outbox, _] = outboxes();
    let ended = outbox.transaction_async(&mut conn, async |tx| {
        tx.batch_execute("SELECT id FROM shop_orders WHERE id = 1 FOR UPDATE").await?;
        tx.batch_execute("SELECT id FROM shop_orders WHERE id = 2 FOR UPDATE").await.expect_err("deadlock");
        tx.enqueue(&order(1))
    });
    assert_lost(ended.await, "deadlock");
    drop(deadlock);
    assert_eq!(conn.messages().await, NONE);
    assert!(conn.instrumentation().downcast_ref::<diesel_outbox::CommitHook>().is_some(), "it saw the deadlock");
}

/// Plain `enqueue` in Diesel's transaction on SQLite, behind what ended it, in a batch and prepared.
#[test]
fn enqueue_in_diesels_transaction_on_sqlite() {
    type Execute = fn(&mut SqliteConnection, &str) -> QueryResult<()>;
    let ways: [Execute; 2] =
        [|conn, sql| conn.batch_execute(sql), |conn, sql| diesel::sql_query(sql).execute(conn).map(|_| ())];
    for (sql, execute) in ON_SQLITE[..4].iter().flat_map(|sql| ways.map(|execute| (*sql, execute))) {
        for outbox in outboxes() {
            let mut conn = SqliteConnection::fresh().expect("in memory");
            conn.batch_execute(SQLITE_SET_UP).expect("set up");
            let test_hook = outbox.test_hook();
            let sent = conn.transaction(|conn| outbox.enqueue(conn, &order(1))).expect("commit");
            assert_eq!(handed_over(&test_hook), [sent]);
            let _what_diesel_says = conn.transaction(|conn| {
                conn.place(1)?;
                let _swallowed = execute(conn, sql);
                let refused = outbox.enqueue(conn, &order(2));
                let all = outbox.enqueue_all(conn, [order(3), order(4)]);
                assert_lost(refused, sql);
                assert_lost(all, sql);
                Ok::<_, Error>(())
            });
            assert_eq!(handed_over(&test_hook), NONE, "{sql}");
            assert_eq!(conn.messages(), [sent], "{sql}");
            conn.transaction(|conn| outbox.enqueue(conn, &order(5))).expect("the connection is as good as before");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn enqueue_in_diesels_transaction_on_sqlite_async() {
    for sql in &ON_SQLITE[..4] {
        let mut conn = AsyncSqlite::fresh().await.expect("in memory");
        conn.batch_execute(SQLITE_SET_UP).await.expect("set up");
        let [outbox, _] = outboxes();
        conn.transaction(async |conn| outbox.enqueue_async(conn, &order(1)).await).await.expect("commit");
        let _what_diesel_says = conn
            .transaction(async |conn| {
                let _swallowed = conn.batch_execute(sql).await;
                assert_lost(outbox.enqueue_async(conn, &order(2)).await, sql);
                Ok::<_, Error>(())
            })
            .await;
        assert_eq!(conn.messages().await.len(), 1, "{sql}");
    }
}
