//! The interceptor: every way of enqueueing passes it, and nothing is written of what it refuses.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use diesel::prelude::*;
use diesel::result::Error as DieselError;
use diesel::sql_types::{Binary, Text};
use diesel_async::AsyncConnection as _;
use diesel_outbox::{
    Delivery, EnqueueError, EnqueueInterceptor, HeaderError, Headers, InterceptedMessage, Message, MessageId, Outbox,
    OutboxBuilder, Topic,
};
use uuid::Uuid;

use super::databases::{AsyncDatabase, AsyncSqlite, Database};
use super::order;

/// Adds the message's id as a header; fails for some keys.
#[derive(Debug)]
struct Stamp;

impl EnqueueInterceptor for Stamp {
    fn on_enqueue(&self, message: &mut InterceptedMessage<'_>) -> Result<(), Box<dyn Error + Send + Sync>> {
        match message.key() {
            Some("refused") => return Err("no tenant".into()),
            Some("panics") => panic!("of this test"),
            Some("reserved") => message.add_header("outbox-kind", "mine"),
            Some("large") => message.add_header("filling", vec![b'x'; 2_000_000]),
            _ => {}
        }
        let id = message.message_id().to_string();
        message.add_header("stamp", id);
        Ok(())
    }
}

fn builder() -> OutboxBuilder {
    Outbox::builder().topic(Topic::new("orders")).topic(Topic::new("payments"))
}

fn outbox() -> Outbox {
    builder().interceptor(Stamp).build().expect("build")
}

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Binary)]
    message_id: Vec<u8>,
    #[diesel(sql_type = Text)]
    headers: String,
}

const ROWS: &str = "SELECT message_id, headers FROM outbox_messages ORDER BY id";

/// The ids of the rows, each of which has its stamp once.
fn stamped(rows: Vec<Row>) -> Vec<MessageId> {
    let id = |row: Row| {
        let id: MessageId = Uuid::from_slice(&row.message_id).expect("16 bytes").into();
        let headers = Headers::from_json(&row.headers).expect("headers");
        let stamps: Vec<_> = headers.iter().filter(|(name, _)| *name == "stamp").collect();
        assert_eq!(stamps, [("stamp", id.to_string().as_bytes())], "{:?}", row.headers);
        id
    };
    rows.into_iter().map(id).collect()
}

#[test]
fn every_way_of_enqueueing_passes_it_on_sqlite() {
    let mut conn = SqliteConnection::fresh().expect("a database");
    let outbox = outbox();
    let mut sent = conn
        .transaction(|conn| {
            let mut sent = vec![outbox.enqueue(conn, &order(1))?];
            sent.extend(outbox.enqueue_all(conn, [order(2), order(3)])?);
            sent.push(outbox.enqueue(conn, &order(4).delay(Duration::from_secs(60)))?);
            sent.extend(outbox.batch().add(&order(5))?.add(&Message::to("payments"))?.write(conn)?);
            Ok::<_, DieselError>(sent)
        })
        .expect("commit");
    let of_transaction = outbox.transaction(&mut conn, |tx| {
        let mut sent = vec![tx.enqueue(&order(6))?];
        sent.extend(tx.enqueue_all([order(7), order(8)])?);
        Ok::<_, DieselError>(sent)
    });
    sent.extend(of_transaction.expect("commit"));
    assert_eq!(stamped(diesel::sql_query(ROWS).load(&mut conn).expect("rows")), sent);
}

#[tokio::test]
async fn every_way_of_enqueueing_asynchronously_passes_it_on_sqlite() {
    let mut conn = AsyncSqlite::fresh().await.expect("a database");
    let outbox = outbox();
    let in_transaction = conn.transaction(async |conn| {
        let mut sent = vec![outbox.enqueue_async(conn, &order(1)).await?];
        sent.extend(outbox.enqueue_all_async(conn, [order(2), order(3)]).await?);
        sent.extend(outbox.batch().add(&order(4))?.add(&Message::to("payments"))?.write_async(conn).await?);
        Ok::<_, DieselError>(sent)
    });
    let mut sent = in_transaction.await.expect("commit");
    let of_transaction = outbox.transaction_async(&mut conn, async |tx| {
        let mut sent = vec![tx.enqueue(&order(5))?];
        sent.extend(tx.enqueue_all([order(6), order(7)])?);
        Ok::<_, DieselError>(sent)
    });
    sent.extend(of_transaction.await.expect("commit"));
    let rows = diesel_async::RunQueryDsl::load::<Row>(diesel::sql_query(ROWS), &mut conn).await.expect("rows");
    assert_eq!(stamped(rows), sent);
}

