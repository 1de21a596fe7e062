//! When single statements get time-outs of the server's.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::limits::CAUTION_DURATION;
use crate::store::StoreError;

/// Whether a statement was given up not long ago, and how a statement begins then.
#[derive(Debug)]
pub(super) struct Caution {
    begin: Arc<str>,
    is_always_due: bool,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Nothing was answered yet. A process that is restarted again and again while a table is locked leaves each time what it has begun.
    Unproven,
    Trusting,
    CautiousUntil(Instant),
}

impl Caution {
    pub(super) fn new(begin: Arc<str>, is_always_due: bool) -> Self {
        Self { begin, is_always_due, state: Mutex::new(State::Unproven) }
    }

    /// The text that a statement's transaction begins with; `None` where it needs none.
    pub(super) fn begin(&self) -> Option<Arc<str>> {
        let is_due = self.is_always_due
            || match *self.state() {
                State::Unproven => true,
                State::Trusting => false,
                State::CautiousUntil(end) => Instant::now() < end,
            };
        is_due.then(|| Arc::clone(&self.begin))
    }

    /// Notes how a call went.
    pub(super) fn note<T>(&self, result: &Result<T, StoreError>) {
        let is_cautious = self.begin().is_some();
        let mut state = self.state();
        match result {
            // Of another table, perhaps: what was given up may still be locked.
            Ok(_) if matches!(*state, State::Unproven) => *state = State::Trusting,
            // A conflict by itself is a deadlock, or somebody's open transaction: the server has ended the statement.
            Err(StoreError::Conflict(_)) if !is_cautious => {}
            Err(StoreError::TimedOut { .. } | StoreError::Conflict(_)) => {
                *state = State::CautiousUntil(Instant::now() + CAUTION_DURATION);
            }
            Ok(_) | Err(_) => {}
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn statements_are_bounded_until_one_was_answered_and_for_a_while_after_one_was_given_up() {
        let caution = Caution::new("BEGIN".into(), false);
        assert!(caution.begin().is_some(), "nothing was answered yet");
        caution.note(&Ok(()));
        assert!(caution.begin().is_none());
        caution.note::<()>(&Err(StoreError::Conflict("deadlock detected".into())));
        assert!(caution.begin().is_none(), "the server has ended it");
        caution.note::<()>(&Err(StoreError::TimedOut { after: Duration::from_secs(5) }));
        caution.note(&Ok(()));
        assert!(caution.begin().is_some(), "an answer from another table is no sign");
        tokio::time::advance(CAUTION_DURATION).await;
        assert!(caution.begin().is_none());
    }

    #[test]
    fn it_can_be_due_always() {
        let caution = Caution::new("BEGIN".into(), true);
        caution.note(&Ok(()));
        assert!(caution.begin().is_some());
    }
}
