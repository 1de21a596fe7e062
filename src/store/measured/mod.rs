//! A store whose calls are timed and whose errors are counted.
//!
//! It times what a relay calls. What only [`Admin`](crate::admin::Admin) and half messages call goes straight through.

mod audit;
mod history;
mod lanes;
mod notices;
#[cfg(test)]
mod tests;
mod timer;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use self::timer::{Statement, Timer};
use super::{
    AdminStore, AuditStore, Claim, ClaimHandle, ClaimSpec, Closed, Confirmed, Failed, HalfStore, Held, HistoryStore,
    LaneStore, Locking, NewDeadLetter, NoticeStore, PollResult, PollSpec, RowKey, RowRef, Store, StoreError,
    StoreWarning, TooFewConnections, TopicBacklog,
};
use crate::clock::Clock;
use crate::naming::TableNames;
use crate::store::parked::ParkedStore;

/// A store with a timer around its calls.
pub(super) struct Measured {
    store: Box<dyn Store>,
    timer: Arc<Timer>,
}

impl Measured {
    pub(super) fn new(store: impl Store) -> Self {
        Self { timer: Arc::new(Timer::new(store.name())), store: Box::new(store) }
    }
}

impl fmt::Debug for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
impl Store for Measured {
    fn name(&self) -> &'static str {
        self.store.name()
    }

    fn use_tables(&mut self, names: &TableNames) {
        self.store.use_tables(names);
    }

    async fn check(&self) -> Result<Vec<StoreWarning>, StoreError> {
        self.timer.time(Statement::Check, self.store.check()).await
    }

    fn reserve_connections(&self, needed: usize, most: usize) -> Result<(), TooFewConnections> {
        self.store.reserve_connections(needed, most)
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.store.clock()
    }

    async fn confirm(&self, refs: &[RowRef]) -> Result<Vec<Confirmed>, StoreError> {
        self.timer.time(Statement::Confirm, self.store.confirm(refs)).await
    }

    async fn remaining(&self, refs: &[RowRef]) -> Result<Vec<RowKey>, StoreError> {
        self.timer.time(Statement::Remaining, self.store.remaining(refs)).await
    }

    async fn claim(&self, spec: &ClaimSpec) -> Result<Claim, StoreError> {
        let mut claim = self.timer.time(Statement::Claim, self.store.claim(spec)).await?;
        claim.handle = Box::new(MeasuredClaim { handle: claim.handle, timer: Arc::clone(&self.timer) });
        Ok(claim)
    }

    async fn settle(&self, rows: &[RowKey], locking: Locking) -> Result<Vec<RowKey>, StoreError> {
        self.timer.time(Statement::Settle, self.store.settle(rows, locking)).await
    }

    async fn flush_settled(&self) -> Result<(), StoreError> {
        self.timer.time(Statement::FlushSettled, self.store.flush_settled()).await
    }

    async fn settle_dead_letters(&self, rows: &[RowKey]) -> Result<usize, StoreError> {
        self.timer.time(Statement::SettleDeadLetters, self.store.settle_dead_letters(rows)).await
    }

    async fn extend(&self, held: &[Held], lease: Duration) -> Result<Vec<RowKey>, StoreError> {
        self.timer.time(Statement::Extend, self.store.extend(held, lease)).await
    }

    async fn fail(&self, failed: &[Failed]) -> Result<Vec<RowKey>, StoreError> {
        self.timer.time(Statement::Fail, self.store.fail(failed)).await
    }

    async fn dead_letter(&self, dead: &[NewDeadLetter]) -> Result<Vec<RowKey>, StoreError> {
        self.timer.time(Statement::DeadLetter, self.store.dead_letter(dead)).await
    }

    async fn poll(&self, spec: &PollSpec) -> Result<PollResult, StoreError> {
        self.timer.time(Statement::Poll, self.store.poll(spec)).await
    }

    async fn backlog(&self, count_max: usize) -> Result<Vec<TopicBacklog>, StoreError> {
        self.timer.time(Statement::Backlog, self.store.backlog(count_max)).await
    }

    fn lanes(&self) -> &dyn LaneStore {
        self
    }

    fn halves(&self) -> Option<&dyn HalfStore> {
        self.store.halves()
    }

    fn history(&self) -> &dyn HistoryStore {
        self
    }

    fn notices(&self) -> Option<&dyn NoticeStore> {
        self.store.notices().map(|_| self as &dyn NoticeStore)
    }

    fn admin(&self) -> Option<&dyn AdminStore> {
        self.store.admin()
    }

    fn parked(&self) -> Option<&dyn ParkedStore> {
        self.store.parked()
    }

    fn audit(&self) -> Option<&dyn AuditStore> {
        self.store.audit().map(|_| self as &dyn AuditStore)
    }
}

/// An open claim whose close is timed.
struct MeasuredClaim {
    handle: Box<dyn ClaimHandle>,
    timer: Arc<Timer>,
}

impl fmt::Debug for MeasuredClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(f)
    }
}

#[async_trait]
impl ClaimHandle for MeasuredClaim {
    async fn close(self: Box<Self>, delivered: &[RowKey], held: &[RowKey]) -> Result<Closed, StoreError> {
        let Self { handle, timer } = *self;
        timer.time(Statement::Close, handle.close(delivered, held)).await
    }
}
