//! Each thing that can be wrong is found, and what is only on its way is not taken for wrong.

mod settled;

use super::compare::compare;
use super::findings::{Findings, Moving, Wrong};
use super::reading::Reading;
use crate::cache::{Reservation, Reserved, Shelf};
use crate::domain::{Order, OrderRow, OrderState};
use crate::services::ledger::{Entry, StockRow};
use crate::services::phase::Phase;

/// Two of ten units, with coupon 5, by customer 7.
fn order() -> Order {
    Order {
        id: "order".to_owned(),
        reservation_id: "reservation".to_owned(),
        customer_id: 7,
        product_id: 1,
        quantity: 2,
        coupon_id: Some(5),
        total_cents: 300,
    }
}

fn entry(subject_id: i64, amount: i64, phase: Phase) -> Vec<Entry> {
    vec![Entry { order_id: "order".to_owned(), subject_id, amount, phase }]
}

/// Everything as it is when an order has reached this state everywhere.
fn at_rest(state: OrderState) -> Reading {
    let (phase, locked, sold) = match state {
        OrderState::Created => (Phase::Created, 2, 0),
        OrderState::Paid => (Phase::Paid, 0, 2),
        _ => (Phase::Cancelled, 0, 0),
    };
    let available = 10 - locked - sold;
    let mut reading = Reading::default();
    let reserved = if locked > 0 { vec![reserved()] } else { Vec::new() };
    reading.shelves.insert(1, Shelf { generation: 1, available, sold, reserved });
    reading.stock.rows.push(StockRow { product_id: 1, total: 10, available, locked, sold });
    reading.stock.entries = entry(1, 2, phase);
    reading.coupons.entries = entry(5, 1, phase);
    reading.points.entries = entry(7, 3, phase);
    if state.is_live() {
        reading.coupons.taken.push((5, 1));
    }
    if state == OrderState::Paid {
        reading.points.accounts.push((7, 3));
    }
    reading.orders.push(OrderRow { order: order(), state, changed_at_ms: 1_000 });
    reading
}

fn reserved() -> Reserved {
    let order = order();
    let reservation =
        Reservation { id: order.reservation_id, order_id: order.id, product_id: 1, quantity: order.quantity };
    Reserved { reservation, age_ms: 0 }
}

fn found(change: impl FnOnce(&mut Reading), state: OrderState) -> Findings {
    let mut reading = at_rest(state);
    change(&mut reading);
    let findings = compare(&reading);
    assert!(!findings.is_equal(), "{findings}");
    findings
}

fn wrong(change: impl FnOnce(&mut Reading), state: OrderState) -> Vec<Wrong> {
    found(change, state).wrong
}

fn moving(change: impl FnOnce(&mut Reading), state: OrderState) -> Vec<Moving> {
    let findings = found(change, state);
    assert_eq!(findings.wrong, []);
    findings.moving
}

#[test]
fn every_state_is_equal_at_rest() {
    for state in [OrderState::Created, OrderState::Paid, OrderState::Cancelled] {
        let findings = compare(&at_rest(state));
        assert!(findings.is_equal(), "{state:?}: {findings} {:?}", findings.moving);
    }
    assert!(compare(&Reading::default()).is_equal());
}

#[test]
fn a_message_on_its_way_is_not_wrong() {
    let behind = |service| Moving::Behind { service, order_id: "order".to_owned(), since_ms: 1_000 };
    // Nothing has heard of it.
    let new = moving(
        |reading| {
            let orders = std::mem::take(&mut reading.orders);
            *reading = at_rest(OrderState::Created);
            reading.stock = Default::default();
            reading.stock.rows.push(StockRow { product_id: 1, total: 10, available: 10, locked: 0, sold: 0 });
            reading.coupons = Default::default();
            reading.points = Default::default();
            reading.orders = orders;
        },
        OrderState::Created,
    );
    assert_eq!(new, [behind("stock"), behind("coupon"), behind("points")]);
    let paid = moving(|reading| reading.orders[0].state = OrderState::Paid, OrderState::Created);
    let unsettled = Moving::Unsettled { order_id: "order".to_owned(), since_ms: 1_000 };
    assert_eq!(paid, [unsettled.clone(), behind("stock"), behind("coupon"), behind("points")]);
    let cancelled = moving(|reading| reading.orders[0].state = OrderState::Cancelled, OrderState::Created);
    assert_eq!(cancelled[0], unsettled);
}

#[test]
fn a_reservation_without_an_order_is_undecided() {
    let undecided = moving(
        |reading| {
            *reading = Reading { shelves: std::mem::take(&mut reading.shelves), ..Reading::default() };
            reading.stock.rows.push(StockRow { product_id: 1, total: 10, available: 10, locked: 0, sold: 0 });
        },
        OrderState::Created,
    );
    assert_eq!(undecided, [Moving::Undecided { reservation_id: "reservation".to_owned(), since_ms: 0 }]);
    // One of an earlier attempt.
    let of_another = |reading: &mut Reading| reading.orders[0].order.reservation_id = "another".to_owned();
    assert!(matches!(moving(of_another, OrderState::Created)[..], [Moving::Undecided { .. }]));
}

