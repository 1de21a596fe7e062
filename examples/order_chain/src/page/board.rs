//! What the page shows.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::Failure;
use crate::domain::OrderState;
use crate::load::told::Told;
use crate::reconcile::{Moving, Reconciler};
use crate::shop::orders::Orders;

/// Between two snapshots.
const INTERVAL: Duration = Duration::from_secs(1);
/// A snapshot reads every order. With many of them snapshots become rarer, so that they take a quarter of a processor at most.
const REST: u32 = 3;
/// Faults that are shown.
const FAULTS_MAX: usize = 14;

/// How everything is at a moment.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Snapshot {
    /// Since the start.
    pub seconds: f64,
    /// Since the last snapshot.
    pub orders_a_second: f64,
    /// Orders by state.
    pub states: BTreeMap<&'static str, u64>,
    /// The stock, by product.
    pub stock: Vec<Stock>,
    /// Orders whose state a service does not know yet, by service.
    pub behind: BTreeMap<&'static str, u64>,
    /// Reservations that are not settled.
    pub unsettled: u64,
    /// What is wrong.
    pub wrong: Vec<String>,
    /// The last faults, the newest first.
    pub faults: VecDeque<String>,
    /// A server is away, and the figures are of before.
    pub is_blind: bool,
}

/// The stock of a product.
#[derive(Debug, Clone, Default, Serialize)]
#[expect(missing_docs, reason = "they are those of `StockSum`")]
pub struct Stock {
    pub product_id: i64,
    pub available: i64,
    pub reserved: i64,
    pub locked: i64,
    pub sold: i64,
    pub total: i64,
}

/// The newest snapshot. A clone is the same.
#[derive(Clone)]
pub struct Board {
    newest: watch::Sender<Snapshot>,
    faults: Arc<Mutex<VecDeque<String>>>,
    began: Instant,
}

impl Default for Board {
    fn default() -> Self {
        Self { newest: watch::Sender::default(), faults: Arc::default(), began: Instant::now() }
    }
}

impl Board {
    /// Each snapshot from now on.
    pub fn snapshots(&self) -> watch::Receiver<Snapshot> {
        self.newest.subscribe()
    }

    /// Notes a fault.
    pub fn fault(&self, text: String) {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.push_front(format!("{:.0} s: {text}", self.began.elapsed().as_secs_f64()));
        faults.truncate(FAULTS_MAX);
    }

    /// Takes snapshots until it is dropped.
    pub async fn run(self, orders: Arc<dyn Orders>, reconciler: Reconciler, told: Arc<Told>) {
        let mut placed_before = (0, Instant::now());
        loop {
            let placed = told.answers().placed.len();
            let (since, of_interval) = (placed_before.1.elapsed(), placed - placed_before.0);
            let begins = Instant::now();
            placed_before = (placed, begins);
            let mut snapshot = match self.take(&*orders, &reconciler).await {
                Ok(snapshot) => snapshot,
                Err(_) => Snapshot { is_blind: true, ..self.newest.borrow().clone() },
            };
            snapshot.seconds = self.began.elapsed().as_secs_f64();
            snapshot.orders_a_second = f64::from(u32::try_from(of_interval).unwrap_or(u32::MAX)) / since.as_secs_f64();
            snapshot.faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner).clone();
            self.newest.send_replace(snapshot);
            sleep(INTERVAL.max(REST * begins.elapsed())).await;
        }
    }

    async fn take(&self, orders: &dyn Orders, reconciler: &Reconciler) -> Result<Snapshot, Failure> {
        let findings = reconciler.check().await?;
        let mut snapshot = Snapshot::default();
        for row in orders.all().await? {
            *snapshot.states.entry(row.state.text()).or_default() += 1;
        }
        for state in [OrderState::Created, OrderState::Paid, OrderState::Cancelled] {
            snapshot.states.entry(state.text()).or_default();
        }
        snapshot.behind.extend([("stock", 0), ("coupon", 0), ("points", 0)]);
        for moving in &findings.moving {
            match moving {
                Moving::Behind { service, .. } => *snapshot.behind.entry(service).or_default() += 1,
                _ => snapshot.unsettled += 1,
            }
        }
        let stock = findings.sums.iter().map(|sum| Stock {
            product_id: sum.product_id,
            available: sum.available,
            reserved: sum.reserved,
            locked: sum.locked,
            sold: sum.sold,
            total: sum.total,
        });
        snapshot.stock = stock.collect();
        snapshot.wrong = findings.wrong.iter().map(ToString::to_string).collect();
        Ok(snapshot)
    }
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board").field("newest", &*self.newest.borrow()).finish_non_exhaustive()
    }
}
