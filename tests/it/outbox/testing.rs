//! What tests of applications see.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, UNIX_EPOCH};

use diesel::connection::InstrumentationEvent;
use diesel::prelude::*;
use diesel::result::Error;
use diesel_async::{AsyncMysqlConnection, AsyncPgConnection};
use diesel_outbox::TransactionConnection;
use diesel_outbox::{
    AsyncOutboxBackend, CodecError, Delivery, Message, Outbox, OutboxBackend, OutboxMessage, TestOutbox, Topic,
};
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

/// A kind for each variant, and none for the whole.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Change {
    Paid {
        order: i64,
    },
    Cancelled {
        order: i64,
    },
    /// A tombstone.
    Erased,
}

impl OutboxMessage for Change {
    const TOPIC: Option<&'static str> = Some("orders");
    const KIND: &'static str = "change";
    const KINDS: &'static [&'static str] = &["order.paid", "order.cancelled", "order.erased"];

    fn kind(&self) -> Cow<'_, str> {
        let kind = match self {
            Self::Paid { .. } => "order.paid",
            Self::Cancelled { .. } => "order.cancelled",
            Self::Erased => "order.erased",
        };
        Cow::Borrowed(kind)
    }

    fn payload(&self) -> Result<Option<Vec<u8>>, CodecError> {
        match self {
            Self::Erased => Ok(None),
            changed => serde_json::to_vec(changed).map(Some).map_err(CodecError::new),
        }
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
    assert!(handed_over(&test_hook).is_empty(), "rows that never commit are not handed over");
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
fn a_transaction_is_required_in_tests_too() {
    let outbox = Outbox::builder().topic(Topic::new("orders")).build().expect("build");
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
fn an_enum_is_found_by_the_kind_of_each_variant() {
    let mut conn = SqliteConnection::fresh().expect("in memory");
    let outbox = outbox();
    let sent = outbox.testing();
    let changes = [Change::Paid { order: 1 }, Change::Erased, Change::Cancelled { order: 2 }];
    conn.transaction(|conn| outbox.enqueue_all(conn, &changes)).expect("commit");
    conn.transaction(|conn| outbox.enqueue(conn, &Placed { order: 3 })).expect("commit");
    let paid = sent.assert_enqueued::<Change>(|change| *change == Change::Paid { order: 1 });
    assert_eq!(paid, changes[0]);
    assert_eq!(sent.assert_enqueued::<Change>(|change| matches!(change, Change::Cancelled { .. })), changes[2]);
    assert_eq!(sent.events::<Change>().len(), 2, "a tombstone holds no event");
    assert_eq!((sent.messages().len(), orders(&sent)), (4, vec![3]));
}

#[test]
fn absent_messages_are_asserted_too() {
    let mut conn = SqliteConnection::fresh().expect("in memory");
    let outbox = outbox();
    let sent = outbox.testing();
    sent.assert_not_enqueued::<Placed>(|_| true);
    conn.transaction(|conn| outbox.enqueue_all(conn, [Placed { order: 1 }, Placed { order: 2 }])).expect("commit");
    sent.assert_not_enqueued::<Placed>(|placed| placed.order == 3);
    sent.assert_not_enqueued::<Change>(|_| true);
    let found = failure(|| sent.assert_not_enqueued::<Placed>(|placed| placed.order == 2));
    assert!(found.starts_with("1 matching `") && found.contains("topic \"orders\""), "{found}");
}

fn deliveries_are_seen<C: Database>()
where
    C::Backend: OutboxBackend<C>,
{
    let Some(mut conn) = C::fresh() else { return };
    let outbox = outbox();
    let sent = outbox.testing();
    let (hour, new_year) = (Duration::from_secs(3_600), UNIX_EPOCH + Duration::from_secs(4_102_444_800));
    let enqueued = conn.transaction(|conn| {
        outbox.enqueue(conn, &Placed { order: 1 })?;
        outbox.enqueue(conn, &Placed { order: 2 }.delay(hour))?;
        outbox.enqueue(conn, &Placed { order: 3 }.deliver_at(new_year))
    });
    enqueued.expect("commit");
    let expected = [Delivery::Now, Delivery::After(hour), Delivery::At(new_year)];
    let placed = [1, 2, 3].map(|order| Placed { order });
    assert_eq!(sent.deliveries::<Placed>(), placed.into_iter().zip(expected).collect::<Vec<_>>());
    let messages = sent.messages();
    assert_eq!(messages[0].deliver_at, None);
    assert_eq!(messages[1].deliver_at, Some(messages[1].created_at + hour));
    assert_eq!(messages[2].deliver_at, Some(new_year));
    let listed = failure(|| sent.assert_none());
    for part in ["delayed by 3600s", "not before "] {
        assert!(listed.contains(part), "{part} is not in {listed}");
    }
}

#[test]
fn deliveries_are_seen_on_sqlite() {
    deliveries_are_seen::<SqliteConnection>();
}

#[test]
fn deliveries_are_seen_on_postgres() {
    deliveries_are_seen::<PgConnection>();
}

#[test]
fn deliveries_are_seen_on_mariadb() {
    deliveries_are_seen::<MysqlConnection>();
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
    let unknown = self::failure(|| sent.assert_not_enqueued::<Placed>(|_| true));
    assert!(unknown.contains("may have been"), "{unknown}");
}
