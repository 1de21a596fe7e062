//! Compares what was read: no database, no clock.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::{Findings, Moving, StockSum, Wrong};
use super::reading::Reading;
use crate::domain::{Order, OrderRow, OrderState};
use crate::services::ledger::Entry;
use crate::services::phase::Phase;

type Orders<'a> = BTreeMap<&'a str, &'a OrderRow>;

pub(super) fn compare(reading: &Reading) -> Findings {
    let orders: Orders<'_> = reading.orders.iter().map(|row| (row.order.id.as_str(), row)).collect();
    let mut findings = Findings::default();
    shelves(reading, &orders, &mut findings);
    stock(reading, &mut findings);
    overdue(reading, &orders, &mut findings);
    let orders_and_created = (&orders, &reading.created_at_ms);
    let mut of = |name: &'static str, entries: &[Entry], figures: fn(&Order) -> Option<(i64, i64)>| {
        service(name, entries, orders_and_created, figures, &mut findings);
    };
    of("stock", &reading.stock.entries, |order| Some((order.product_id, order.quantity)));
    of("coupon", &reading.coupons.entries, |order| Some((order.coupon_id?, 1)));
    of("points", &reading.points.entries, |order| Some((order.customer_id, order.points())));
    coupons(reading, &orders, &mut findings);
    points(reading, &mut findings);
    findings
}

/// The cache in itself, and each reservation against its order.
fn shelves(reading: &Reading, orders: &Orders<'_>, findings: &mut Findings) {
    for row in &reading.stock.rows {
        let Some(shelf) = reading.shelves.get(&row.product_id) else {
            findings.moving.push(Moving::Loading { product_id: row.product_id });
            continue;
        };
        let sum = shelf.available + shelf.sold + shelf.reserved_units();
        if sum != row.total {
            findings.wrong.push(Wrong::ShelfSum { product_id: row.product_id, sum, total: row.total });
        }
        if shelf.available < 0 {
            findings.wrong.push(Wrong::Oversold { product_id: row.product_id, available: shelf.available });
        }
        for entry in &shelf.reserved {
            let reservation = &entry.reservation;
            match orders.get(reservation.order_id.as_str()) {
                Some(row) if row.order.reservation_id == reservation.id && row.state == OrderState::Created => {}
                Some(row) if row.order.reservation_id == reservation.id => {
                    // The cache lacks one change: the order's end.
                    let (order_id, since_ms) = (row.order.id.clone(), row.changed_at_ms);
                    findings.moving.push(Moving::Unsettled { order_id, since_ms });
                }
                _ => {
                    // The time was read before the age, so this is rather too early.
                    let (reservation_id, since_ms) = (reservation.id.clone(), reading.now_ms - entry.age_ms);
                    findings.moving.push(Moving::Undecided { reservation_id, since_ms });
                }
            }
        }
    }
}

/// Orders that should be closed, and are not. The orders themselves were read later, so one of them may have ended meanwhile.
fn overdue(reading: &Reading, orders: &Orders<'_>, findings: &mut Findings) {
    let is_open = |order_id: &str| orders.get(order_id).is_some_and(|row| row.state == OrderState::Created);
    for (order_id, since_ms) in reading.overdue.iter().filter(|(order_id, _)| is_open(order_id)) {
        findings.moving.push(Moving::Overdue { order_id: order_id.clone(), since_ms: *since_ms });
    }
}

/// The stock service in itself, and the sum over all places.
fn stock(reading: &Reading, findings: &mut Findings) {
    let known: BTreeSet<&str> = reading.stock.entries.iter().map(|entry| entry.order_id.as_str()).collect();
    for row in &reading.stock.rows {
        let of_product = |phase: Phase| {
            let entries = reading.stock.entries.iter().filter(|entry| entry.subject_id == row.product_id);
            entries.filter(|entry| entry.phase == phase).map(|entry| entry.amount).sum::<i64>()
        };
        let counts = [
            ("locked", row.locked, of_product(Phase::Created)),
            ("sold", row.sold, of_product(Phase::Paid)),
            ("in all", row.available + row.locked + row.sold, row.total),
        ];
        for (what, counted, of_orders) in counts.into_iter().filter(|(_, counted, of_orders)| counted != of_orders) {
            findings.wrong.push(Wrong::StockSum { product_id: row.product_id, what, counted, of_orders });
        }
        let Some(shelf) = reading.shelves.get(&row.product_id) else { continue };
        let is_unknown = |order_id: &str| !known.contains(order_id);
        let unknown = shelf.reserved.iter().filter(|entry| is_unknown(&entry.reservation.order_id));
        findings.sums.push(StockSum {
            product_id: row.product_id,
            available: shelf.available,
            reserved: unknown.map(|entry| entry.reservation.quantity).sum(),
            locked: row.locked,
            sold: row.sold,
            total: row.total,
        });
    }
}

