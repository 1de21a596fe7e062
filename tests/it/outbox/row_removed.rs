//! A trigger or rule of the application's keeps a message's row out of the table, and the INSERT answers "ok".

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::result::{Error, QueryResult};
use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};
use diesel_outbox::{AsyncOutboxBackend, EnqueueError, MessageId, OutboxBackend, TransactionConnection};

use super::databases::{AsyncDatabase, AsyncSqlite, Database};
use super::{handed_over, order, outbox};

const NONE: [MessageId; 0] = [];

/// The row of key 13 is dropped, and no other.
const ON_SQLITE: &str = "CREATE TRIGGER unlucky BEFORE INSERT ON outbox_messages WHEN NEW.key = '13' \
     BEGIN SELECT RAISE(IGNORE); END";

const ON_POSTGRES: &str = "CREATE FUNCTION unlucky() RETURNS trigger LANGUAGE plpgsql AS \
     'BEGIN IF NEW.key = ''13'' THEN RETURN NULL; END IF; RETURN NEW; END'; \
     CREATE TRIGGER unlucky BEFORE INSERT ON outbox_messages FOR EACH ROW EXECUTE FUNCTION unlucky()";

fn assert_removed<T: std::fmt::Debug>(result: QueryResult<T>, what: &str) {
    let error = match result {
        Ok(ended) => panic!("no error, but {ended:?}: {what}"),
        Err(error) => error,
    };
    let is_removed = matches!(EnqueueError::of(&error), Some(EnqueueError::RowRemoved { topic }) if topic == "orders");
    assert!(is_removed, "{error}: {what}");
}

/// How many messages a call has, of which the last is the one whose row is dropped.
const CALLS: [i64; 3] = [1, 2, 5];

fn keys(count: i64) -> Vec<i64> {
    (14 - count..14).collect()
}

fn removed<C: Database>(set_up: &str, orders: fn(&mut C) -> i64)
where
    C::Backend: OutboxBackend<C>,
{
    for count in CALLS {
        let Some(mut conn) = C::fresh() else { return };
        conn.batch_execute(set_up).expect("trigger");
        let outbox = outbox();
        let test_hook = outbox.test_hook();
        assert_removed(outbox.enqueue_all(&mut conn, keys(count).into_iter().map(order)), "outside a transaction");
        let enqueued = conn.transaction(|conn| {
            conn.place(count)?;
            outbox.enqueue_all(conn, keys(count).into_iter().map(order))
        });
        assert_removed(enqueued, "enqueue");
        let own = outbox.transaction(&mut conn, |tx| {
            tx.batch_execute("INSERT INTO shop_orders VALUES (2)")?;
            tx.enqueue_all(keys(count).into_iter().map(order))
        });
        assert_removed(own, "a transaction of the outbox");
        let nested =
            conn.transaction(|conn| outbox.transaction(conn, |tx| tx.enqueue_all(keys(count).into_iter().map(order))));
        assert_removed(nested, "a savepoint of the outbox");
        assert_eq!(
            (handed_over(&test_hook), conn.messages(), orders(&mut conn)),
            (vec![], vec![], 0),
            "{count} messages"
        );
        outbox.transaction(&mut conn, |tx| tx.enqueue(&order(1))).expect("others are stored");
        conn.transaction(|conn| outbox.enqueue(conn, &order(2))).expect("others are stored");
        assert_eq!(handed_over(&test_hook).len(), 2);
    }
}

async fn removed_async<C: AsyncDatabase + TransactionConnection<Inner = C>>(set_up: &str)
where
    C::Backend: AsyncOutboxBackend<C>,
{
    for count in CALLS {
        let Some(mut conn) = C::fresh().await else { return };
        conn.batch_execute(set_up).await.expect("trigger");
        let outbox = outbox();
        let test_hook = outbox.test_hook();
        let alone = outbox.enqueue_all_async(&mut conn, keys(count).into_iter().map(order)).await;
        assert_removed(alone, "outside a transaction");
        let own = outbox.transaction_async(&mut conn, async |tx| {
            tx.batch_execute("INSERT INTO shop_orders VALUES (1)").await?;
            tx.enqueue_all(keys(count).into_iter().map(order))
        });
        assert_removed(own.await, "a transaction of the outbox");
        // The same row, so the transaction before left nothing.
        conn.batch_execute("INSERT INTO shop_orders VALUES (1)").await.expect("no business data either");
        assert_eq!((handed_over(&test_hook), conn.messages().await), (vec![], vec![]), "{count} messages");
        for key in 1..3 {
            let others = outbox.transaction_async(&mut conn, async |tx| tx.enqueue(&order(key)));
            others.await.expect("others are stored");
        }
        assert_eq!(handed_over(&test_hook).len(), 2);
    }
}

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = diesel::sql_types::BigInt)]
    rows: i64,
}

