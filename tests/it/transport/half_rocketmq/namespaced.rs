//! In a namespace: the broker asks by the name that the cluster has.

use diesel::SqliteConnection;
use diesel::connection::Connection as _;
use diesel::result::Error;
use xtask::servers::ServerKind;
use xtask::test_servers;

use super::fixture::{DEADLINE, Fixture, insert, until};

#[test]
fn a_broker_asks_about_half_messages_of_a_namespace() {
    let Some(name_server) = test_servers::shared_or_skip(ServerKind::Rocketmq) else { return };
    let Some(fixture) = Fixture::<SqliteConnection>::open_in(&name_server, Some("shop")) else { return };
    let (halves, mut conn) = (fixture.halves(), fixture.connect());
    // They are kept, so that nobody tells the broker.
    let committed = halves.send_blocking(&fixture.message(1)).unwrap();
    let one = committed.message_id();
    conn.transaction(|conn| committed.mark(conn).and_then(|()| insert(conn, 1, one))).unwrap();
    let rolled_back = halves.send_blocking(&fixture.message(2)).unwrap();
    let other = rolled_back.message_id();
    conn.transaction(|conn| {
        rolled_back.mark(conn)?;
        insert(conn, 2, other)?;
        Err::<(), _>(Error::RollbackTransaction)
    })
    .unwrap_err();
    fixture.until_delivered_once();
    until("the other one is void", || fixture.marks().contains(&(other, true)));
    fixture.until_delivered_once();
    assert!(fixture.marks().contains(&(one, false)), "the process that the broker asked knew the outcome");
    // And the process tells it under that name as well.
    let half = halves.send_blocking(&fixture.message(3)).unwrap();
    let id = half.message_id();
    conn.transaction(|conn| half.mark(conn).and_then(|()| insert(conn, 3, id))).unwrap();
    drop(half);
    assert_eq!(halves.flush_blocking(DEADLINE), 0);
    fixture.until_delivered_once();
    assert!(
        fixture.marks().iter().all(|(marked, _)| *marked != id),
        "the broker was told and did not ask: {:?}",
        fixture.marks()
    );
}
