//! The settler's outcome queue: outcomes of leased rows, grouped while earlier batches are being written.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use crate::store::RowKey;
use crate::transport::{Outcome, TransportError};

/// The outcome of a leased row.
#[derive(Debug, Clone)]
pub(crate) enum Fate {
    Delivered,
    Failed(Arc<TransportError>),
    /// The client had no room: nothing happened, and nothing is written.
    Unsent,
}

impl From<Outcome> for Fate {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Delivered => Self::Delivered,
            Outcome::Busy => Self::Unsent,
            Outcome::Failed(error) => Self::Failed(Arc::new(error)),
        }
    }
}

/// Bounded by the rows in flight: each entry of the ledger is here at most once.
#[derive(Debug, Default)]
pub(crate) struct OutcomeQueue {
    outcomes: Mutex<VecDeque<(RowKey, Fate)>>,
    arrived: Notify,
    /// One worker collects while the others write: two that linger in parallel would halve the batches.
    collector: tokio::sync::Mutex<()>,
}

impl OutcomeQueue {
    pub(crate) fn push(&self, row: RowKey, outcome: Fate) {
        self.lock().push_back((row, outcome));
        self.arrived.notify_one();
    }

    pub(crate) fn extend(&self, outcomes: impl IntoIterator<Item = (RowKey, Fate)>) {
        self.lock().extend(outcomes);
        self.arrived.notify_one();
    }

    /// Waits for an outcome, then lingers for more unless a full batch is there, and takes at most `max`.
    ///
    /// Cancel safe: outcomes are taken only when it returns.
    pub(crate) async fn take(&self, max: usize, linger: Duration) -> Vec<(RowKey, Fate)> {
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

    fn try_take(&self, max: usize) -> Vec<(RowKey, Fate)> {
        let mut outcomes = self.lock();
        let count = max.min(outcomes.len());
        outcomes.drain(..count).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(RowKey, Fate)>> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
