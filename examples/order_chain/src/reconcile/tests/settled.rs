//! What counts as settled after a fault: everything that happened before its end, in every place.

use super::*;

fn findings(change: impl FnOnce(&mut Reading), state: OrderState) -> Findings {
    let findings = found(change, state);
    assert_eq!(findings.wrong, []);
    findings
}

/// Whether something is settled only if it is asked of a time before this one.
#[track_caller]
fn moves_since(findings: &Findings, since_ms: i64) {
    assert!(findings.has_settled(since_ms - 1), "{:?}", findings.moving);
    assert!(!findings.has_settled(since_ms), "{:?}", findings.moving);
}

fn ended_at(reading: &mut Reading, ended_ms: i64) {
    reading.orders[0].changed_at_ms = ended_ms;
    reading.created_at_ms.insert("order".to_owned(), 1_000);
}

/// It was created at 1,000, before a fault, and closed at 6,000.
#[test]
fn a_service_that_missed_an_order_lacks_its_creation() {
    let missed = |reading: &mut Reading| {
        ended_at(reading, 6_000);
        reading.points.entries.clear();
    };
    moves_since(&findings(missed, OrderState::Cancelled), 1_000);
    let missed_end = |reading: &mut Reading| {
        ended_at(reading, 6_000);
        reading.points.entries[0].phase = Phase::Created;
    };
    moves_since(&findings(missed_end, OrderState::Cancelled), 6_000);
}

#[test]
fn a_change_at_a_time_that_is_not_known_counts_as_older() {
    let missed = findings(|reading| reading.points.entries.clear(), OrderState::Cancelled);
    assert!(!missed.has_settled(0));
}

#[test]
fn a_product_that_has_to_be_loaded_is_not_settled() {
    let loading = findings(|reading| reading.shelves.clear(), OrderState::Created);
    assert_eq!(loading.moving, [Moving::Loading { product_id: 1 }]);
    assert!(!loading.has_settled(0));
}

#[test]
fn a_reservation_without_an_order_moves_since_it_was_made() {
    let undecided = |reading: &mut Reading| {
        let mut entry = reserved();
        (entry.reservation.order_id, entry.age_ms) = ("another".to_owned(), 500);
        let shelf = reading.shelves.get_mut(&1).expect("a shelf");
        shelf.available -= entry.reservation.quantity;
        shelf.reserved.push(entry);
        reading.now_ms = 3_000;
    };
    moves_since(&findings(undecided, OrderState::Paid), 2_500);
}

#[test]
fn a_reservation_of_an_ended_order_moves_since_its_end() {
    let unsettled = |reading: &mut Reading| {
        ended_at(reading, 6_000);
        let shelf = reading.shelves.get_mut(&1).expect("a shelf");
        (shelf.sold, shelf.reserved) = (0, vec![reserved()]);
    };
    moves_since(&findings(unsettled, OrderState::Paid), 6_000);
}

#[test]
fn an_order_that_nobody_closes_moves_since_its_term_is_over() {
    let overdue = |reading: &mut Reading| reading.overdue.push(("order".to_owned(), 6_000));
    moves_since(&findings(overdue, OrderState::Created), 6_000);
    // It ended between the two reads.
    let mut reading = at_rest(OrderState::Cancelled);
    overdue(&mut reading);
    assert!(compare(&reading).is_equal());
}

#[test]
fn only_ended_orders_that_a_service_never_heard_of_need_their_first_time() {
    let unheard = |change: fn(&mut Reading), state| {
        let mut reading = at_rest(state);
        change(&mut reading);
        reading.ended_unheard()
    };
    assert_eq!(unheard(|_| {}, OrderState::Paid), Vec::<String>::new());
    assert_eq!(unheard(|reading| reading.coupons.entries.clear(), OrderState::Paid), ["order"]);
    assert_eq!(unheard(|reading| reading.points.entries.clear(), OrderState::Cancelled), ["order"]);
    assert_eq!(unheard(|reading| reading.stock.entries.clear(), OrderState::Created), Vec::<String>::new());
    let without_coupon = |reading: &mut Reading| {
        reading.coupons.entries.clear();
        reading.orders[0].order.coupon_id = None;
    };
    assert_eq!(unheard(without_coupon, OrderState::Paid), Vec::<String>::new());
}
