//! The queue between the commit hook and the relay: bounded, and the only thing that enqueue and engine share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::{BootInstant, Clock};
use crate::metrics;
use crate::store::{Row, RowRef};

/// A row that the hook, or an enqueue outside a transaction, hands to the relay.
#[derive(Debug)]
pub(crate) struct HandedOver {
    /// Where the row is.
    pub(crate) row: RowRef,
    /// Its topic.
    pub(crate) topic: Arc<str>,
    /// The topic's staleness when it was enqueued: after half of it in the queue the sweeper is the better way.
    pub(crate) staleness: Duration,
    /// The row itself, where its commit is proven already and it needs no confirm.
    pub(crate) carried: Option<Box<Carried>>,
}

/// A row whose commit is proven.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) row: Row,
    /// Until when it may be sent: boot clock before the INSERT, plus staleness, less the margin.
    pub(crate) term_ends_at: BootInstant,
}

/// A handed-over row with the moment it came, which is the end of COMMIT.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) handed: HandedOver,
    pub(crate) committed_at: BootInstant,
}

/// What an outbox knows of its relay: whether one runs in this process, and the queue into it.
///
/// Shared by the outbox, every hook's buffered refs, and the relay; outlives each of them.
#[derive(Debug, Default)]
pub(crate) struct Link {
    queue: RwLock<Option<Arc<Queue>>>,
}

impl Link {
    /// Connects a starting relay; `false` where one is connected already.
    pub(crate) fn connect(&self, queue: Arc<Queue>) -> bool {
        let mut slot = self.queue.write().unwrap_or_else(PoisonError::into_inner);
        let free = slot.is_none();
        if free {
            *slot = Some(queue);
        }
        free
    }

    /// Disconnects the relay: from now on rows are born due, for others to take.
    pub(crate) fn disconnect(&self) {
        *self.queue.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether a relay of this process takes what is handed over, so that a new row may be born leased.
    pub(crate) fn is_connected(&self) -> bool {
        self.queue().is_some()
    }

    /// Hands rows to the relay. Never waits, never panics; what does not fit is the sweeper's, and counted.
    pub(crate) fn hand_over(&self, rows: Vec<HandedOver>) {
        match self.queue() {
            Some(queue) => queue.push(rows),
            None => lost(rows.len(), "no_relay"),
        }
    }

    fn queue(&self) -> Option<Arc<Queue>> {
        self.queue.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The queue itself.
#[derive(Debug)]
pub(crate) struct Queue {
    rows: Mutex<VecDeque<Queued>>,
    capacity: usize,
    arrived: Notify,
    clock: Arc<dyn Clock>,
}

impl Queue {
    pub(crate) fn new(capacity: usize, clock: Arc<dyn Clock>) -> Self {
        Self { rows: Mutex::default(), capacity, arrived: Notify::new(), clock }
    }

    fn push(&self, handed: Vec<HandedOver>) {
        let committed_at = self.clock.now();
        let count = handed.len();
        let depth = {
            let mut rows = self.rows();
            let room = self.capacity.saturating_sub(rows.len());
            rows.extend(handed.into_iter().take(room).map(|handed| Queued { handed, committed_at }));
            lost(count.saturating_sub(room), "queue_full");
            rows.len()
        };
        ::metrics::gauge!(metrics::QUEUE_DEPTH).set(depth as f64);
        self.arrived.notify_one();
    }

    /// Waits for rows and takes up to `max` of them, oldest first. Rows that waited for half their staleness are dropped
    /// and counted: by the time they were confirmed and sent the sweeper might have them.
    ///
    /// Cancel safe: rows are taken only when it returns.
    pub(crate) async fn take(&self, max: usize) -> Vec<Queued> {
        loop {
            let arrived = self.arrived.notified();
            let taken = self.try_take(max);
            if !taken.is_empty() {
                return taken;
            }
            arrived.await;
        }
    }

    /// Takes what is there, at most `max` rows.
    pub(crate) fn try_take(&self, max: usize) -> Vec<Queued> {
        let mut taken: Vec<Queued> = {
            let mut rows = self.rows();
            let count = max.min(rows.len());
            rows.drain(..count).collect()
        };
        let now = self.clock.now();
        let before = taken.len();
        taken.retain(|row| now < row.committed_at + row.handed.staleness / 2);
        lost(before - taken.len(), "stale");
        taken
    }

    /// How many rows wait.
    pub(crate) fn len(&self) -> usize {
        self.rows().len()
    }

    fn rows(&self) -> MutexGuard<'_, VecDeque<Queued>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts rows that the sweeper will have to find.
pub(crate) fn lost(rows: usize, reason: &'static str) {
    if rows > 0 {
        ::metrics::counter!(metrics::HOOK_LOST, "reason" => reason).increment(rows as u64);
    }
}