/// The entries of a service against the orders. `figures` are those that an order should have there; `None` if it should have no entry.
fn service(
    name: &'static str,
    entries: &[Entry],
    (orders, created_at_ms): (&Orders<'_>, &BTreeMap<String, i64>),
    figures: impl Fn(&Order) -> Option<(i64, i64)>,
    findings: &mut Findings,
) {
    let by_order: BTreeMap<&str, &Entry> = entries.iter().map(|entry| (entry.order_id.as_str(), entry)).collect();
    for entry in entries {
        let order_id = entry.order_id.clone();
        match orders.get(entry.order_id.as_str()) {
            Some(row) if figures(&row.order) != Some((entry.subject_id, entry.amount)) => {
                findings.wrong.push(Wrong::Unfitting { service: name, order_id });
            }
            Some(row) if phase_of(row.state) == Some(entry.phase) => {}
            // It lacks one change: the order's end.
            Some(row) if entry.phase == Phase::Created => {
                findings.moving.push(Moving::Behind { service: name, order_id, since_ms: row.changed_at_ms });
            }
            _ => findings.wrong.push(Wrong::Contradiction { service: name, order_id, phase: entry.phase }),
        }
    }
    for row in orders.values().filter(|row| figures(&row.order).is_some()) {
        if !by_order.contains_key(row.order.id.as_str()) {
            let (order_id, since_ms) = (row.order.id.clone(), created_at(row, created_at_ms));
            findings.moving.push(Moving::Behind { service: name, order_id, since_ms });
        }
    }
}

/// When an order was created. Of one that has ended that is not its last change; without a known time it counts as older than anything.
fn created_at(row: &OrderRow, created_at_ms: &BTreeMap<String, i64>) -> i64 {
    match row.state {
        OrderState::Created => row.changed_at_ms,
        _ => created_at_ms.get(&row.order.id).copied().unwrap_or(i64::MIN),
    }
}

fn phase_of(state: OrderState) -> Option<Phase> {
    match state {
        OrderState::Created => Some(Phase::Created),
        OrderState::Paid => Some(Phase::Paid),
        OrderState::Cancelled => Some(Phase::Cancelled),
        OrderState::Refused => None,
    }
}

/// The coupon service in itself, and at most one live order with each coupon.
fn coupons(reading: &Reading, orders: &Orders<'_>, findings: &mut Findings) {
    let mut of_orders: BTreeMap<i64, i64> = BTreeMap::new();
    let mut live: BTreeMap<i64, usize> = BTreeMap::new();
    for entry in reading.coupons.entries.iter().filter(|entry| entry.phase != Phase::Cancelled) {
        *of_orders.entry(entry.subject_id).or_default() += entry.amount;
        if !is_end_on_its_way(entry, orders) {
            *live.entry(entry.subject_id).or_default() += 1;
        }
    }
    for (coupon_id, counted, of_orders) in differences(&reading.coupons.taken, &of_orders) {
        findings.wrong.push(Wrong::CouponCount { coupon_id, counted, of_orders });
    }
    for (coupon_id, orders) in live.into_iter().filter(|(_, orders)| *orders > 1) {
        findings.wrong.push(Wrong::CouponDoubled { coupon_id, orders });
    }
}

/// Whether a service has not heard yet that an order was closed. Its coupon may be with the next order there: the shop gave it to that one
/// after the close, which the orders, read last, have.
fn is_end_on_its_way(entry: &Entry, orders: &Orders<'_>) -> bool {
    let is_closed = |row: &&OrderRow| row.state == OrderState::Cancelled;
    entry.phase == Phase::Created && orders.get(entry.order_id.as_str()).is_some_and(is_closed)
}

/// Each customer has the points of the paid orders.
fn points(reading: &Reading, findings: &mut Findings) {
    let mut of_orders: BTreeMap<i64, i64> = BTreeMap::new();
    for entry in reading.points.entries.iter().filter(|entry| entry.phase == Phase::Paid) {
        *of_orders.entry(entry.subject_id).or_default() += entry.amount;
    }
    for (customer_id, booked, of_orders) in differences(&reading.points.accounts, &of_orders) {
        findings.wrong.push(Wrong::Points { customer_id, booked, of_orders });
    }
}

/// Where a service's figures are not those that its orders make: what it is about, the one, the other.
fn differences(counted: &[(i64, i64)], of_orders: &BTreeMap<i64, i64>) -> Vec<(i64, i64, i64)> {
    let counted: BTreeMap<i64, i64> = counted.iter().copied().collect();
    let ids: BTreeSet<i64> = counted.keys().chain(of_orders.keys()).copied().collect();
    let figure = |figures: &BTreeMap<i64, i64>, id| figures.get(&id).copied().unwrap_or_default();
    let both = ids.into_iter().map(|id| (id, figure(&counted, id), figure(of_orders, id)));
    both.filter(|(_, counted, of_orders)| counted != of_orders).collect()
}
