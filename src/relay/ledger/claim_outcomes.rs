//! The outcomes of an open claim, collected until all have arrived or the claim window is over.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::store::RowKey;
use crate::transport::{Outcome, TransportError};

/// Where an open claim's outcomes go. One wake-up for all rows, not one per row.
#[derive(Debug, Default)]
pub(crate) struct ClaimOutcomes {
    collected: Mutex<Collected>,
    complete: Notify,
}

/// What has arrived so far.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pending: usize,
    closed: bool,
    pub(crate) delivered: Vec<RowKey>,
    pub(crate) failed: Vec<(RowKey, TransportError)>,
    pub(crate) busy: Vec<RowKey>,
}

impl ClaimOutcomes {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Announces a row that is about to be handed to the transport.
    pub(crate) fn expect(&self) {
        self.lock().pending += 1;
    }

    /// Takes an outcome, or returns it if the claim is closed: an outcome may arrive after the close, and nobody would
    /// read it here again.
    pub(crate) fn push(&self, row: RowKey, outcome: Outcome) -> Result<(), Outcome> {
        let complete = {
            let mut collected = self.lock();
            if collected.closed {
                return Err(outcome);
            }
            match outcome {
                Outcome::Delivered => collected.delivered.push(row),
                Outcome::Busy => collected.busy.push(row),
                Outcome::Failed(error) => collected.failed.push((row, error)),
            }
            collected.pending = collected.pending.saturating_sub(1);
            collected.pending == 0
        };
        if complete {
            self.complete.notify_one();
        }
        Ok(())
    }

    /// Waits until every announced row has its outcome, or until `deadline`.
    pub(crate) async fn wait(&self, deadline: Instant) {
        let complete = async {
            while self.lock().pending > 0 {
                self.complete.notified().await;
            }
        };
        // The deadline is normal with a slow broker: rows without an outcome become leased.
        let _ = timeout_at(deadline, complete).await;
    }

    /// Takes what arrived since the last time.
    pub(crate) fn take(&self) -> Collected {
        self.empty(false)
    }

    /// Takes what arrived since the last time, and refuses everything from then on.
    pub(crate) fn close(&self) -> Collected {
        self.empty(true)
    }

    fn empty(&self, closed: bool) -> Collected {
        let mut collected = self.lock();
        let (pending, closed) = (collected.pending, collected.closed || closed);
        std::mem::replace(&mut *collected, Collected { pending, closed, ..Collected::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Collected> {
        self.collected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::MessageId;

    #[test]
    fn an_outcome_after_the_close_is_given_back() {
        let outcomes = ClaimOutcomes::new();
        let rows = [1, 2].map(|id| RowKey { id, message_id: MessageId::new() });
        rows.iter().for_each(|_| outcomes.expect());
        assert!(outcomes.push(rows[0], Outcome::Delivered).is_ok());
        assert_eq!(outcomes.close().delivered, [rows[0]]);
        assert!(matches!(outcomes.push(rows[1], Outcome::Delivered), Err(Outcome::Delivered)));
        assert!(outcomes.take().delivered.is_empty());
    }
}
