use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::MemoryStore;
use super::faults::Call;
use super::state::{HeldBy, Settled, State};
use crate::clock::{BootInstant, Clock, SystemClock};
use crate::limits::STATEMENT_TIMEOUT;
use crate::naming::TableNames;
use crate::retention::Keep;
use crate::store::{
    AdminStore, AuditStore, Claim, ClaimHandle, ClaimSpec, Closed, Confirmed, Failed, Held, HistoryStore, LaneStore,
    Locking, NewDeadLetter, PollFrom, PollResult, PollSpec, RowKey, RowRef, Store, StoreError, StoreWarning,
    TopicBacklog,
};

impl MemoryStore {
    /// Runs one statement: counts the call, and applies its injected fault.
    pub(super) async fn call<T>(&self, call: Call, statement: impl FnOnce(&mut State) -> T) -> Result<T, StoreError> {
        // A store that never yields would hide what the engine does between a statement and its answer.
        tokio::task::yield_now().await;
        let (slow_by, lost_response) = self.faults().next_fault(call)?;
        if !slow_by.is_zero() {
            tokio::time::sleep(slow_by).await;
        }
        let result = statement(&mut self.state());
        lost_response.map_or(Ok(result), Err)
    }

    /// Settles the free rows, and then the locked ones as they become free.
    pub(super) async fn settle_waiting<T>(
        &self,
        rows: &[T],
        key: impl Fn(&T) -> RowKey + Send + Sync,
        settle: impl Fn(&mut State, &[T]) -> Settled + Send + Sync,
    ) -> Result<Vec<RowKey>, StoreError>
    where
        T: Copy + Send + Sync,
    {
        let timeout = STATEMENT_TIMEOUT;
        let deadline = Instant::now() + timeout;
        let mut changed = self.inner.changed.notified();
        let mut settled = self.call(Call::Settle, |state| settle(state, rows)).await?;
        while !settled.skipped.is_empty() {
            if Instant::now() >= deadline {
                return Err(StoreError::TimedOut { after: timeout });
            }
            let next_end = self.state().next_end_in().unwrap_or(timeout);
            let wake_at = deadline.min(Instant::now() + next_end);
            // Notified or not, the next turn checks: a session can also end by the clock.
            let _ = tokio::time::timeout_at(wake_at, changed).await;
            changed = self.inner.changed.notified();
            let locked: Vec<T> = rows.iter().filter(|row| settled.skipped.contains(&key(row))).copied().collect();
            let now_free = settle(&mut self.state(), &locked);
            settled.removed.extend(now_free.removed);
            settled.skipped = now_free.skipped;
        }
        Ok(settled.removed)
    }
}

/// The machine's clock when a relay was built, and from then on tokio's.
#[derive(Debug)]
struct TokioClock {
    began_at: BootInstant,
    began: Instant,
}

impl Clock for TokioClock {
    fn now(&self) -> BootInstant {
        self.began_at + self.began.elapsed()
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn name(&self) -> &'static str {
        "memory"
    }

    /// There is one outbox, whatever its names.
    fn use_tables(&mut self, _names: &TableNames) {}

    async fn check(&self) -> Result<Vec<StoreWarning>, StoreError> {
        self.call(Call::Check, |_| Vec::new()).await
    }

    /// It follows tokio's time, as the store's own does, so that an application's tests can pause and advance both.
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(TokioClock { began_at: SystemClock.now(), began: Instant::now() })
    }

    async fn confirm(&self, refs: &[RowRef]) -> Result<Vec<Confirmed>, StoreError> {
        self.call(Call::Confirm, |state| state.confirm(refs)).await
    }

    async fn remaining(&self, refs: &[RowRef]) -> Result<Vec<RowKey>, StoreError> {
        self.call(Call::Remaining, |state| state.found(refs).map(|row| row.key).collect()).await
    }

    async fn claim(&self, spec: &ClaimSpec) -> Result<Claim, StoreError> {
        let mode = self.inner.mode;
        let taken = self.call(Call::Claim, |state| state.claim(spec, mode)).await?;
        let lease_duration = spec.lease_duration;
        let handle = MemoryClaim { held_by: taken.held_by, lease_duration, keep: spec.keep, store: self.clone() };
        let watermark = Some(taken.watermark);
        let (reached, found_all) = (taken.reached, taken.found_all);
        Ok(Claim { rows: taken.rows, mode, watermark, reached, found_all, handle: Box::new(handle) })
    }

    async fn settle(&self, rows: &[RowKey], locking: Locking) -> Result<Vec<RowKey>, StoreError> {
        match locking {
            Locking::Skip => self.call(Call::Settle, |state| state.settle(rows).removed).await,
            Locking::Wait => self.settle_waiting(rows, |row| *row, |state, rows| state.settle(rows)).await,
        }
    }

    async fn settle_dead_letters(&self, rows: &[RowKey]) -> Result<usize, StoreError> {
        self.call(Call::SettleDeadLetters, |state| state.settle_dead_letters(rows)).await
    }

    async fn extend(&self, held: &[Held], lease: Duration) -> Result<Vec<RowKey>, StoreError> {
        self.call(Call::Extend, |state| state.extend(held, lease)).await
    }

    async fn fail(&self, failed: &[Failed]) -> Result<Vec<RowKey>, StoreError> {
        self.call(Call::Fail, |state| state.fail(failed)).await
    }

    async fn dead_letter(&self, dead: &[NewDeadLetter]) -> Result<Vec<RowKey>, StoreError> {
        self.call(Call::DeadLetter, |state| state.dead_letter(dead)).await
    }

    async fn poll(&self, spec: &PollSpec) -> Result<PollResult, StoreError> {
        if spec.topics.iter().any(|at| at.from == PollFrom::Beginning) {
            self.call(Call::FullScan, |_| ()).await?;
        }
        self.call(Call::Poll, |state| state.poll(spec)).await
    }

    async fn backlog(&self, count_max: usize) -> Result<Vec<TopicBacklog>, StoreError> {
        self.call(Call::Backlog, |state| state.backlog(count_max)).await
    }

    fn lanes(&self) -> &dyn LaneStore {
        self
    }

    fn history(&self) -> &dyn HistoryStore {
        self
    }

    fn admin(&self) -> Option<&dyn AdminStore> {
        Some(self)
    }

    fn audit(&self) -> Option<&dyn AuditStore> {
        Some(self)
    }
}

/// An open claim of a [`MemoryStore`].
#[derive(Debug)]
pub struct MemoryClaim {
    held_by: HeldBy,
    lease_duration: Duration,
    keep: Option<Keep>,
    store: MemoryStore,
}

#[async_trait]
impl ClaimHandle for MemoryClaim {
    async fn close(self: Box<Self>, delivered: &[RowKey], held: &[RowKey]) -> Result<Closed, StoreError> {
        let close = |state: &mut State| state.close(&self.held_by, delivered, held, self.lease_duration, self.keep);
        let closed = self.store.call(Call::Close, close).await?;
        self.store.inner.changed.notify_waiters();
        closed.map_err(|gone| StoreError::Unreachable(Box::new(gone)))
    }
}

impl Drop for MemoryClaim {
    fn drop(&mut self) {
        if let HeldBy::Session(session) = self.held_by {
            self.store.end(session);
        }
    }
}
