//! The end of a run: customers that were told to stop, and how everything is at rest.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::Failure;
use crate::domain::{OrderRow, OrderState};
use crate::reconcile::Findings;

/// How everything was when nothing was on its way any more, or at the deadline for that.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    /// After the end of the load.
    pub(crate) after: Duration,
    pub(crate) findings: Findings,
    /// Read after the comparison.
    pub(crate) orders: Vec<OrderRow>,
}

impl Quiet {
    /// Whether every place agrees, nothing is on its way, and every order has ended.
    pub(crate) fn is_quiet(&self) -> bool {
        self.findings.is_equal() && self.open().next().is_none()
    }

    /// Orders that are neither paid nor closed. After the load none may stay so.
    pub(crate) fn open(&self) -> impl Iterator<Item = &OrderRow> {
        self.orders.iter().filter(|row| row.state == OrderState::Created)
    }
}

/// Waits for customers that were told to stop, and ends those that do not.
///
/// # Errors
/// Returns an error if some did not end in time.
pub(crate) async fn join(customers: JoinSet<()>, within: Duration) -> Result<(), Failure> {
    let count = customers.len();
    match timeout(within, customers.join_all()).await {
        Ok(_) => Ok(()),
        Err(_) => {
            let text =
                format!("some of {count} customers have no lasting answer {within:?} after they were told to stop");
            Err(text.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconcile::Moving;

    fn row(state: OrderState) -> OrderRow {
        OrderRow::for_test("a", state, 1)
    }

    #[test]
    fn an_open_order_is_not_quiet() {
        let quiet = |state| Quiet { orders: vec![row(state)], ..Quiet::default() }.is_quiet();
        assert!(quiet(OrderState::Paid) && quiet(OrderState::Cancelled));
        assert!(!quiet(OrderState::Created));
    }

    #[test]
    fn what_is_on_its_way_is_not_quiet() {
        let findings = Findings { moving: vec![Moving::Loading { product_id: 1 }], ..Findings::default() };
        assert!(!Quiet { findings, ..Quiet::default() }.is_quiet());
    }

    #[tokio::test(start_paused = true)]
    async fn a_customer_that_never_ends_is_an_error() {
        let mut customers = JoinSet::new();
        customers.spawn(async {});
        customers.spawn(std::future::pending());
        let error = join(customers, Duration::from_secs(60)).await.expect_err("one never ends");
        assert!(error.to_string().contains("some of 2 customers"), "{error}");
        let mut customers = JoinSet::new();
        customers.spawn(async {});
        join(customers, Duration::from_secs(60)).await.expect("it ends");
    }
}
