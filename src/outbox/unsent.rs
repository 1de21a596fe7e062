//! Notices that nobody sends the enqueued messages: this process has run no relay, and a sample message stays in its table.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::enqueue::Inserted;
use crate::enqueue::encode::Encoded;
use crate::events::log_event;
use crate::limits::{UNSENT_AFTER, UNSENT_CHECK_INTERVAL};
use crate::message::Delivery;
use crate::store::RowRef;

/// Keeps one enqueued message as the sample. A later enqueue checks whether the sample is still in the table. At most one enqueue a
/// minute does so, which costs it one more statement.
#[derive(Debug, Default)]
pub(super) struct UnsentCheck {
    /// Whether the warning was logged, or the check is impossible.
    is_over: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sample: Option<Sample>,
    /// When the last sample was checked.
    checked_at: Option<Instant>,
}

#[derive(Debug, Clone)]
struct Sample {
    row: RowRef,
    topic: String,
    enqueued_at: Instant,
    connection: usize,
}

impl UnsentCheck {
    /// Returns the sample once it is old enough to be checked. The connection that wrote it may still have its transaction open;
    /// `may_check_own` says whether it can check its own row all the same.
    pub(super) fn due(&self, connection: usize, may_check_own: bool) -> Option<RowRef> {
        let mut state = self.state();
        let is_due =
            |of: &Sample| of.enqueued_at.elapsed() >= UNSENT_AFTER && (may_check_own || of.connection != connection);
        let due = state.sample.as_ref().filter(|of| is_due(of)).map(|of| of.row);
        if due.is_some() {
            // Other enqueues need not check it at the same time.
            state.checked_at = Some(Instant::now());
        }
        due
    }

    pub(super) fn note(&self, rows: &[Encoded], inserted: &[Inserted], connection: usize) {
        let mut state = self.state();
        let was_just_checked = state.checked_at.is_some_and(|at| at.elapsed() < UNSENT_CHECK_INTERVAL);
        if state.sample.is_some() || was_just_checked {
            return;
        }
        let mut both = rows.iter().zip(inserted);
        state.sample = both.find(|(row, _)| row.delivery == Delivery::Now).map(|(row, inserted)| Sample {
            row: RowRef { id: inserted.id, message_id: row.message_id },
            topic: row.topic.to_string(),
            enqueued_at: Instant::now(),
            connection,
        });
    }

    pub(super) fn found(&self, is_still_there: bool) {
        let Some(sample) = self.state().sample.take() else { return };
        if is_still_there && !self.is_over.swap(true, Ordering::Relaxed) {
            log_event!(NO_RELAY, message_id = %sample.row.message_id, topic = sample.topic, waiting = ?sample.enqueued_at.elapsed());
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Stops checking.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Identifies a connection while it is not moved. A connection with an open transaction is not.
pub(super) fn address_of<C>(conn: &C) -> usize {
    std::ptr::from_ref(conn).addr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::MessageId;

    #[test]
    fn a_sample_is_checked_once_it_is_old_and_by_another_connection() {
        let unsent = UnsentCheck::default();
        assert!(unsent.due(1, true).is_none());
        let enqueued_at = Instant::now();
        let row = RowRef { id: Some(1), message_id: MessageId::new() };
        let sample = Sample { row, topic: "orders".to_owned(), enqueued_at, connection: 1 };
        unsent.state().sample = Some(sample.clone());
        assert!(unsent.due(2, true).is_none(), "too young");
        let Some(long_ago) = enqueued_at.checked_sub(UNSENT_AFTER) else { return };
        unsent.state().sample = Some(Sample { enqueued_at: long_ago, ..sample });
        assert!(unsent.due(1, false).is_none(), "its own transaction may still be open");
        assert!(unsent.due(1, true).is_some() && unsent.due(2, false).is_some());
        unsent.found(false);
        assert!(!unsent.is_over() && unsent.due(2, true).is_none());
    }
}
