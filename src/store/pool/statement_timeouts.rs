//! When single statements get server time-outs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::limits::STATEMENT_TIMEOUT_CAUTION;
use crate::store::StoreError;

/// Remembers whether a call was abandoned recently. Statements then begin with time-outs.
#[derive(Debug)]
pub(super) struct TimeoutGuard {
    begin: Arc<str>,
    is_always_on: bool,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Whether no call has been answered yet. A process that restarts repeatedly while a table is locked abandons calls each time.
    Untested,
    Healthy,
    GuardedUntil(Instant),
}

impl TimeoutGuard {
    pub(super) fn new(begin: Arc<str>, is_always_on: bool) -> Self {
        Self { begin, is_always_on, state: Mutex::new(State::Untested) }
    }

    /// The text that begins a statement's transaction; `None` if it needs none.
    pub(super) fn begin(&self) -> Option<Arc<str>> {
        let is_due = self.is_always_on
            || match *self.state() {
                State::Untested => true,
                State::Healthy => false,
                State::GuardedUntil(end) => Instant::now() < end,
            };
        is_due.then(|| Arc::clone(&self.begin))
    }

    /// Records the result of a call.
    pub(super) fn record<T>(&self, result: &Result<T, StoreError>) {
        let is_guarded = self.begin().is_some();
        let mut state = self.state();
        match result {
            // This success may concern another table: the abandoned statement may still wait for its lock.
            Ok(_) if matches!(*state, State::Untested) => *state = State::Healthy,
            // A conflict is a deadlock or somebody's open transaction. In both cases the server has ended the statement.
            Err(StoreError::Conflict(_)) if !is_guarded => {}
            Err(StoreError::TimedOut { .. } | StoreError::Conflict(_)) => {
                *state = State::GuardedUntil(Instant::now() + STATEMENT_TIMEOUT_CAUTION);
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
    async fn statements_are_guarded_until_one_succeeds_and_after_a_timeout() {
        let guard = TimeoutGuard::new("BEGIN".into(), false);
        assert!(guard.begin().is_some(), "nothing was answered yet");
        guard.record(&Ok(()));
        assert!(guard.begin().is_none());
        guard.record::<()>(&Err(StoreError::Conflict("deadlock detected".into())));
        assert!(guard.begin().is_none(), "the server has ended it");
        guard.record::<()>(&Err(StoreError::TimedOut { after: Duration::from_secs(5) }));
        guard.record(&Ok(()));
        assert!(guard.begin().is_some(), "a statement about another table proves nothing");
        tokio::time::advance(STATEMENT_TIMEOUT_CAUTION).await;
        assert!(guard.begin().is_none());
    }

    #[test]
    fn it_can_be_always_on() {
        let guard = TimeoutGuard::new("BEGIN".into(), true);
        guard.record(&Ok(()));
        assert!(guard.begin().is_some());
    }
}
