//! Events of several types in one statement.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use diesel::connection::InstrumentationEvent;
use diesel::prelude::*;
use diesel_async::{AsyncMysqlConnection, AsyncPgConnection};
use diesel_outbox::{
    AsyncOutboxBackend, CodecError, EnqueueError, Message, MessageId, Outbox, OutboxBackend, OutboxMessage, Topic,
};

use super::databases::{AsyncDatabase, AsyncSqlite, Database};
use super::{handed_over, order};

struct Placed(i64);

impl OutboxMessage for Placed {
    const TOPIC: Option<&'static str> = Some("orders");
    const KIND: &'static str = "order.placed";

    fn payload(&self) -> Result<Option<Vec<u8>>, CodecError> {
        Ok(Some(self.0.to_string().into()))
    }
}

struct Paid;

impl OutboxMessage for Paid {
    const TOPIC: Option<&'static str> = Some("payments");
    const KIND: &'static str = "order.paid";

    fn payload(&self) -> Result<Option<Vec<u8>>, CodecError> {
        Ok(None)
    }
}

/// Refuses what is outside a transaction, as applications have it.
fn outbox() -> Outbox {
    Outbox::builder().topic(Topic::new("orders")).topic(Topic::new("payments")).build().expect("build")
}

/// Counts statements but for BEGIN and COMMIT.
fn counting() -> (Arc<AtomicUsize>, impl FnMut(InstrumentationEvent<'_>) + Send + 'static) {
    let inserts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&inserts);
    let count = move |event: InstrumentationEvent<'_>| {
        if let InstrumentationEvent::StartQuery { query, .. } = event
            && query.to_string().contains("INSERT INTO outbox_messages")
        {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    };
    (inserts, count)
}

fn one_statement<C: Database>()
where
    C::Backend: OutboxBackend<C>,
{
    let Some(mut conn) = C::fresh() else { return };
    let outbox = outbox();
    let (test_hook, (inserts, count)) = (outbox.test_hook(), counting());
    conn.set_instrumentation(outbox.commit_hook().chain(count));
    let sent = conn.transaction(|conn| {
        conn.place(1)?;
        outbox.batch().add(&Placed(1))?.add(&Paid)?.add(&order(2))?.add(&Message::to("payments"))?.write(conn)
    });
    let sent = sent.expect("commit");
    assert_eq!((sent.len(), inserts.load(Ordering::Relaxed)), (4, 1));
    assert_eq!(conn.messages(), sent, "in the order in which they were added");
    assert_eq!(handed_over(&test_hook), sent);
}

async fn one_statement_async<C: AsyncDatabase>()
where
    C::Backend: AsyncOutboxBackend<C>,
{
    let Some(mut conn) = C::fresh().await else { return };
    let outbox = outbox();
    let (test_hook, (inserts, count)) = (outbox.test_hook(), counting());
    conn.set_instrumentation(outbox.commit_hook().chain(count));
    let sent = conn.transaction(async |conn| {
        let batch = outbox.batch().add(&Placed(1))?.add(&Paid)?.add(&order(2))?.add(&Message::to("payments"))?;
        batch.write_async(conn).await
    });
    let sent: Vec<MessageId> = sent.await.expect("commit");
    assert_eq!((sent.len(), inserts.load(Ordering::Relaxed)), (4, 1));
    assert_eq!(conn.messages().await, sent);
    assert_eq!(handed_over(&test_hook), sent);
}

#[test]
fn one_statement_on_sqlite() {
    one_statement::<SqliteConnection>();
}

#[test]
fn one_statement_on_postgres() {
    one_statement::<PgConnection>();
}

#[test]
fn one_statement_on_mariadb() {
    one_statement::<MysqlConnection>();
}

#[tokio::test]
async fn one_statement_on_sqlite_async() {
    one_statement_async::<AsyncSqlite>().await;
}

#[tokio::test]
async fn one_statement_on_postgres_async() {
    one_statement_async::<AsyncPgConnection>().await;
}

#[tokio::test]
async fn one_statement_on_mariadb_async() {
    one_statement_async::<AsyncMysqlConnection>().await;
}

#[test]
fn a_refused_event_or_no_transaction_writes_nothing() {
    let mut conn = SqliteConnection::fresh().expect("in memory");
    let outbox = outbox();
    let refused = conn.transaction(|conn| outbox.batch().add(&Placed(1))?.add(&Message::to("ordres"))?.write(conn));
    let refused = refused.expect_err("no such topic");
    assert!(matches!(EnqueueError::of(&refused), Some(EnqueueError::UnknownTopic { .. })), "{refused}");
    let outside =
        outbox.batch().add(&Placed(1)).expect("it is right").add(&Paid).expect("it is right").write(&mut conn);
    let outside = outside.expect_err("no transaction");
    assert!(matches!(EnqueueError::of(&outside), Some(EnqueueError::NotInTransaction { .. })), "{outside}");
    assert_eq!(conn.transaction(|conn| outbox.batch().write(conn)).expect("nothing to write"), []);
    assert_eq!(conn.messages(), []);
}

#[test]
fn a_batch_is_made_in_a_loop() {
    let mut conn = SqliteConnection::fresh().expect("in memory");
    let outbox = outbox();
    let sent = conn.transaction(|conn| {
        let mut batch = outbox.batch();
        for number in 0..10 {
            batch = if number % 2 == 0 { batch.add(&Placed(number))? } else { batch.add(&Paid)? };
        }
        assert_eq!(format!("{batch:?}"), "Batch { messages: 10, .. }", "and no payload");
        batch.write(conn)
    });
    assert_eq!(conn.messages(), sent.expect("commit"));
}
