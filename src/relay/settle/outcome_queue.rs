//! The settler's outcome queue: outcomes of leased rows, grouped while earlier batches are being written.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use crate::store::RowKey;
use crate::transport::Outcome;

/// Bounded by the rows in flight: each entry of the ledger is here at most once.
#[derive(Debug, Default)]
pub(crate) struct OutcomeQueue {
    outcomes: Mutex<VecDeque<(RowKey, Outcome)>>,
    arrived: Notify,
    /// One worker collects while the others write: two that linger in parallel would halve the batches.
    collector: tokio::sync::Mutex<()>,
}

impl OutcomeQueue {
    pub(crate) fn push(&self, row: RowKey, outcome: Outcome) {
        self.lock().push_back((row, outcome));
        self.arrived.notify_one();
    }

    pub(crate) fn extend(&self, outcomes: impl IntoIterator<Item = (RowKey, Outcome)>) {
        self.lock().extend(outcomes);
        self.arrived.notify_one();
    }

    /// Waits for an outcome, then lingers for more unless a full batch is there, and takes at most `max`.
    ///
    /// Cancel safe: outcomes are taken only when it returns.
    pub(crate) async fn take(&self, max: usize, linger: Duration) -> Vec<(RowKey, Outcome)> {
        let _collector = self.collector.lock().await;
        loop {
            let arrived = self.arrived.notified();
            let waiting = self.lock().len();
            if waiting == 0 {
                arrived.await;
                continue;
            }
            if waiting < max && !linger.is_zero() {
                sleep(linger).await;
            }
            let batch = self.try_take(max);
            if !batch.is_empty() {
                return batch;
            }
        }
    }

    fn try_take(&self, max: usize) -> Vec<(RowKey, Outcome)> {
        let mut outcomes = self.lock();
        let count = max.min(outcomes.len());
        outcomes.drain(..count).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(RowKey, Outcome)>> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