const ORDERS: &str = "SELECT count(*) AS rows FROM shop_orders";

#[test]
fn sqlite() {
    removed::<SqliteConnection>(ON_SQLITE, |conn| {
        diesel::sql_query(ORDERS).get_result::<Count>(conn).expect("orders").rows
    });
}

#[test]
fn postgres() {
    removed::<PgConnection>(ON_POSTGRES, |conn| {
        diesel::sql_query(ORDERS).get_result::<Count>(conn).expect("orders").rows
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_async() {
    removed_async::<AsyncSqlite>(ON_SQLITE).await;
}

#[tokio::test]
async fn postgres_async() {
    removed_async::<AsyncPgConnection>(ON_POSTGRES).await;
    let Some(mut conn) = <AsyncPgConnection as AsyncDatabase>::fresh().await else { return };
    conn.batch_execute(ON_POSTGRES).await.expect("trigger");
    let outbox = outbox();
    let plain = conn.transaction(async |conn| outbox.enqueue_async(conn, &order(13)).await).await;
    assert_removed(plain, "enqueue");
    assert_eq!(conn.messages().await, NONE);
}

/// A rule, a view and a partition in the place of our table: an error of whichever kind, and no commit.
#[tokio::test]
async fn rows_removed_by_triggers_and_rules_are_detected_on_postgres() {
    let rule = "CREATE RULE away AS ON INSERT TO outbox_messages DO INSTEAD NOTHING";
    let some = "CREATE RULE away AS ON INSERT TO outbox_messages WHERE NEW.key = '13' DO INSTEAD NOTHING";
    let view = "ALTER TABLE outbox_messages RENAME TO hidden; CREATE VIEW outbox_messages AS SELECT * FROM hidden; \
         CREATE FUNCTION away() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; \
         CREATE TRIGGER away INSTEAD OF INSERT ON outbox_messages FOR EACH ROW EXECUTE FUNCTION away()";
    let partition = "ALTER TABLE outbox_messages RENAME TO hidden; \
         CREATE TABLE outbox_messages (LIKE hidden INCLUDING DEFAULTS INCLUDING IDENTITY) PARTITION BY LIST (topic); \
         CREATE TABLE orders_only PARTITION OF outbox_messages FOR VALUES IN ('orders'); \
         CREATE FUNCTION away() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; \
         CREATE TRIGGER away BEFORE INSERT ON orders_only FOR EACH ROW EXECUTE FUNCTION away()";
    for set_up in [rule, some, view, partition] {
        let Some(mut conn) = <AsyncPgConnection as AsyncDatabase>::fresh().await else { return };
        conn.batch_execute(set_up).await.expect("set up");
        let outbox = outbox();
        let test_hook = outbox.test_hook();
        let own = outbox.transaction_async(&mut conn, async |tx| {
            tx.batch_execute("INSERT INTO shop_orders VALUES (1)").await?;
            tx.enqueue(&order(13))
        });
        own.await.expect_err(set_up);
        let plain = conn
            .transaction(async |conn| {
                conn.batch_execute("INSERT INTO shop_orders VALUES (1)").await?;
                outbox.enqueue_async(conn, &order(13)).await
            })
            .await;
        plain.expect_err(set_up);
        conn.batch_execute("INSERT INTO shop_orders VALUES (1)").await.expect("no business data was committed");
        assert_eq!(handed_over(&test_hook), NONE);
    }
}

/// Swallowed all the same: a transaction of PostgreSQL's with several messages cannot be committed any more.
#[test]
fn swallowed() {
    let Some(mut conn) = PgConnection::fresh() else { return };
    conn.batch_execute(ON_POSTGRES).expect("trigger");
    let outbox = outbox();
    let test_hook = outbox.test_hook();
    let swallowed = conn.transaction(|conn| {
        conn.place(1)?;
        assert_removed(outbox.enqueue_all(conn, [order(12), order(13)]), "enqueue");
        Ok::<_, Error>(())
    });
    swallowed.expect("COMMIT answers ok");
    assert_eq!((handed_over(&test_hook), conn.messages()), (vec![], vec![]));
}
