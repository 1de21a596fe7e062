//! A store that tells what it was asked, and that can be kept from forgetting marks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use diesel_outbox::internals::store::{
    Claim, ClaimSpec, Confirmed, Decision, Failed, HalfStore, Held, HistoryStore, LaneStore, Locking, NewDeadLetter,
    PollResult, PollSpec, RowKey, RowRef, Store, StoreWarning, TopicBacklog,
};
use diesel_outbox::store::StoreError;
use diesel_outbox::{MessageId, TableNames};
use tokio::sync::Mutex;

/// What a test sees of a store.
#[derive(Debug, Default)]
pub(super) struct StoreProbe {
    /// How often somebody who asked had to be told "open".
    pub(super) open: AtomicUsize,
    /// How often marks were to be forgotten.
    pub(super) forgets: AtomicUsize,
    /// Nothing is forgotten while a test has it.
    pub(super) forgetting: Mutex<()>,
}

/// Half messages ask a store for nothing but its marks.
#[derive(Debug)]
pub(super) struct WatchedStore<S> {
    pub(super) store: S,
    pub(super) watch: Arc<StoreProbe>,
}

impl<S: Store> WatchedStore<S> {
    fn halves(&self) -> &dyn HalfStore {
        self.store.halves().unwrap()
    }
}

#[async_trait]
impl<S: Store> HalfStore for WatchedStore<S> {
    async fn check_marks(&self) -> Result<(), StoreError> {
        self.halves().check_marks().await
    }

    async fn marked(&self, messages: &[MessageId]) -> Result<Vec<MessageId>, StoreError> {
        self.halves().marked(messages).await
    }

    async fn decide(&self, message: MessageId, topic: &Arc<str>) -> Result<Decision, StoreError> {
        let decided = self.halves().decide(message, topic).await;
        if matches!(decided, Ok(Decision::Open)) {
            self.watch.open.fetch_add(1, Ordering::Relaxed);
        }
        decided
    }

    async fn remove_marks(&self, messages: &[MessageId]) -> Result<usize, StoreError> {
        self.watch.forgets.fetch_add(1, Ordering::Relaxed);
        let _may = self.watch.forgetting.lock().await;
        self.halves().remove_marks(messages).await
    }

    async fn prune_marks(&self, age: Duration, rows_max: usize) -> Result<usize, StoreError> {
        self.halves().prune_marks(age, rows_max).await
    }
}

#[async_trait]
impl<S: Store> Store for WatchedStore<S> {
    fn name(&self) -> &'static str {
        self.store.name()
    }

    fn use_tables(&mut self, names: &TableNames) {
        self.store.use_tables(names);
    }

    fn halves(&self) -> Option<&dyn HalfStore> {
        Some(self)
    }

    fn lanes(&self) -> &dyn LaneStore {
        self.store.lanes()
    }

    fn history(&self) -> &dyn HistoryStore {
        self.store.history()
    }

    async fn check(&self) -> Result<Vec<StoreWarning>, StoreError> {
        unreachable!("a relay does this")
    }

    async fn confirm(&self, _: &[RowRef]) -> Result<Vec<Confirmed>, StoreError> {
        unreachable!("a relay does this")
    }

    async fn remaining(&self, _: &[RowRef]) -> Result<Vec<RowKey>, StoreError> {
        unreachable!("a relay does this")
    }

    async fn claim(&self, _: &ClaimSpec) -> Result<Claim, StoreError> {
        unreachable!("a relay does this")
    }

    async fn settle(&self, _: &[RowKey], _: Locking) -> Result<Vec<RowKey>, StoreError> {
        unreachable!("a relay does this")
    }

    async fn settle_dead_letters(&self, _: &[RowKey]) -> Result<usize, StoreError> {
        unreachable!("a relay does this")
    }

    async fn extend(&self, _: &[Held], _: Duration) -> Result<Vec<RowKey>, StoreError> {
        unreachable!("a relay does this")
    }

    async fn fail(&self, _: &[Failed]) -> Result<Vec<RowKey>, StoreError> {
        unreachable!("a relay does this")
    }

    async fn dead_letter(&self, _: &[NewDeadLetter]) -> Result<Vec<RowKey>, StoreError> {
        unreachable!("a relay does this")
    }

    async fn poll(&self, _: &PollSpec) -> Result<PollResult, StoreError> {
        unreachable!("a relay does this")
    }

    async fn backlog(&self, _: usize) -> Result<Vec<TopicBacklog>, StoreError> {
        unreachable!("a relay does this")
    }
}
