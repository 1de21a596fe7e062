//! The services' state machines, on a database in memory.

use diesel::prelude::*;
use diesel_outbox::consumer::HandlerError;

use super::db::{coupon, points, stock};
use crate::domain::{Order, OrderEvent};
use crate::services::phase::Phase;

fn order(id: &str, quantity: i64, coupon_id: Option<i64>) -> Order {
    Order {
        id: id.to_owned(),
        reservation_id: format!("r-{id}"),
        customer_id: 7,
        product_id: 1,
        quantity,
        coupon_id,
        total_cents: 250 * quantity,
    }
}

fn open() -> SqliteConnection {
    SqliteConnection::establish(":memory:").expect("a database in memory")
}

/// As the consumer does it: all or nothing.
fn step(
    conn: &mut SqliteConnection,
    apply: fn(&mut SqliteConnection, &OrderEvent) -> Result<(), HandlerError>,
    event: &OrderEvent,
) -> Result<(), bool> {
    let ran = conn.transaction(|conn| apply(conn, event).map_err(Failed));
    ran.map_err(|Failed(error)| error.is_retriable())
}

struct Failed(HandlerError);

impl From<diesel::result::Error> for Failed {
    fn from(error: diesel::result::Error) -> Self {
        Self(error.into())
    }
}

const FOR_GOOD: Result<(), bool> = Err(false);
const FOR_NOW: Result<(), bool> = Err(true);

#[test]
fn stock_is_locked_sold_and_released_once() {
    let conn = &mut open();
    stock::migrate(conn, &[10]).expect("tables");
    let (sold, closed) = (order("sold", 3, None), order("closed", 2, None));
    assert_eq!(step(conn, stock::apply, &OrderEvent::Created(sold.clone())), Ok(()));
    assert_eq!(step(conn, stock::apply, &OrderEvent::Created(closed.clone())), Ok(()));
    assert_eq!(step(conn, stock::apply, &OrderEvent::Paid(sold.clone())), Ok(()));
    assert_eq!(step(conn, stock::apply, &OrderEvent::Cancelled(closed.clone())), Ok(()));
    for again in [OrderEvent::Created(sold.clone()), OrderEvent::Paid(sold.clone()), OrderEvent::Cancelled(sold)] {
        assert_eq!(step(conn, stock::apply, &again), FOR_GOOD, "{again:?}");
    }
    assert_eq!(step(conn, stock::apply, &OrderEvent::Paid(closed)), FOR_GOOD);
    let row = stock::read(conn).expect("read").rows[0];
    assert_eq!((row.available, row.locked, row.sold), (7, 0, 3));
}

/// The units of a closed order were sold again. Its messages come last, and neither may wait for the other.
#[test]
fn units_that_were_sold_again_are_owed_until_the_closed_order_is_heard_of() {
    let conn = &mut open();
    stock::migrate(conn, &[4]).expect("tables");
    let (closed, next) = (order("closed", 3, None), order("next", 4, None));
    assert_eq!(step(conn, stock::apply, &OrderEvent::Created(next.clone())), Ok(()));
    assert_eq!(step(conn, stock::apply, &OrderEvent::Paid(next)), Ok(()));
    assert_eq!(step(conn, stock::apply, &OrderEvent::Created(closed.clone())), Ok(()));
    let row = stock::read(conn).expect("read").rows[0];
    assert_eq!((row.available, row.locked, row.sold), (-3, 3, 4));
    assert_eq!(step(conn, stock::apply, &OrderEvent::Cancelled(closed)), Ok(()));
    let row = stock::read(conn).expect("read").rows[0];
    assert_eq!((row.available, row.locked, row.sold), (0, 0, 4));
}

#[test]
fn a_coupon_waits_for_the_end_of_the_order_before() {
    let conn = &mut open();
    coupon::migrate(conn, 5).expect("tables");
    let (first, second) = (order("first", 1, Some(5)), order("second", 1, Some(5)));
    assert_eq!(step(conn, coupon::apply, &OrderEvent::Created(first.clone())), Ok(()));
    assert_eq!(step(conn, coupon::apply, &OrderEvent::Created(second.clone())), FOR_NOW);
    assert_eq!(step(conn, coupon::apply, &OrderEvent::Cancelled(first)), Ok(()));
    assert_eq!(step(conn, coupon::apply, &OrderEvent::Created(second.clone())), Ok(()));
    assert_eq!(step(conn, coupon::apply, &OrderEvent::Paid(second.clone())), Ok(()));
    assert_eq!(step(conn, coupon::apply, &OrderEvent::Cancelled(second)), FOR_GOOD);
    let unknown = OrderEvent::Created(order("third", 1, Some(6)));
    assert_eq!(step(conn, coupon::apply, &unknown), FOR_GOOD);
    assert_eq!(step(conn, coupon::apply, &OrderEvent::Created(order("fourth", 1, None))), Ok(()));
    let reading = coupon::read(conn).expect("read");
    assert_eq!(reading.taken, [(5, "second".to_owned())]);
    let phases: Vec<_> = reading.entries.iter().map(|entry| entry.phase).collect();
    assert_eq!(phases, [Phase::Cancelled, Phase::Paid]);
}

#[test]
fn points_are_booked_with_the_payment_once() {
    let conn = &mut open();
    points::migrate(conn).expect("tables");
    let orders = [order("a", 2, None), order("b", 4, None)];
    for order in &orders {
        assert_eq!(step(conn, points::apply, &OrderEvent::Created(order.clone())), Ok(()));
    }
    assert_eq!(points::read(conn).expect("read").accounts, []);
    for order in &orders {
        assert_eq!(step(conn, points::apply, &OrderEvent::Paid(order.clone())), Ok(()));
        assert_eq!(step(conn, points::apply, &OrderEvent::Paid(order.clone())), FOR_GOOD);
    }
    assert_eq!(points::read(conn).expect("read").accounts, [(7, 15)]);
}
