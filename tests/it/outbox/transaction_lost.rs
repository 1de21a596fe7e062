//! T11: the database has ended the transaction, the connection counts it as open, and a further enqueue would be committed
//! without its business data.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::result::Error;
use diesel::sql_types::Integer;
use diesel_async::{AsyncConnection, AsyncMysqlConnection, SimpleAsyncConnection};
use diesel_outbox::EnqueueError;

use super::databases::{AsyncDatabase, Database, fresh_mariadb};
use super::{handed_over, order, outbox};

pub(super) fn assert_lost<T: std::fmt::Debug>(result: Result<T, Error>, after: &str) {
    let error = match result {
        Ok(ended) => panic!("not refused, but {ended:?}, after {after}"),
        Err(error) => error,
    };
    assert!(
        matches!(EnqueueError::of(&error), Some(EnqueueError::TransactionLost { topic }) if topic == "orders"),
        "{error}, after {after}"
    );
}

#[test]
fn ddl_on_mariadb() {
    let Some(mut conn) = MysqlConnection::fresh() else { return };
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let kept = conn.transaction(|conn| {
        let kept = outbox.enqueue(conn, &order(1))?;
        conn.batch_execute("CREATE TABLE ddl (id integer)")?;
        assert_lost(outbox.enqueue(conn, &order(2)), "DDL");
        assert_lost(outbox.enqueue_all(conn, [order(3), order(4)]), "DDL");
        Ok::<_, Error>(kept)
    });
    let kept = kept.expect("COMMIT answers ok");
    assert_eq!(conn.messages(), [kept], "DDL committed it");
    assert_eq!(handed_over(&test_hook), [kept]);
    conn.transaction(|conn| outbox.enqueue(conn, &order(5))).expect("the connection is as good as before");
}

#[tokio::test]
async fn ddl_on_mariadb_async() {
    let Some(mut conn) = AsyncMysqlConnection::fresh().await else { return };
    let outbox = outbox();
    let transaction = conn.transaction(async |conn| {
        outbox.enqueue_async(conn, &order(1)).await?;
        conn.batch_execute("CREATE TABLE ddl (id integer)").await?;
        assert_lost(outbox.enqueue_async(conn, &order(2)).await, "DDL");
        Ok::<_, Error>(())
    });
    transaction.await.expect("COMMIT answers ok");
    assert_eq!(conn.messages().await.len(), 1);
}

/// Another connection, which has row 2 and wants row 1 as soon as that is locked; the test has it and wants row 2.
pub(crate) struct Deadlock {
    other: Option<std::thread::JoinHandle<()>>,
}

impl Deadlock {
    pub(crate) fn arrange(url: &str) -> Self {
        let (locked, is_locked) = std::sync::mpsc::channel();
        let url = url.to_owned();
        let other = std::thread::spawn(move || {
            let connect = || MysqlConnection::establish(&url).expect("connect");
            let (mut conn, mut looker) = (connect(), connect());
            conn.batch_execute("INSERT INTO shop_orders VALUES (1), (2)").expect("rows");
            // More writes than the test's transaction has: InnoDB rolls back the lighter one.
            conn.batch_execute("BEGIN; INSERT INTO shop_orders SELECT seq FROM seq_100_to_300").expect("weight");
            conn.batch_execute("SELECT id FROM shop_orders WHERE id = 2 FOR UPDATE").expect("lock");
            locked.send(()).expect("waited for");
            while !row_one_is_locked(&mut looker) {}
            conn.batch_execute("SELECT id FROM shop_orders WHERE id = 1 FOR UPDATE").expect("the survivor");
            conn.batch_execute("ROLLBACK").expect("roll back");
        });
        is_locked.recv().expect("locked");
        Self { other: Some(other) }
    }
}

fn row_one_is_locked(conn: &mut MysqlConnection) -> bool {
    let sql = "SELECT id FROM shop_orders WHERE id = 1 FOR UPDATE SKIP LOCKED";
    diesel::sql_query(sql).load::<Order>(conn).expect("look").is_empty()
}

#[derive(Debug, QueryableByName)]
struct Order {
    #[diesel(sql_type = Integer, column_name = "id")]
    _id: i32,
}

impl Drop for Deadlock {
    fn drop(&mut self) {
        if let Some(other) = self.other.take() {
            let ended = other.join();
            assert!(std::thread::panicking() || ended.is_ok(), "the survivor failed");
        }
    }
}

#[test]
fn deadlock_on_mariadb() {
    let Some(url) = fresh_mariadb() else { return };
    let deadlock = Deadlock::arrange(&url);
    let mut conn = MysqlConnection::establish(&url).expect("connect");
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let transaction = conn.transaction(|conn| {
        outbox.enqueue(conn, &order(1))?;
        conn.batch_execute("SELECT id FROM shop_orders WHERE id = 1 FOR UPDATE")?;
        let swallowed = conn.batch_execute("SELECT id FROM shop_orders WHERE id = 2 FOR UPDATE").expect_err("deadlock");
        assert!(swallowed.to_string().contains("Deadlock"), "{swallowed}");
        assert_lost(outbox.enqueue(conn, &order(2)), "a deadlock");
        Ok::<_, Error>(())
    });
    transaction.expect("COMMIT answers ok");
    drop(deadlock);
    assert_eq!(conn.messages(), []);
    assert!(
        test_hook.take().iter().all(|captured| captured.inline.is_none()),
        "no row is inline, so the relay reads each"
    );
}

/// T2: the first row was streamed before the deadlock, so that the statement has succeeded as far as its event says.
#[tokio::test(flavor = "multi_thread")]
async fn deadlock_in_mid_stream_on_mariadb() {
    let Some(url) = fresh_mariadb() else { return };
    let deadlock = Deadlock::arrange(&url);
    let mut conn = AsyncMysqlConnection::establish(&url).await.expect("connect");
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let transaction = conn.transaction(async |conn| {
        outbox.enqueue_async(conn, &order(1)).await?;
        let both = "SELECT id FROM shop_orders WHERE id <= 2 ORDER BY id FOR UPDATE";
        let swallowed = diesel_async::RunQueryDsl::load::<Order>(diesel::sql_query(both), conn).await;
        assert!(swallowed.expect_err("deadlock").to_string().contains("Deadlock"));
        assert_lost(outbox.enqueue_async(conn, &order(2)).await, "a deadlock");
        Ok::<_, Error>(())
    });
    transaction.await.expect("COMMIT answers ok");
    drop(deadlock);
    assert_eq!(conn.messages().await, []);
    assert!(test_hook.take().iter().all(|captured| captured.inline.is_none()));
}