/// Returns the refusal of a message with this key.
fn refused(key: &str, outbox: &Outbox, conn: &mut SqliteConnection) -> DieselError {
    let messages = [order(1), Message::to("orders").key(key), order(2)];
    let one = outbox.enqueue(conn, &messages[1]).expect_err("refused");
    let in_transaction = outbox.transaction(conn, |tx| {
        tx.enqueue(&messages[0])?;
        tx.enqueue(&messages[1]).map(drop)
    });
    in_transaction.expect_err("refused");
    assert!(outbox.batch().add(&messages[0]).expect("fine").add(&messages[1]).is_err());
    outbox.enqueue_all(conn, messages).expect_err("none is written");
    one
}

#[test]
fn nothing_is_written_of_a_refused_message_on_sqlite() {
    let mut conn = SqliteConnection::fresh().expect("a database");
    let outbox = outbox();
    conn.begin_test_transaction().expect("begin");
    for (key, text) in [("refused", "no tenant"), ("panics", "it panicked")] {
        let error = refused(key, &outbox, &mut conn);
        let Some(EnqueueError::Interceptor { topic, interceptor, error: cause }) = EnqueueError::of(&error) else {
            panic!("{error}")
        };
        assert_eq!((topic.as_str(), interceptor.as_str(), cause.to_string().as_str()), ("orders", "Stamp", text));
        assert!(error.to_string().contains(text), "{error}");
    }
    let error = refused("reserved", &outbox, &mut conn);
    let problem = EnqueueError::of(&error);
    assert!(matches!(problem, Some(EnqueueError::Header { problem: HeaderError::Reserved, .. })), "{error}");
    let error = refused("large", &outbox, &mut conn);
    assert!(matches!(EnqueueError::of(&error), Some(EnqueueError::TooLarge { bytes: 2_000_000.., .. })), "{error}");
    assert_eq!(conn.messages(), []);
    // The interceptor, the outbox and the transaction go on.
    let kept = conn.transaction(|conn| outbox.enqueue(conn, &order(3))).expect("enqueue");
    assert_eq!(conn.messages(), [kept]);
}

/// What an interceptor saw of a message.
#[derive(Debug, PartialEq)]
struct Seen {
    by: &'static str,
    topic: String,
    key: Option<String>,
    kind: String,
    payload_bytes: Option<usize>,
    delivery: Delivery,
    headers: Vec<String>,
}

#[derive(Debug, Clone)]
struct Observer {
    name: &'static str,
    refuses: bool,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl EnqueueInterceptor for Observer {
    fn on_enqueue(&self, message: &mut InterceptedMessage<'_>) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(Seen {
            by: self.name,
            topic: message.topic().to_owned(),
            key: message.key().map(str::to_owned),
            kind: message.kind().to_owned(),
            payload_bytes: message.payload_bytes(),
            delivery: message.delivery(),
            headers: message.headers().iter().map(|(name, _)| name.to_owned()).collect(),
        });
        message.add_header(self.name, "x");
        if self.refuses { Err("not today".into()) } else { Ok(()) }
    }
}

#[test]
fn several_see_the_message_in_their_order_until_one_refuses_it_on_sqlite() {
    let mut conn = SqliteConnection::fresh().expect("a database");
    let seen = Arc::<Mutex<Vec<Seen>>>::default();
    let observer = |name, refuses| Observer { name, refuses, seen: Arc::clone(&seen) };
    let both = builder().interceptor(observer("first", false)).interceptor(observer("second", false));
    let both = both.allow_outside_transaction().build().expect("build");
    let delay = Duration::from_secs(60);
    both.enqueue(&mut conn, &order(7).delay(delay)).expect("enqueue");
    let expected = |by, headers: &[&str]| Seen {
        by,
        topic: "orders".to_owned(),
        key: Some("7".to_owned()),
        kind: "order.placed".to_owned(),
        payload_bytes: Some(2),
        delivery: Delivery::After(delay),
        headers: headers.iter().map(|name| (*name).to_owned()).collect(),
    };
    let take = || std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    assert_eq!(take(), [expected("first", &["source"]), expected("second", &["source", "first"])]);

    let refusing = builder().interceptor(observer("first", true)).interceptor(observer("second", false));
    let refusing = refusing.allow_outside_transaction().build().expect("build");
    refusing.enqueue(&mut conn, &Message::to("payments")).expect_err("refused");
    let names: Vec<_> = take().into_iter().map(|seen| (seen.by, seen.payload_bytes)).collect();
    assert_eq!(names, [("first", None)]);
    assert_eq!(conn.messages().len(), 1);
}
