//! What a run came to, in figures that the chain and the recipe both have.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::tally::Tally;
use crate::domain::{OrderRow, OrderState};
use crate::load::told::Answers;
use crate::reconcile::Findings;

/// What a run came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) orders: usize,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) oversold_units: i64,
    /// By which the cache differs from the orders.
    pub(crate) drift_units: i64,
    /// Changes of orders that never reached a service.
    pub(crate) missing: usize,
    /// Changes of orders that a service processed twice.
    pub(crate) doubled: usize,
    pub(crate) coupons_doubled: usize,
    pub(crate) paid_and_closed: usize,
    pub(crate) unknown_to_customer: usize,
}

impl Outcome {
    /// Of the chain.
    pub(crate) fn of_chain(findings: &Findings, orders: &[OrderRow], answers: &mut Answers) -> Self {
        let tally = Tally::of(findings, orders, answers);
        let orders: Vec<&OrderRow> = orders.iter().filter(|row| row.state != OrderState::Refused).collect();
        let count = |figure: i64| usize::try_from(figure).unwrap_or_default();
        Self {
            orders: orders.len(),
            p50: answers.latency(50),
            p99: answers.latency(99),
            oversold_units: tally.oversold,
            drift_units: findings.sums.iter().map(|sum| sum.difference().abs()).sum(),
            missing: count(tally.missing + tally.coupons_missing),
            doubled: findings.wrong.iter().filter(|wrong| wrong.is_of_processing_twice()).count(),
            coupons_doubled: count(tally.coupons_doubled),
            paid_and_closed: count(tally.paid_and_closed),
            unknown_to_customer: orders.iter().filter(|row| !answers.placed.contains(&row.order.id)).count(),
        }
    }

    fn figures(&self) -> [(&'static str, String); 10] {
        let millis = |duration: Duration| format!("{:.1} ms", duration.as_secs_f64() * 1_000.0);
        [
            ("orders", self.orders.to_string()),
            ("POST /orders: p50", millis(self.p50)),
            ("POST /orders: p99", millis(self.p99)),
            ("units oversold", self.oversold_units.to_string()),
            ("units by which the cache differs from the orders", self.drift_units.to_string()),
            ("messages that never reached a service", self.missing.to_string()),
            ("messages that a service processed twice", self.doubled.to_string()),
            ("coupons of several orders", self.coupons_doubled.to_string()),
            ("orders paid and closed at once", self.paid_and_closed.to_string()),
            ("orders that their customer was not told of", self.unknown_to_customer.to_string()),
        ]
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.figures().iter().try_for_each(|(name, figure)| writeln!(f, "{name}: {figure}"))
    }
}

/// The chain and the recipe, under the same faults at the same moments.
#[derive(Debug)]
pub(crate) struct SideBySide {
    pub(crate) seed: u64,
    pub(crate) load: Duration,
    /// How often each happened to each of them.
    pub(crate) faults: BTreeMap<String, u64>,
    pub(crate) chain: Outcome,
    pub(crate) taught: Outcome,
}

impl fmt::Display for SideBySide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count: u64 = self.faults.values().sum();
        writeln!(f, "\nseed {}, {:.0} s of load, {count} faults each", self.seed, self.load.as_secs_f64())?;
        for (fault, times) in &self.faults {
            writeln!(f, "  {fault}: {times} times")?;
        }
        writeln!(f, "{:<50} {:>12} {:>16}", "", "the chain", "as it is taught")?;
        for ((name, chain), (_, taught)) in self.chain.figures().iter().zip(self.taught.figures()) {
            writeln!(f, "{name:<50} {chain:>12} {taught:>16}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconcile::{Moving, StockSum, Wrong};

    fn row(id: &str, state: OrderState) -> OrderRow {
        OrderRow::for_test(id, state, 6)
    }

    #[test]
    fn the_chain_is_counted_in_the_figures_of_the_recipe() {
        let sum = StockSum { product_id: 1, available: 0, reserved: 0, locked: 0, sold: 12, total: 10 };
        let findings = Findings {
            sums: vec![sum],
            moving: vec![Moving::Behind { service: "points", order_id: "a".to_owned(), since_ms: 0 }],
            wrong: vec![
                Wrong::Points { customer_id: 1, booked: 2, of_orders: 1 },
                Wrong::CouponDoubled { coupon_id: 1, orders: 2 },
            ],
        };
        let rows = [row("a", OrderState::Paid), row("b", OrderState::Paid), row("c", OrderState::Refused)];
        let mut answers = Answers::default();
        answers.placed.insert("a".to_owned());
        let expected = Outcome {
            orders: 2,
            oversold_units: 2,
            drift_units: 2,
            missing: 1,
            doubled: 1,
            coupons_doubled: 1,
            unknown_to_customer: 1,
            ..Outcome::default()
        };
        assert_eq!(Outcome::of_chain(&findings, &rows, &mut answers), expected);
    }

    #[test]
    fn both_are_in_one_line_each() {
        let (chain, taught) =
            (Outcome { orders: 5, ..Outcome::default() }, Outcome { orders: 7, ..Outcome::default() });
        let faults = BTreeMap::from([("the relay was killed".to_owned(), 2)]);
        let text = SideBySide { seed: 1, load: Duration::from_secs(9), faults, chain, taught }.to_string();
        let line = text.lines().find(|line| line.starts_with("orders ")).expect("a line");
        assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["orders", "5", "7"]);
        assert!(text.contains("seed 1, 9 s of load, 2 faults each"), "{text}");
    }
}
