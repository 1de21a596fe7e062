//! The broker goes away.

use diesel::PgConnection;
use diesel::connection::Connection as _;
use diesel_outbox::half_messages::HalfMessageError;
use diesel_outbox::transport::FailureClass;
use xtask::servers::Rocketmq;
use xtask::servers::rocketmq::Options;
use xtask::test_servers;

use super::fixture::{DEADLINE, Fixture, insert, until};

#[test]
fn a_killed_broker_asks_for_missed_decisions() {
    let Some(mut server) = test_servers::own_or_skip(Rocketmq::start(&Options::default())) else { return };
    let Some(fixture) = Fixture::<PgConnection>::open_on(&server.name_server()) else { return };
    let (halves, mut conn) = (fixture.halves(), fixture.connect());
    // A broker that has just begun is slow.
    let halve = |number| {
        let mut sent = None;
        until("it is taken", || {
            sent = halves.send_blocking(&fixture.message(number)).ok();
            sent.is_some()
        });
        sent.unwrap()
    };
    let (committed, rolled_back) = (halve(1), halve(2));
    let (one, other) = (committed.message_id(), rolled_back.message_id());
    server.kill9().unwrap();
    conn.transaction(|conn| committed.mark(conn).and_then(|()| insert(conn, 1, one))).unwrap();
    conn.transaction(|conn| {
        rolled_back.mark(conn)?;
        insert(conn, 2, other)?;
        Err::<(), _>(diesel::result::Error::RollbackTransaction)
    })
    .unwrap_err();
    drop((committed, rolled_back));
    assert_eq!(halves.flush_blocking(DEADLINE), 0, "told in vain");
    let refused = halves.send_blocking(&fixture.message(3)).unwrap_err();
    assert!(refused.is_retriable(), "{refused}");
    let HalfMessageError::Broker(error) = &refused else { panic!("{refused}") };
    assert!(matches!(error.class(), FailureClass::Connection | FailureClass::Temporary), "{error}");
    server.start_again().unwrap();
    fixture.until_delivered_once();
    until("the other one is void", || fixture.marks().contains(&(other, true)));
    // And it takes half messages again.
    until("one more is taken", || {
        let Ok(half) = halves.send_blocking(&fixture.message(4)) else { return false };
        let id = half.message_id();
        conn.transaction(|conn| half.mark(conn).and_then(|()| insert(conn, 4, id))).is_ok()
    });
    assert_eq!(halves.flush_blocking(DEADLINE), 0);
    fixture.until_delivered_once();
}