#[test]
fn units_out_of_nowhere_are_wrong() {
    let more = |reading: &mut Reading| reading.shelves.get_mut(&1).expect("a shelf").available += 1;
    assert_eq!(wrong(more, OrderState::Paid), [Wrong::ShelfSum { product_id: 1, sum: 11, total: 10 }]);
    let oversold = |reading: &mut Reading| {
        let shelf = reading.shelves.get_mut(&1).expect("a shelf");
        (shelf.available, shelf.sold) = (-1, 11);
    };
    assert!(wrong(oversold, OrderState::Paid).contains(&Wrong::Oversold { product_id: 1, available: -1 }));
}

#[test]
fn a_stock_that_does_not_add_up_is_wrong() {
    let twice = |reading: &mut Reading| (reading.stock.rows[0].locked, reading.stock.rows[0].available) = (4, 6);
    let expected = Wrong::StockSum { product_id: 1, what: "locked", counted: 4, of_orders: 2 };
    assert_eq!(wrong(twice, OrderState::Created), [expected]);
    let vanished = |reading: &mut Reading| reading.stock.rows[0].available -= 1;
    let expected = Wrong::StockSum { product_id: 1, what: "in all", counted: 9, of_orders: 10 };
    assert_eq!(wrong(vanished, OrderState::Paid), [expected]);
}

#[test]
fn a_service_that_contradicts_the_order_is_wrong() {
    let contradiction = |service, phase| Wrong::Contradiction { service, order_id: "order".to_owned(), phase };
    let closed = |reading: &mut Reading| reading.orders[0].state = OrderState::Cancelled;
    let both = wrong(closed, OrderState::Paid);
    assert_eq!(both, ["stock", "coupon", "points"].map(|service| contradiction(service, Phase::Paid)));
    let unknown = wrong(|reading| reading.orders.clear(), OrderState::Paid);
    assert!(unknown.contains(&contradiction("points", Phase::Paid)), "{unknown:?}");
}

#[test]
fn other_figures_are_wrong() {
    let three = |reading: &mut Reading| reading.points.entries[0].amount = 4;
    let found = wrong(three, OrderState::Created);
    assert_eq!(found, [Wrong::Unfitting { service: "points", order_id: "order".to_owned() }]);
}

/// Another order with the same coupon, in this state, of which the services have heard this.
fn with_other(reading: &mut Reading, state: OrderState, phase: Phase) {
    let id = || "other".to_owned();
    let other = Order { id: id(), reservation_id: id(), customer_id: 8, product_id: 2, total_cents: 0, ..order() };
    reading.orders.push(OrderRow { order: other, state, changed_at_ms: 1_000 });
    let entry = |subject_id, amount| Entry { order_id: id(), subject_id, amount, phase };
    reading.stock.entries.push(entry(2, 2));
    reading.coupons.entries.push(entry(5, 1));
    reading.points.entries.push(entry(8, 0));
    reading.coupons.taken[0].1 += 1;
}

/// The coupon service has heard of both, and not yet of the end of the one that was closed before the other took its coupon.
#[test]
fn a_coupon_that_was_used_again_is_not_doubled() {
    let behind = |service| Moving::Behind { service, order_id: "other".to_owned(), since_ms: 1_000 };
    for state in [OrderState::Created, OrderState::Paid] {
        let found = moving(|reading| with_other(reading, OrderState::Cancelled, Phase::Created), state);
        assert_eq!(found, ["stock", "coupon", "points"].map(behind));
    }
}

#[test]
fn a_coupon_of_two_live_orders_is_doubled() {
    let doubled = Wrong::CouponDoubled { coupon_id: 5, orders: 2 };
    for (state, phase) in
        [(OrderState::Created, Phase::Created), (OrderState::Paid, Phase::Created), (OrderState::Paid, Phase::Paid)]
    {
        let found = wrong(|reading| with_other(reading, state, phase), OrderState::Paid);
        assert_eq!(found, std::slice::from_ref(&doubled), "{state:?} {phase:?}");
    }
    // The service has used it up twice, whatever the shop says.
    let found = wrong(|reading| with_other(reading, OrderState::Cancelled, Phase::Paid), OrderState::Paid);
    assert!(found.contains(&doubled), "{found:?}");
}

#[test]
fn a_coupon_that_is_missing_or_left_is_wrong() {
    let count = |counted, of_orders| [Wrong::CouponCount { coupon_id: 5, counted, of_orders }];
    assert_eq!(wrong(|reading| reading.coupons.taken.clear(), OrderState::Created), count(0, 1));
    assert_eq!(wrong(|reading| reading.coupons.taken[0].1 = 2, OrderState::Paid), count(2, 1));
    assert_eq!(wrong(|reading| reading.coupons.taken.push((5, 1)), OrderState::Cancelled), count(1, 0));
}

#[test]
fn points_that_were_booked_twice_are_wrong() {
    let twice = |reading: &mut Reading| reading.points.accounts[0].1 = 6;
    assert_eq!(wrong(twice, OrderState::Paid), [Wrong::Points { customer_id: 7, booked: 6, of_orders: 3 }]);
}

#[test]
fn a_created_order_without_its_reservation_is_suspected() {
    let mut reading = at_rest(OrderState::Created);
    assert_eq!(reading.without_reservation().count(), 0);
    reading.shelves.get_mut(&1).expect("a shelf").reserved.clear();
    assert_eq!(reading.without_reservation().count(), 1);
    reading.shelves.clear();
    assert_eq!(reading.without_reservation().count(), 0, "a product that is being loaded");
}
