//! What customers were told, and how long it took.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::domain::{OrderRow, OrderState};

/// What customers were told. The table must agree with every answer.
#[derive(Debug, Default)]
pub struct Told(Mutex<Answers>);

/// The answers so far.
#[derive(Debug, Default)]
pub struct Answers {
    /// Orders that were confirmed.
    pub placed: BTreeSet<String>,
    /// Payments that were confirmed.
    pub paid: BTreeSet<String>,
    /// Orders of which the customer was told that they are closed.
    pub closed: BTreeSet<String>,
    /// How often each status was the answer to POST /orders.
    pub statuses: BTreeMap<u16, u64>,
    /// Requests without an answer.
    pub unanswered: u64,
    /// How long POST /orders took that made an order.
    pub latencies: Vec<Duration>,
    /// Answers that no shop may give.
    pub absurd: Vec<String>,
}

impl Told {
    /// The answers so far.
    pub fn answers(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answers {
    /// Notes a confirmed order; with the time that it took, if the request made it.
    pub(super) fn placed(&mut self, order_id: &str, took: Option<Duration>) {
        self.placed.insert(order_id.to_owned());
        self.latencies.extend(took);
    }

    /// How the table differs from what customers were told.
    pub fn broken_promises(&self, orders: &[OrderRow]) -> Vec<String> {
        let states: BTreeMap<&str, OrderState> = orders.iter().map(|row| (row.order.id.as_str(), row.state)).collect();
        let mut broken = self.absurd.clone();
        let is = |id: &String| states.get(id.as_str()).copied();
        broken.extend(
            self.placed
                .iter()
                .filter(|id| is(id).is_none())
                .map(|id| format!("order {id} was confirmed, and is not there")),
        );
        let not_paid = self.paid.iter().filter(|id| is(id) != Some(OrderState::Paid));
        broken.extend(not_paid.map(|id| format!("the payment of order {id} was confirmed, and it is {:?}", is(id))));
        let not_closed = self.closed.iter().filter(|id| is(id) != Some(OrderState::Cancelled));
        broken.extend(not_closed.map(|id| format!("order {id} was said to be closed, and it is {:?}", is(id))));
        broken
    }

    /// A quantile of the latencies.
    pub fn latency(&mut self, of_hundred: usize) -> Duration {
        self.latencies.sort_unstable();
        let at = (self.latencies.len() * of_hundred / 100).min(self.latencies.len().saturating_sub(1));
        self.latencies.get(at).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Order;

    fn row(id: &str, state: OrderState) -> OrderRow {
        let order = Order {
            id: id.to_owned(),
            reservation_id: String::new(),
            customer_id: 1,
            product_id: 1,
            quantity: 1,
            coupon_id: None,
            total_cents: 1,
        };
        OrderRow { order, state, changed_at_ms: 0 }
    }

    #[test]
    fn every_broken_promise_is_found() {
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<BTreeSet<_>>();
        let answers = Answers {
            placed: ids(&["a", "b", "gone"]),
            paid: ids(&["a", "b"]),
            closed: ids(&["c", "d"]),
            ..Answers::default()
        };
        let orders = [
            row("a", OrderState::Paid),
            row("b", OrderState::Cancelled),
            row("c", OrderState::Cancelled),
            row("d", OrderState::Paid),
        ];
        let broken = answers.broken_promises(&orders);
        assert_eq!(broken.len(), 3, "{broken:?}");
        for (text, id) in broken.iter().zip(["gone", "b", "d"]) {
            assert!(text.contains(&format!("order {id} ")), "{text}");
        }
    }

    #[test]
    fn quantiles_are_of_the_sorted_latencies() {
        let latencies = (0..100).rev().map(Duration::from_millis).collect();
        let mut answers = Answers { latencies, ..Answers::default() };
        assert_eq!(answers.latency(50), Duration::from_millis(50));
        assert_eq!(answers.latency(99), Duration::from_millis(99));
        assert_eq!(Answers::default().latency(50), Duration::ZERO);
    }
}
