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
fn a_coupon_is_taken_and_returned_or_used_up_once() {
    let conn = &mut open();
    coupon::migrate(conn, 5).expect("tables");
    let (closed, paid) = (order("closed", 1, Some(5)), order("paid", 1, Some(4)));
    for event in [OrderEvent::Created(closed.clone()), OrderEvent::Created(paid.clone())] {
        assert_eq!(step(conn, coupon::apply, &event), Ok(()), "{event:?}");
    }
    assert_eq!(coupon::read(conn).expect("read").taken, [(4, 1), (5, 1)]);
    assert_eq!(step(conn, coupon::apply, &OrderEvent::Cancelled(closed.clone())), Ok(()));
    assert_eq!(step(conn, coupon::apply, &OrderEvent::Paid(paid.clone())), Ok(()));
    for again in [OrderEvent::Created(paid.clone()), OrderEvent::Cancelled(paid), OrderEvent::Cancelled(closed)] {
        assert_eq!(step(conn, coupon::apply, &again), FOR_GOOD, "{again:?}");
    }
    let unknown = OrderEvent::Created(order("unknown", 1, Some(6)));
    assert_eq!(step(conn, coupon::apply, &unknown), FOR_GOOD);
    assert_eq!(step(conn, coupon::apply, &OrderEvent::Created(order("without", 1, None))), Ok(()));
    let reading = coupon::read(conn).expect("read");
    assert_eq!(reading.taken, [(4, 1)]);
    let phases: Vec<_> = reading.entries.iter().map(|entry| entry.phase).collect();
    assert_eq!(phases, [Phase::Cancelled, Phase::Paid]);
}

/// The coupon of a closed order was used up by the next one. Its messages come last, and neither may wait for the other.
#[test]
fn a_coupon_that_was_used_again_is_of_both_until_the_closed_order_is_heard_of() {
    let conn = &mut open();
    coupon::migrate(conn, 5).expect("tables");
    let (closed, next) = (order("closed", 1, Some(5)), order("next", 1, Some(5)));
    assert_eq!(step(conn, coupon::apply, &OrderEvent::Created(next.clone())), Ok(()));
    assert_eq!(step(conn, coupon::apply, &OrderEvent::Paid(next)), Ok(()));
    assert_eq!(step(conn, coupon::apply, &OrderEvent::Created(closed.clone())), Ok(()));
    assert_eq!(coupon::read(conn).expect("read").taken, [(5, 2)]);
    assert_eq!(step(conn, coupon::apply, &OrderEvent::Cancelled(closed)), Ok(()));
    assert_eq!(coupon::read(conn).expect("read").taken, [(5, 1)]);
}

/// The shop must not let this happen. If it does, the service says so to the reconciler, and stops for nobody.
#[test]
fn a_coupon_that_was_paid_with_twice_stays_visible() {
    let conn = &mut open();
    coupon::migrate(conn, 5).expect("tables");
    for order in [order("one", 1, Some(5)), order("two", 1, Some(5))] {
        assert_eq!(step(conn, coupon::apply, &OrderEvent::Created(order.clone())), Ok(()));
        assert_eq!(step(conn, coupon::apply, &OrderEvent::Paid(order)), Ok(()));
    }
    let reading = coupon::read(conn).expect("read");
    assert_eq!(reading.taken, [(5, 2)]);
    assert!(reading.entries.iter().all(|entry| (entry.subject_id, entry.phase) == (5, Phase::Paid)), "{reading:?}");
}

/// Every order of arrival in which the messages of each key keep theirs.
fn arrivals(keys: &[Vec<OrderEvent>]) -> Vec<Vec<OrderEvent>> {
    if keys.iter().all(Vec::is_empty) {
        return vec![Vec::new()];
    }
    let mut found = Vec::new();
    for index in (0..keys.len()).filter(|index| !keys[*index].is_empty()) {
        let mut rest = keys.to_vec();
        let first = rest[index].remove(0);
        found.extend(arrivals(&rest).into_iter().map(|then| [vec![first.clone()], then].concat()));
    }
    found
}

/// Three orders, each after the end of the one before: two that are closed, and one that is paid, for all there is and with the same coupon.
/// No service may stop, however their messages arrive.
#[test]
fn every_order_of_arrival_ends_the_same() {
    let [first, second, third] = ["first", "second", "third"].map(|id| order(id, 3, Some(5)));
    let closed = |order: Order| vec![OrderEvent::Created(order.clone()), OrderEvent::Cancelled(order)];
    let paid = vec![OrderEvent::Created(third.clone()), OrderEvent::Paid(third)];
    let arrivals = arrivals(&[closed(first), closed(second), paid]);
    assert_eq!(arrivals.len(), 90);
    for arrival in arrivals {
        let (of_stock, of_coupons, of_points) = (&mut open(), &mut open(), &mut open());
        stock::migrate(of_stock, &[3]).expect("tables");
        coupon::migrate(of_coupons, 5).expect("tables");
        points::migrate(of_points).expect("tables");
        for event in &arrival {
            assert_eq!(step(of_stock, stock::apply, event), Ok(()), "{event:?} of {arrival:?}");
            assert_eq!(step(of_coupons, coupon::apply, event), Ok(()), "{event:?} of {arrival:?}");
            assert_eq!(step(of_points, points::apply, event), Ok(()), "{event:?} of {arrival:?}");
        }
        let (stock, coupons) = (stock::read(of_stock).expect("read"), coupon::read(of_coupons).expect("read"));
        let points = points::read(of_points).expect("read");
        let row = stock.rows[0];
        assert_eq!((row.available, row.locked, row.sold), (0, 0, 3), "{arrival:?}");
        assert_eq!((coupons.taken, points.accounts), (vec![(5, 1)], vec![(7, 7)]), "{arrival:?}");
        for entries in [stock.entries, coupons.entries, points.entries] {
            let phases: Vec<_> = entries.iter().map(|entry| entry.phase).collect();
            assert_eq!(phases, [Phase::Cancelled, Phase::Cancelled, Phase::Paid], "{arrival:?}");
        }
    }
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
