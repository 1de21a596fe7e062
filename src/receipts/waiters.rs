use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use super::status::DeliveryStatus;
use crate::limits::RECEIPTS_MAX;
use crate::message::MessageId;

/// What the enqueuing and the waiting side share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Notify,
    changed_blocking: Condvar,
}

#[derive(Debug)]
pub(super) enum State {
    /// The transaction has not ended.
    Open,
    RolledBack,
    /// Committed, and among these waiters.
    Waiting(Arc<Waiters>),
    Answered(DeliveryStatus),
}

impl Shared {
    pub(super) fn new() -> Self {
        Self { state: Mutex::new(State::Open), changed: Notify::new(), changed_blocking: Condvar::new() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, state: State) {
        *self.state() = state;
        self.changed.notify_waiters();
        self.changed_blocking.notify_all();
    }

    fn answer(&self) -> Option<DeliveryStatus> {
        match &*self.state() {
            State::Answered(status) => Some(status.clone()),
            State::Open | State::RolledBack | State::Waiting(_) => None,
        }
    }

    pub(super) async fn answered(&self) -> DeliveryStatus {
        loop {
            let changed = self.changed.notified();
            if let Some(status) = self.answer() {
                return status;
            }
            changed.await;
        }
    }

    pub(super) fn answered_by(&self, ends_at: Instant) -> Option<DeliveryStatus> {
        let left = ends_at.saturating_duration_since(Instant::now());
        let is_open = |state: &mut State| !matches!(state, State::Answered(_));
        let waited = self.changed_blocking.wait_timeout_while(self.state(), left, is_open);
        match &*waited.unwrap_or_else(PoisonError::into_inner).0 {
            State::Answered(status) => Some(status.clone()),
            State::Open | State::RolledBack | State::Waiting(_) => None,
        }
    }
}

/// Travels with the message to its COMMIT. If it is dropped, the transaction was rolled back.
#[derive(Debug)]
pub(crate) struct Ticket(Option<Arc<Shared>>);

impl Ticket {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self(Some(shared))
    }

    /// The message is committed, and this process sends it.
    pub(crate) fn commit(mut self, message_id: MessageId, waiters: &Arc<Waiters>) {
        let Some(shared) = self.0.take() else { return };
        shared.set(State::Waiting(Arc::clone(waiters)));
        if let Err(shared) = waiters.add(message_id, shared) {
            shared.set(State::Answered(DeliveryStatus::Later));
        }
    }

    /// The message goes its way unseen, if it is committed.
    pub(crate) fn leave(mut self) {
        if let Some(shared) = self.0.take() {
            shared.set(State::Answered(DeliveryStatus::Elsewhere));
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.set(State::RolledBack);
        }
    }
}

/// Who waits for which message.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    waiting: Mutex<HashMap<MessageId, Waiter>>,
    /// Read for each outcome, so that it costs nothing where nobody waits.
    count: AtomicUsize,
}

#[derive(Debug)]
struct Waiter {
    shared: Arc<Shared>,
    /// Partition and offset, if the transport told them.
    place: (Option<i32>, Option<i64>),
}

impl Waiters {
    /// Adds one; gives it back if too many wait.
    fn add(&self, message_id: MessageId, shared: Arc<Shared>) -> Result<(), Arc<Shared>> {
        let mut waiting = self.waiting();
        if waiting.len() >= RECEIPTS_MAX {
            return Err(shared);
        }
        waiting.insert(message_id, Waiter { shared, place: (None, None) });
        self.count.store(waiting.len(), Ordering::Release);
        Ok(())
    }

    /// The broker stores the message there. Its outcome follows.
    pub(crate) fn note_place(&self, message_id: MessageId, partition: i32, offset: i64) {
        if self.is_empty() {
            return;
        }
        if let Some(waiter) = self.waiting().get_mut(&message_id) {
            waiter.place = (Some(partition), (offset >= 0).then_some(offset));
        }
    }

    pub(crate) fn acknowledge(&self, message_id: MessageId) {
        self.answer(message_id, |(partition, offset)| DeliveryStatus::Acknowledged { partition, offset });
    }

    pub(crate) fn dead(&self, message_id: MessageId, reason: &str) {
        self.answer(message_id, |_| DeliveryStatus::Dead { reason: reason.to_owned() });
    }

    /// Another process sends the message.
    pub(crate) fn elsewhere(&self, message_id: MessageId) {
        self.answer(message_id, |_| DeliveryStatus::Elsewhere);
    }

    /// Nobody waits for the message any more.
    pub(super) fn forget(&self, message_id: MessageId) {
        self.remove(message_id);
    }

    fn answer(&self, message_id: MessageId, status: impl FnOnce((Option<i32>, Option<i64>)) -> DeliveryStatus) {
        if self.is_empty() {
            return;
        }
        if let Some(Waiter { shared, place }) = self.remove(message_id) {
            shared.set(State::Answered(status(place)));
        }
    }

    fn remove(&self, message_id: MessageId) -> Option<Waiter> {
        let mut waiting = self.waiting();
        let removed = waiting.remove(&message_id);
        self.count.store(waiting.len(), Ordering::Release);
        removed
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<MessageId, Waiter>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::PendingReceipt;
    use super::*;

    #[test]
    fn a_receipt_is_answered_after_its_commit_only() {
        let waiters = Arc::new(Waiters::default());
        let id = MessageId::new();
        let (pending, ticket) = PendingReceipt::new(id);
        let open = pending.committed().unwrap_err();
        assert!(open.to_string().contains("still open"), "{open}");
        ticket.commit(id, &waiters);
        let receipt = open.receipt.committed().unwrap();
        assert_eq!(receipt.within_blocking(Duration::ZERO), DeliveryStatus::Later);
        waiters.note_place(id, 3, 42);
        waiters.acknowledge(id);
        let acknowledged = DeliveryStatus::Acknowledged { partition: Some(3), offset: Some(42) };
        assert_eq!(receipt.within_blocking(Duration::ZERO), acknowledged);
        assert!(waiters.is_empty());
    }

    #[test]
    fn a_rolled_back_message_has_no_receipt() {
        let (pending, ticket) = PendingReceipt::new(MessageId::new());
        drop(ticket);
        assert!(pending.committed().unwrap_err().to_string().contains("rolled back"));
    }

    #[test]
    fn a_dropped_receipt_is_forgotten_and_too_many_are_answered_at_once() {
        let waiters = Arc::new(Waiters::default());
        let add = || {
            let id = MessageId::new();
            let (pending, ticket) = PendingReceipt::new(id);
            ticket.commit(id, &waiters);
            pending.committed().unwrap()
        };
        let mut receipts: Vec<_> = (0..RECEIPTS_MAX).map(|_| add()).collect();
        assert_eq!(add().within_blocking(Duration::from_secs(60)), DeliveryStatus::Later);
        receipts.pop();
        assert_eq!(waiters.waiting().len(), RECEIPTS_MAX - 1);
        drop(receipts);
        assert!(waiters.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_with_the_answer() {
        let (waiters, id) = (Arc::new(Waiters::default()), MessageId::new());
        let (pending, ticket) = PendingReceipt::new(id);
        ticket.commit(id, &waiters);
        let receipt = pending.committed().unwrap();
        let waiting = tokio::spawn(async move { receipt.within(Duration::from_secs(60)).await });
        tokio::task::yield_now().await;
        waiters.dead(id, "refused: too large");
        assert_eq!(waiting.await.unwrap(), DeliveryStatus::Dead { reason: "refused: too large".to_owned() });
    }
}
