//! Bad messages meet their caller, with the field and the remedy, and write nothing.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::result::{DatabaseErrorKind, Error};
use diesel_outbox::codec::{Codec, Json};
use diesel_outbox::internals::limits::{HEADER_NAME_BYTES_MAX, KEY_BYTES_MAX, KIND_CHARS_MAX, MESSAGE_BYTES_MAX};
use diesel_outbox::{CodecError, EnqueueError, HeaderError, Message, Outbox, OutboxBackend, OutboxMessage, Topic};

use super::databases::Database;
use super::{order, outbox};

fn refused(message: &Message) -> EnqueueError {
    let mut conn = SqliteConnection::fresh().expect("in memory");
    let error = outbox().enqueue(&mut conn, message).expect_err("a refusal");
    assert_eq!(conn.messages(), [], "nothing was written");
    let Error::SerializationError(error) = error else { panic!("{error}") };
    *error.downcast::<EnqueueError>().expect("our own error")
}

#[test]
fn unknown_topic_names_the_configured_ones() {
    let error = refused(&Message::to("ordres"));
    assert!(
        error.to_string().contains("\"ordres\"") && error.to_string().contains("[\"orders\", \"payments\"]"),
        "{error}"
    );
}

#[test]
fn size_counts_payload_key_and_headers() {
    let at_most = MESSAGE_BYTES_MAX - "key".len() - "name".len() - "value".len();
    let sized = |bytes| Message::to("orders").key("key").header("name", "value").payload_bytes(vec![0; bytes]);
    let mut conn = SqliteConnection::fresh().expect("in memory");
    outbox().enqueue(&mut conn, &sized(at_most)).expect("it just fits");
    let error = refused(&sized(at_most + 1));
    assert!(matches!(error, EnqueueError::TooLarge { bytes, bytes_max, .. } if bytes == bytes_max + 1));
}

#[test]
fn keys_and_kinds_are_bounded_text() {
    let (key, kind) = (|key: String| refused(&order(1).key(key)), |kind: String| refused(&order(1).kind(kind)));
    assert!(matches!(key("k".repeat(KEY_BYTES_MAX + 1)), EnqueueError::KeyTooLong { .. }));
    assert!(matches!(kind("ä".repeat(KIND_CHARS_MAX + 1)), EnqueueError::KindTooLong { chars, .. } if chars == 256));
    assert!(matches!(key("a\0b".to_owned()), EnqueueError::Nul { field: "key", .. }));
    assert!(matches!(kind("a\0b".to_owned()), EnqueueError::Nul { field: "kind", .. }));
    let mut conn = SqliteConnection::fresh().expect("in memory");
    let longest = order(1).key("k".repeat(KEY_BYTES_MAX)).kind("ä".repeat(KIND_CHARS_MAX));
    outbox().enqueue(&mut conn, &longest).expect("they just fit");
}

#[test]
fn headers_have_legal_names_of_their_own() {
    for (name, expected) in [
        (String::new(), HeaderError::NoName),
        ("outbox-message-id".to_owned(), HeaderError::Reserved),
        ("Outbox-Kind".to_owned(), HeaderError::Reserved),
        ("n".repeat(HEADER_NAME_BYTES_MAX + 1), HeaderError::NameTooLong),
        ("a\0b".to_owned(), HeaderError::Nul),
    ] {
        let error = refused(&order(1).header(name, "value"));
        assert!(matches!(&error, EnqueueError::Header { problem, .. } if *problem == expected), "{error}");
    }
    let mut conn = SqliteConnection::fresh().expect("in memory");
    outbox().enqueue(&mut conn, &order(1).header("outboxes", "value")).expect("a name of the user's");
}

struct Broken;

impl OutboxMessage for Broken {
    const TOPIC: Option<&'static str> = Some("orders");
    const KIND: &'static str = "broken";

    fn payload(&self) -> Result<Option<Vec<u8>>, CodecError> {
        let key_that_json_has_not = std::collections::BTreeMap::from([((1, 2), 3)]);
        Json::encode(&key_that_json_has_not).map(Some)
    }
}

#[test]
fn a_payload_that_cannot_be_encoded_is_named_with_its_type() {
    let mut conn = SqliteConnection::fresh().expect("in memory");
    let one = outbox().enqueue(&mut conn, &Broken).expect_err("no JSON");
    let many = outbox().enqueue_all(&mut conn, [&Broken, &Broken]).expect_err("no JSON");
    for error in [one, many] {
        assert!(matches!(EnqueueError::of(&error), Some(EnqueueError::Codec { topic, .. }) if topic == "orders"));
        let parts =
            ["the payload of `it::outbox::refusals::Broken`", "\"orders\"", "\"broken\"", "key must be a string"];
        for part in parts.into_iter().chain(["not about the message's key"]) {
            assert!(error.to_string().contains(part), "{part} is not in {error}");
        }
    }
}

#[test]
fn one_refusal_of_many_writes_none() {
    let mut conn = SqliteConnection::fresh().expect("in memory");
    let error = outbox().enqueue_all(&mut conn, [order(1), Message::to("ordres")]).expect_err("the second");
    assert!(matches!(EnqueueError::of(&error), Some(EnqueueError::UnknownTopic { .. })));
    assert_eq!(conn.messages(), []);
}

fn a_transaction_is_required<C: Database>()
where
    C::Backend: OutboxBackend<C>,
{
    let Some(mut conn) = C::fresh() else { return };
    let builder = || Outbox::builder().topic(Topic::new("orders"));
    let outbox = builder().build().expect("build");
    for error in [
        outbox.enqueue(&mut conn, &order(1)).expect_err("outside"),
        outbox.enqueue_all(&mut conn, [order(1), order(2)]).expect_err("outside"),
    ] {
        assert!(matches!(EnqueueError::of(&error), Some(EnqueueError::NotInTransaction { .. })), "{error}");
        for part in ["\"orders\"", "conn.transaction(..)", ".allow_outside_transaction()"] {
            assert!(error.to_string().contains(part), "{part} is not in {error}");
        }
    }
    assert_eq!(conn.messages(), []);
    conn.transaction(|conn| outbox.enqueue(conn, &order(1))).expect("inside");
    assert_eq!(conn.messages().len(), 1);
    let lenient = builder().allow_outside_transaction().build().expect("build");
    lenient.enqueue(&mut conn, &order(2)).expect("allowed");
    assert_eq!(conn.messages().len(), 2);
}

#[test]
fn a_transaction_is_required_on_sqlite() {
    a_transaction_is_required::<SqliteConnection>();
}

#[test]
fn a_transaction_is_required_on_postgres() {
    a_transaction_is_required::<PgConnection>();
}

#[test]
fn a_transaction_is_required_on_mariadb() {
    a_transaction_is_required::<MysqlConnection>();
}

#[test]
fn database_errors_pass_through_unchanged() {
    let mut conn = SqliteConnection::fresh().expect("in memory");
    conn.batch_execute("CREATE UNIQUE INDEX one_key ON outbox_messages (key)").expect("index");
    outbox().enqueue(&mut conn, &order(1)).expect("the first");
    let error = outbox().enqueue(&mut conn, &order(1)).expect_err("the second");
    assert!(matches!(error, Error::DatabaseError(DatabaseErrorKind::UniqueViolation, _)), "{error}");
    assert!(EnqueueError::of(&error).is_none());
}
