//! What tests of applications see.

use std::panic::{AssertUnwindSafe, catch_unwind};

use diesel::connection::InstrumentationEvent;
use diesel::prelude::*;
use diesel::result::Error;
use diesel_async::{AsyncMysqlConnection, AsyncPgConnection};
use diesel_outbox::TransactionConnection;
use diesel_outbox::{AsyncOutboxBackend, CodecError, Message, Outbox, OutboxBackend, OutboxMessage, TestOutbox, Topic};
use serde::{Deserialize, Serialize};

use super::databases::{AsyncDatabase, AsyncSqlite, Database};
use super::{handed_over, outbox};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Placed {
    order: i64,
}

impl OutboxMessage for Placed {
    const TOPIC: Option<&'static str> = Some("orders");
    const KIND: &'static str = "order.placed";

    fn payload(&self) -> Result<Option<Vec<u8>>, CodecError> {
        serde_json::to_vec(self).map(Some).map_err(CodecError::new)
    }
}

fn orders(sent: &TestOutbox) -> Vec<i64> {
    sent.events::<Placed>().into_iter().map(|placed| placed.order).collect()
}

fn in_a_test_transaction<C: Database>()
where
    C::Backend: OutboxBackend<C>,
{
    let Some(mut conn) = C::fresh() else { return };
    let outbox = outbox();
    let (sent, test_hook) = (outbox.testing(), outbox.test_hook());
    conn.begin_test_transaction().expect("begin");
    outbox.enqueue(&mut conn, &Placed { order: 1 }).expect("as outside a transaction");
    assert_eq!(orders(&sent), [1]);

    let committed = conn.transaction(|conn| {
        outbox.enqueue(conn, &Placed { order: 2 })?;
        let dropped = conn.transaction(|conn| {
            outbox.enqueue(conn, &Placed { order: 3 })?;
            Err::<(), _>(Error::RollbackTransaction)
        });
        dropped.expect_err("rolled back");
        conn.transaction(|conn| outbox.enqueue(conn, &Placed { order: 4 }))?;
        assert_eq!(orders(&sent), [1], "not before the application's transaction ends");
        Ok::<_, Error>(())
    });
    committed.expect("release");
    let rolled_back = conn.transaction(|conn| {
        outbox.enqueue(conn, &Placed { order: 5 })?;
        Err::<(), _>(Error::RollbackTransaction)
    });
    rolled_back.expect_err("rolled back");
    outbox.transaction(&mut conn, |tx| tx.enqueue(&Placed { order: 6 })).expect("release");
    assert_eq!(orders(&sent), [1, 2, 4, 6]);
    assert!(handed_over(&test_hook).is_empty(), "a relay would look for rows that never commit");
}

async fn in_a_test_transaction_async<C: AsyncDatabase + TransactionConnection<Inner = C>>()
where
    C::Backend: AsyncOutboxBackend<C>,
{
    let Some(mut conn) = C::fresh().await else { return };
    let outbox = outbox();
    let sent = outbox.testing();
    conn.begin_test_transaction().await.expect("begin");
    let committed = conn.transaction(async |conn| outbox.enqueue_async(conn, &Placed { order: 1 }).await);
    committed.await.expect("release");
    let rolled_back = conn.transaction(async |conn| {
        outbox.enqueue_async(conn, &Placed { order: 2 }).await?;
        Err::<(), _>(Error::RollbackTransaction)
    });
    rolled_back.await.expect_err("rolled back");
    let own = outbox.transaction_async(&mut conn, async |tx| tx.enqueue(&Placed { order: 3 }));
    own.await.expect("release");
    assert_eq!(orders(&sent), [1, 3]);
}

#[test]
fn in_a_test_transaction_on_sqlite() {
    in_a_test_transaction::<SqliteConnection>();
}

#[test]
fn in_a_test_transaction_on_postgres() {
    in_a_test_transaction::<PgConnection>();
}

#[test]
fn in_a_test_transaction_on_mariadb() {
    in_a_test_transaction::<MysqlConnection>();
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_test_transaction_on_sqlite_async() {
    in_a_test_transaction_async::<AsyncSqlite>().await;
}

#[tokio::test]
async fn in_a_test_transaction_on_postgres_async() {
    in_a_test_transaction_async::<AsyncPgConnection>().await;
}

#[tokio::test]
async fn in_a_test_transaction_on_mariadb_async() {
    in_a_test_transaction_async::<AsyncMysqlConnection>().await;
}

#[test]
fn in_a_transaction_that_commits_a_relay_gets_it_too() {
    let mut conn = SqliteConnection::fresh().expect("in memory");
    let outbox = outbox();
    let (sent, test_hook) = (outbox.testing(), outbox.test_hook());
    conn.transaction(|conn| outbox.enqueue(conn, &Placed { order: 1 })).expect("commit");
    outbox.transaction(&mut conn, |tx| tx.enqueue(&Placed { order: 2 })).expect("commit");
    assert_eq!(orders(&sent), [1, 2]);
    assert_eq!(handed_over(&test_hook).len(), 2);
}

#[test]
fn a_required_transaction_is_required_in_tests_too() {
    let outbox = Outbox::builder().topic(Topic::new("orders")).require_transaction().build().expect("build");
    let mut conn = SqliteConnection::fresh().expect("in memory");
    conn.begin_test_transaction().expect("begin");
    outbox.enqueue(&mut conn, &Placed { order: 1 }).expect_err("in production there would be none");
    conn.transaction(|conn| outbox.enqueue(conn, &Placed { order: 1 })).expect("inside");
}

/// The text of the panic of `assertion`.
fn failure(assertion: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(assertion)).expect_err("it must fail");
    *panic.downcast::<String>().expect("a text")
}

#[test]
fn failed_assertions_list_the_messages() {
    let mut conn = SqliteConnection::fresh().expect("in memory");
    let outbox = outbox();
    let sent = outbox.testing();
    sent.assert_none();
    outbox.enqueue(&mut conn, &Placed { order: 1 }).expect("enqueue");
    outbox.enqueue(&mut conn, &Message::to("payments").key("7")).expect("enqueue");
    assert_eq!(sent.assert_enqueued::<Placed>(|placed| placed.order == 1), Placed { order: 1 });
    let missing = failure(|| assert_eq!(sent.assert_enqueued::<Placed>(|placed| placed.order == 2).order, 2));
    for part in ["Placed` was", "(1 of that type are)", "topic \"payments\"", "key \"7\""] {
        assert!(missing.contains(part), "{part} is not in {missing}");
    }
    assert!(failure(|| sent.assert_none()).contains("topic \"orders\""));
    assert_eq!(sent.messages().len(), 2);
    assert_eq!(outbox.clone().testing().take().len(), 2, "shared");
    sent.assert_none();

    outbox.enqueue(&mut conn, &Message::to("orders").kind("order.placed").payload_bytes("no JSON")).expect("enqueue");
    assert!(failure(|| drop(sent.events::<Placed>())).contains("no JSON of"));
}

#[test]
fn a_hidden_commit_is_reported() {
    let mut conn = SqliteConnection::fresh().expect("in memory");
    conn.set_instrumentation(|_: InstrumentationEvent<'_>| {});
    let outbox = outbox();
    let sent = outbox.testing();
    conn.transaction(|conn| outbox.enqueue(conn, &Placed { order: 1 })).expect("commit");
    let failure = failure(|| assert_eq!(sent.assert_enqueued::<Placed>(|_| true).order, 1));
    assert!(failure.contains("commit_hook().chain(mine)"), "{failure}");
}
