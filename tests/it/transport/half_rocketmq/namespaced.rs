//! In a namespace: the broker asks by the name that the cluster has.

use diesel::SqliteConnection;
use diesel::connection::Connection as _;
use diesel::result::Error;
use xtask::parts;
use xtask::servers::Part;

use super::yard::{DEADLINE, Yard, insert, until};

#[test]
fn a_broker_asks_about_half_messages_of_a_namespace() {
    let Some(name_server) = parts::require(Part::Rocketmq) else { return };
    let Some(yard) = Yard::<SqliteConnection>::open_in(&name_server, Some("shop")) else { return };
    let (halves, mut conn) = (yard.halves(), yard.connect());
    // They are kept, so that nobody tells the broker.
    let committed = halves.send_blocking(&yard.message(1)).unwrap();
    let one = committed.message_id();
    conn.transaction(|conn| committed.mark(conn).and_then(|()| insert(conn, 1, one))).unwrap();
    let rolled_back = halves.send_blocking(&yard.message(2)).unwrap();
    let other = rolled_back.message_id();
    conn.transaction(|conn| {
        rolled_back.mark(conn)?;
        insert(conn, 2, other)?;
        Err::<(), _>(Error::RollbackTransaction)
    })
    .unwrap_err();
    yard.until_delivered_once();
    until("the other one is void", || yard.marks().contains(&(other, true)));
    yard.until_delivered_once();
    assert!(yard.marks().contains(&(one, false)), "the broker heard it from whom it asked");
    // And the process tells it under that name as well.
    let half = halves.send_blocking(&yard.message(3)).unwrap();
    let id = half.message_id();
    conn.transaction(|conn| half.mark(conn).and_then(|()| insert(conn, 3, id))).unwrap();
    drop(half);
    assert_eq!(halves.flush_blocking(DEADLINE), 0);
    yard.until_delivered_once();
    assert!(yard.marks().iter().all(|(marked, _)| *marked != id), "told, and not asked: {:?}", yard.marks());
}
