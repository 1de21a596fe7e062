//! A half message passes the interceptor like any other.

use std::error::Error;

use diesel::connection::Connection as _;
use diesel::sqlite::SqliteConnection;
use diesel_outbox::half_messages::HalfMessageError;
use diesel_outbox::{EnqueueError, EnqueueInterceptor, InterceptedMessage, Message, Outbox, Topic};

use super::database::TestDatabase as _;
use super::fixture::{DEADLINE, Fixture, insert};
use crate::transport::rocketmq::config;
use crate::transport::rocketmq_broker;

/// Adds a header to each message that has a key, and refuses the others.
#[derive(Debug)]
struct Stamp;

impl EnqueueInterceptor for Stamp {
    fn on_enqueue(&self, message: &mut InterceptedMessage<'_>) -> Result<(), Box<dyn Error + Send + Sync>> {
        let id = message.message_id().to_string();
        message.add_header("stamp", id);
        message.key().map(drop).ok_or_else(|| "no key".into())
    }
}

#[test]
fn a_half_message_passes_the_interceptor_sqlite() {
    let Some(fixture) = Fixture::<SqliteConnection>::open() else { return };
    let outbox = Outbox::builder().topic(Topic::new(fixture.topic.as_str())).interceptor(Stamp).build().unwrap();
    let config = config(&fixture.name_server).group(fixture.topic.as_str());
    let halves = outbox.half_messages_blocking(SqliteConnection::store(&fixture.database_url), config).unwrap();
    let refused = halves.send_blocking(&Message::to(fixture.topic.as_str())).unwrap_err();
    assert!(matches!(refused, HalfMessageError::Refused(EnqueueError::Interceptor { .. })), "{refused}");
    let half = halves.send_blocking(&fixture.message(1)).unwrap();
    let (id, mut conn) = (half.message_id(), fixture.connect());
    conn.transaction(|conn| half.mark(conn).and_then(|()| insert(conn, 1, id))).unwrap();
    drop(half);
    assert_eq!(halves.flush_blocking(DEADLINE), 0);
    fixture.until_delivered_once();
    let stored = rocketmq_broker::read(&fixture.name_server, &fixture.topic);
    let stamps: Vec<_> = stored.iter().map(|message| message.properties["stamp"].clone()).collect();
    assert_eq!(stamps, [id.to_string()]);
}
