use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::status::DeliveryStatus;
use crate::limits::RECEIPTS_MAX;
use crate::message::MessageId;

/// What the enqueuing and the waiting side share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Notify,
    changed_blocking: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) commit: CommitState,
    status: Option<DeliveryStatus>,
    /// Where it is registered, from the INSERT on: the outcome may be there before the answer to COMMIT.
    waiters: Option<Arc<Waiters>>,
    /// Nobody waits any more.
    is_abandoned: bool,
}

/// What is known of the message's transaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum CommitState {
    #[default]
    Open,
    RolledBack,
    Committed,
    /// Its end cannot be seen.
    Unseen,
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, commit: CommitState) {
        self.state().commit = commit;
    }

    /// The first answer counts.
    fn answer(&self, status: DeliveryStatus) {
        self.state().status.get_or_insert(status);
        self.changed.notify_waiters();
        self.changed_blocking.notify_all();
    }

    /// Nobody waits any more.
    pub(super) fn abandon(&self, message_id: MessageId) {
        let mut state = self.state();
        state.is_abandoned = true;
        if let Some(waiters) = state.waiters.take() {
            waiters.remove(message_id);
        }
    }

    pub(super) async fn answered(&self) -> DeliveryStatus {
        loop {
            let changed = self.changed.notified();
            let status = self.state().status.clone();
            if let Some(status) = status {
                return status;
            }
            changed.await;
        }
    }

    /// Waits without end if `ends_at` is `None`.
    pub(super) fn answered_by(&self, ends_at: Option<Instant>) -> Option<DeliveryStatus> {
        let mut state = self.state();
        while state.status.is_none() {
            state = match ends_at.map(|ends_at| ends_at.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => return None,
                Some(left) => self.changed_blocking.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed_blocking.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
        state.status.clone()
    }
}

/// Travels with the message to its COMMIT.
#[derive(Debug)]
pub(crate) struct Ticket {
    message_id: MessageId,
    /// Taken once its end is known.
    shared: Option<Arc<Shared>>,
    /// Whether COMMIT may have been sent, so that to drop it says nothing.
    is_in_doubt: bool,
}

impl Ticket {
    pub(super) fn new(message_id: MessageId, shared: Arc<Shared>) -> Self {
        Self { message_id, shared: Some(shared), is_in_doubt: false }
    }

    /// The message is written, and this process will send it.
    pub(crate) fn register(&self, waiters: &Arc<Waiters>) {
        let Some(shared) = &self.shared else { return };
        let mut state = shared.state();
        if state.is_abandoned {
            return;
        }
        if waiters.add(self.message_id, shared) {
            state.waiters = Some(Arc::clone(waiters));
        } else {
            state.status.get_or_insert(DeliveryStatus::Later);
        }
    }

    /// Sets whether a drop says nothing, or that the transaction was rolled back.
    pub(crate) fn set_in_doubt(&mut self, is_in_doubt: bool) {
        self.is_in_doubt = is_in_doubt;
    }

    /// The message is committed.
    pub(crate) fn commit(mut self) {
        if let Some(shared) = self.shared.take() {
            shared.end(CommitState::Committed);
        }
    }

    /// The message goes its way unseen, if it is committed.
    pub(crate) fn leave(mut self) {
        if let Some(shared) = self.shared.take() {
            shared.end(CommitState::Unseen);
            shared.answer(DeliveryStatus::Elsewhere);
            shared.abandon(self.message_id);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let Some(shared) = self.shared.take() else { return };
        if self.is_in_doubt {
            shared.end(CommitState::Unseen);
            shared.answer(DeliveryStatus::Elsewhere);
        } else {
            shared.end(CommitState::RolledBack);
        }
        shared.abandon(self.message_id);
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
    /// Adds one; `false` if too many wait.
    fn add(&self, message_id: MessageId, shared: &Arc<Shared>) -> bool {
        let mut waiting = self.waiting();
        let has_room = waiting.len() < RECEIPTS_MAX;
        if has_room {
            waiting.insert(message_id, Waiter { shared: Arc::clone(shared), place: (None, None) });
            self.count.store(waiting.len(), Ordering::Release);
        }
        has_room
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

    /// This process sends nothing any more.
    pub(crate) fn all_elsewhere(&self) {
        let waiting = {
            let mut waiting = self.waiting();
            // Under the lock: whoever registers next counts itself.
            self.count.store(0, Ordering::Release);
            std::mem::take(&mut *waiting)
        };
        waiting.into_values().for_each(|waiter| waiter.shared.answer(DeliveryStatus::Elsewhere));
    }

    fn answer(&self, message_id: MessageId, status: impl FnOnce((Option<i32>, Option<i64>)) -> DeliveryStatus) {
        if self.is_empty() {
            return;
        }
        if let Some(Waiter { shared, place }) = self.remove(message_id) {
            shared.answer(status(place));
        }
    }

    fn remove(&self, message_id: MessageId) -> Option<Waiter> {
        let mut waiting = self.waiting();
        let removed = waiting.remove(&message_id);
        self.count.store(waiting.len(), Ordering::Release);
        removed
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<MessageId, Waiter>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::PendingReceipt;
    use super::*;

    #[test]
    fn a_receipt_is_answered_after_its_commit_only() {
        let waiters = Arc::new(Waiters::default());
        let id = MessageId::new();
        let (pending, ticket) = PendingReceipt::new(id);
        let open = pending.into_receipt().unwrap_err();
        assert!(open.to_string().contains("still open"), "{open}");
        ticket.register(&waiters);
        ticket.commit();
        let receipt = open.receipt.into_receipt().unwrap();
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
        assert!(pending.into_receipt().unwrap_err().to_string().contains("rolled back"));
    }

    #[test]
    fn a_message_whose_commit_is_in_doubt_is_not_called_rolled_back() {
        let waiters = Arc::new(Waiters::default());
        let (pending, mut ticket) = PendingReceipt::new(MessageId::new());
        ticket.register(&waiters);
        ticket.set_in_doubt(true);
        drop(ticket);
        let receipt = pending.into_receipt().unwrap();
        assert_eq!(receipt.within_blocking(Duration::MAX), DeliveryStatus::Elsewhere);
        assert!(waiters.is_empty());
    }

    #[test]
    fn an_outcome_before_the_answer_to_commit_is_kept() {
        let (waiters, id) = (Arc::new(Waiters::default()), MessageId::new());
        let (pending, ticket) = PendingReceipt::new(id);
        ticket.register(&waiters);
        waiters.acknowledge(id);
        ticket.commit();
        let status = pending.into_receipt().unwrap().within_blocking(Duration::ZERO);
        assert_eq!(status, DeliveryStatus::Acknowledged { partition: None, offset: None });
    }

    #[test]
    fn a_receipt_dropped_before_the_commit_is_not_waited_for() {
        let waiters = Arc::new(Waiters::default());
        for is_registered in [false, true] {
            let (pending, ticket) = PendingReceipt::new(MessageId::new());
            if is_registered {
                ticket.register(&waiters);
            }
            drop(pending);
            ticket.register(&waiters);
            ticket.commit();
            assert!(waiters.is_empty());
        }
    }

    #[test]
    fn a_dropped_receipt_is_forgotten_and_too_many_are_answered_at_once() {
        let waiters = Arc::new(Waiters::default());
        let add = || {
            let id = MessageId::new();
            let (pending, ticket) = PendingReceipt::new(id);
            ticket.register(&waiters);
            ticket.commit();
            pending.into_receipt().unwrap()
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
        ticket.register(&waiters);
        ticket.commit();
        let receipt = pending.into_receipt().unwrap();
        let waiting = tokio::spawn(async move { receipt.within(Duration::from_secs(60)).await });
        tokio::task::yield_now().await;
        waiters.dead(id, "refused: too large");
        assert_eq!(waiting.await.unwrap(), DeliveryStatus::Dead { reason: "refused: too large".to_owned() });
    }
}
