//! The outcomes of an open claim, collected until all are there or the claim window is over.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::store::RowKey;
use crate::transport::{Outcome, TransportError};

/// Where an open claim's outcomes go. One wake-up for the whole batch, not one for each row.
#[derive(Debug, Default)]
pub(crate) struct BatchOutcomes {
    collected: Mutex<Collected>,
    complete: Notify,
}

/// What came so far.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    unanswered: usize,
    pub(crate) delivered: Vec<RowKey>,
    pub(crate) failed: Vec<(RowKey, TransportError)>,
    pub(crate) busy: Vec<RowKey>,
}

impl BatchOutcomes {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Announces a row that is about to be handed to the transport.
    pub(crate) fn expect(&self) {
        self.lock().unanswered += 1;
    }

    pub(crate) fn push(&self, row: RowKey, outcome: Outcome) {
        let complete = {
            let mut collected = self.lock();
            match outcome {
                Outcome::Delivered => collected.delivered.push(row),
                Outcome::Busy => collected.busy.push(row),
                Outcome::Failed(error) => collected.failed.push((row, error)),
            }
            collected.unanswered = collected.unanswered.saturating_sub(1);
            collected.unanswered == 0
        };
        if complete {
            self.complete.notify_one();
        }
    }

    /// Waits until every announced row has its outcome, or until `deadline`.
    pub(crate) async fn wait(&self, deadline: Instant) {
        let complete = async {
            while self.lock().unanswered > 0 {
                self.complete.notified().await;
            }
        };
        // The deadline is the expected end of a batch whose broker is slow; what is missing is held.
        let _ = timeout_at(deadline, complete).await;
    }

    /// Takes what came since the last time.
    pub(crate) fn take(&self) -> Collected {
        let mut collected = self.lock();
        let unanswered = collected.unanswered;
        std::mem::replace(&mut *collected, Collected { unanswered, ..Collected::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Collected> {
        self.collected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
