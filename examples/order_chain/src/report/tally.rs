//! What went wrong, by the names that the pattern's readers know.

use std::collections::BTreeMap;
use std::fmt;

use crate::domain::OrderRow;
use crate::load::told::Answers;
use crate::reconcile::{Findings, Moving, Wrong};

/// Counts of what must be 0 at rest.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Units of live orders, above those that there are.
    pub(super) oversold: i64,
    /// Reservations that nobody gave back, and units that are in no place.
    leaked: i64,
    /// Units that were deducted and belong to no order, and orders that two reservations stand on.
    doubled: i64,
    pub(super) coupons_doubled: i64,
    pub(super) coupons_missing: i64,
    /// Changes that a service has not heard of, and payment terms whose end nobody has.
    pub(super) missing: i64,
    pub(super) paid_and_closed: i64,
}

impl Tally {
    pub(super) fn of(findings: &Findings, orders: &[OrderRow], answers: &Answers) -> Self {
        let mut tally = Self { oversold: oversold(findings, orders), ..Self::default() };
        for moving in &findings.moving {
            match moving {
                Moving::Undecided { .. } | Moving::Unsettled { .. } => tally.leaked += 1,
                Moving::Behind { service: "coupon", .. } => tally.coupons_missing += 1,
                // The end of its payment term is a message, too.
                Moving::Behind { .. } | Moving::Overdue { .. } => tally.missing += 1,
                Moving::Loading { .. } => {}
            }
        }
        for wrong in &findings.wrong {
            match wrong {
                Wrong::Oversold { available, .. } => tally.oversold -= available,
                Wrong::ShelfSum { sum, total, .. } => tally.leaked += (total - sum).abs(),
                Wrong::StockSum { counted, of_orders, .. } => tally.doubled += (counted - of_orders).abs(),
                Wrong::CouponDoubled { .. } => tally.coupons_doubled += 1,
                Wrong::CouponCount { .. } => tally.coupons_missing += 1,
                Wrong::Contradiction { .. } => tally.paid_and_closed += 1,
                Wrong::Parked { .. } | Wrong::LostReservation { .. } => tally.missing += 1,
                Wrong::Unfitting { .. } | Wrong::Points { .. } => tally.doubled += 1,
            }
        }
        tally.doubled += findings.sums.iter().map(|sum| sum.difference().abs()).sum::<i64>();
        let both = answers.paid.intersection(&answers.closed).count();
        tally.paid_and_closed += i64::try_from(both).unwrap_or(i64::MAX);
        tally
    }
}

fn oversold(findings: &Findings, orders: &[OrderRow]) -> i64 {
    let mut live: BTreeMap<i64, i64> = BTreeMap::new();
    for row in orders.iter().filter(|row| row.state.is_live()) {
        *live.entry(row.order.product_id).or_default() += row.order.quantity;
    }
    let above = |product_id: i64, total: i64| (live.get(&product_id).copied().unwrap_or_default() - total).max(0);
    findings.sums.iter().map(|sum| above(sum.product_id, sum.total)).sum()
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "units oversold: {}", self.oversold)?;
        writeln!(f, "reservations leaked: {}", self.leaked)?;
        writeln!(f, "deductions doubled: {}", self.doubled)?;
        writeln!(f, "coupons doubled: {}, missing: {}", self.coupons_doubled, self.coupons_missing)?;
        writeln!(f, "messages missing at a service: {}", self.missing)?;
        writeln!(f, "orders paid and closed at once: {}", self.paid_and_closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Order, OrderState};
    use crate::reconcile::StockSum;

    #[test]
    fn each_finding_is_counted_under_its_name() {
        let order = Order {
            id: "a".to_owned(),
            reservation_id: "r".to_owned(),
            customer_id: 1,
            product_id: 1,
            quantity: 12,
            coupon_id: None,
            total_cents: 1,
        };
        let orders = [OrderRow { order, state: OrderState::Paid, changed_at_ms: 0 }];
        let sum = StockSum { product_id: 1, available: 0, reserved: 0, locked: 0, sold: 12, total: 10 };
        let order_id = || "a".to_owned();
        let findings = Findings {
            sums: vec![sum],
            moving: vec![
                Moving::Unsettled { order_id: order_id(), since_ms: 0 },
                Moving::Behind { service: "coupon", order_id: order_id(), since_ms: 0 },
                Moving::Behind { service: "stock", order_id: order_id(), since_ms: 0 },
                Moving::Overdue { order_id: order_id(), since_ms: 0 },
            ],
            wrong: vec![Wrong::CouponDoubled { coupon_id: 1, orders: 2 }],
        };
        let mut answers = Answers::default();
        answers.paid.insert(order_id());
        answers.closed.insert(order_id());
        let expected = Tally {
            oversold: 2,
            leaked: 1,
            doubled: 2,
            coupons_doubled: 1,
            coupons_missing: 1,
            missing: 2,
            paid_and_closed: 1,
        };
        assert_eq!(Tally::of(&findings, &orders, &answers), expected);
        assert_eq!(Tally::of(&Findings::default(), &[], &Answers::default()), Tally::default());
    }
}
