//! The bounded queue between the commit hook and the relay. It is all that enqueue and engine share.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use ::metrics::Gauge;
use async_trait::async_trait;
use tokio::sync::Notify;

use crate::clock::{BootInstant, Clock};
use crate::metrics;
use crate::receipts::Waiters;
use crate::relay::api::flush::FlushOutcome;
use crate::relay::ledger::deferred::DeferredRows;
use crate::store::{Row, RowRef};

/// A row that the hook, or an enqueue outside a transaction, hands to the relay.
#[derive(Debug)]
pub(crate) struct HandedOver {
    /// Where the row is.
    pub(crate) row: RowRef,
    /// Its topic.
    pub(crate) topic: Arc<str>,
    /// The topic's staleness at enqueue. After half of it in the queue, the row is left to the sweeper.
    pub(crate) staleness: Duration,
    /// Bytes of payload, key and headers: a confirm reads no more than there is room for.
    pub(crate) bytes: usize,
    /// Its lane, on an ordered topic. Such a row wakes the lane's owner, who puts it in order.
    pub(crate) lane: Option<u16>,
    /// When a delayed message is due, never later than by the database's clock. Such a row only wakes the poller.
    pub(crate) due_at: Option<BootInstant>,
    /// The row itself, if it is inline: its commit is verified, so it is not read.
    pub(crate) inline: Option<Box<InlineRow>>,
}

/// An inline row: its commit is verified, or may still be.
#[derive(Debug)]
pub(crate) struct InlineRow {
    pub(crate) row: Row,
    /// The relay's clock ([`Link::now`]) before the INSERT was sent. The born lease counts from here.
    pub(crate) inserted_at: BootInstant,
    /// The same clock just before COMMIT was sent, if the relay was told then. A lane read that began later sees
    /// everything that was committed before the INSERT.
    pub(crate) announced_at: Option<BootInstant>,
}

/// A handed-over row and when it arrived, which is the end of COMMIT.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) handed: HandedOver,
    pub(crate) committed_at: BootInstant,
}

/// What an outbox knows of its relay: whether one runs in this process, and the queues into it.
///
/// Shared by the outbox, the buffers of all hooks, and the relay; outlives each of them.
#[derive(Debug, Default)]
pub(crate) struct Link {
    connected: RwLock<Option<Connected>>,
    /// Whether a relay ran in this process, now or earlier.
    has_relayed: AtomicBool,
    /// Who waits for a message that this process sends.
    waiters: Arc<Waiters>,
}

#[derive(Debug, Clone)]
struct Connected {
    queues: Arc<Queues>,
    relay: Arc<dyn ConnectedRelay>,
}

/// What an outbox may ask of its relay.
#[async_trait]
pub(crate) trait ConnectedRelay: fmt::Debug + Send + Sync {
    /// Waits until everything handed over has been settled, at most `within`.
    async fn flush(&self, within: Duration) -> FlushOutcome;

    /// A row is about to be committed to a lane; the COMMIT may still fail. Never waits.
    fn committing_to_lane(&self, topic: &str, lane: u16);

    /// A row was committed to a lane. Never waits.
    fn committed_to_lane(&self, topic: &str, lane: u16, id: Option<i64>, inline: Option<Box<InlineRow>>);

    /// Whether this relay owns the lane. Waits for who uses the topic's lanes.
    fn owns_lane(&self, topic: &str, lane: u16) -> bool;

    /// A delayed message with this `due_at` was committed. Never waits.
    fn committed_delayed(&self, due_at: BootInstant);

    /// Rows may be due, or at the end of a lane, that nobody handed over. Never waits.
    fn poll_now(&self);
}

impl Link {
    /// Connects a starting relay; `false` if one is already connected.
    pub(crate) fn connect(&self, queues: Queues, relay: Arc<dyn ConnectedRelay>) -> bool {
        let mut slot = self.connected.write().unwrap_or_else(PoisonError::into_inner);
        let free = slot.is_none();
        if free {
            self.has_relayed.store(true, Ordering::Relaxed);
            *slot = Some(Connected { queues: Arc::new(queues), relay });
        }
        free
    }

    pub(crate) fn waiters(&self) -> &Arc<Waiters> {
        &self.waiters
    }

    /// Whether a relay runs in this process, or has.
    pub(crate) fn has_relayed(&self) -> bool {
        self.has_relayed.load(Ordering::Relaxed)
    }

    /// Disconnects the relay. From now on rows are written as due at once, for any relay to take.
    pub(crate) fn disconnect(&self) {
        *self.connected.write().unwrap_or_else(PoisonError::into_inner) = None;
        self.waiters.all_elsewhere();
    }

    /// Waits until everything handed over has been settled, for `within` at most. Without a relay there is nothing to
    /// wait for.
    pub(crate) async fn flush(&self, within: Duration) -> FlushOutcome {
        let connected = self.connected();
        match connected {
            Some(connected) => connected.relay.flush(within).await,
            None => FlushOutcome::NoRelay,
        }
    }

    /// Tells the relay that COMMIT is being sent for this row, if the row is inline; see [`InlineRow::announced_at`].
    pub(crate) fn announce(&self, row: &mut HandedOver) {
        let (Some(lane), Some(inline), Some(connected)) = (row.lane, &mut row.inline, self.connected()) else {
            return;
        };
        inline.announced_at = Some(connected.queues.first.clock.now());
        connected.relay.committing_to_lane(&row.topic, lane);
    }

    /// Hands rows to the relay. Never waits and never panics. Rows that do not fit are counted and left to the sweeper.
    pub(crate) fn hand_over(&self, rows: Vec<HandedOver>) {
        let Some(connected) = self.connected() else {
            rows.iter().for_each(|row| self.waiters.elsewhere(row.row.message_id));
            return count_left_to_sweeper(rows.len(), "no_relay");
        };
        let is_for_the_queue = |row: HandedOver| match (row.lane, row.due_at) {
            (Some(lane), _) => {
                connected.relay.committed_to_lane(&row.topic, lane, row.row.id, row.inline);
                if !self.waiters.is_empty() && !connected.relay.owns_lane(&row.topic, lane) {
                    self.waiters.elsewhere(row.row.message_id);
                }
                None
            }
            (None, Some(due_at)) => {
                connected.relay.committed_delayed(due_at);
                None
            }
            (None, None) => Some(row),
        };
        let rows: Vec<HandedOver> = rows.into_iter().filter_map(is_for_the_queue).collect();
        if !rows.is_empty() {
            connected.queues.push(rows);
        }
    }

    /// Rows may have to be sent that nobody handed over.
    pub(crate) fn wake(&self) {
        if let Some(connected) = self.connected() {
            connected.relay.poll_now();
        }
    }

    /// The relay's clock; `None` if no relay runs.
    pub(crate) fn now(&self) -> Option<BootInstant> {
        self.connected().map(|connected| connected.queues.first.clock.now())
    }

    fn connected(&self) -> Option<Connected> {
        self.connected.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The queues into a relay: one per transport, so that a full one does not block the others.
#[derive(Debug)]
pub(crate) struct Queues {
    /// Takes the rows of all topics that no other queue has.
    first: Arc<Queue>,
    others: Vec<Arc<Queue>>,
    /// For each topic, the index of its queue in the others.
    places: HashMap<Arc<str>, usize>,
}

impl Queues {
    pub(crate) fn new(first: Arc<Queue>) -> Self {
        Self { first, others: Vec::new(), places: HashMap::new() }
    }

    /// Adds a queue for these topics.
    pub(crate) fn with(mut self, queue: Arc<Queue>, topics: impl IntoIterator<Item = Arc<str>>) -> Self {
        let place = self.others.len();
        self.others.push(queue);
        self.places.extend(topics.into_iter().map(|topic| (topic, place)));
        self
    }

    fn push(&self, mut handed: Vec<HandedOver>) {
        for (place, queue) in self.others.iter().enumerate() {
            let own: Vec<_> = handed.extract_if(.., |row| self.places.get(&row.topic) == Some(&place)).collect();
            queue.push(own);
        }
        self.first.push(handed);
    }
}

/// One queue.
#[derive(Debug)]
pub(crate) struct Queue {
    rows: Mutex<VecDeque<Queued>>,
    capacity: usize,
    arrived: Notify,
    /// How many rows were handed over since the start.
    arrivals: AtomicU64,
    clock: Arc<dyn Clock>,
    depth: Gauge,
    /// Rows that were handed over and never reached the ledger.
    pub(crate) deferred: DeferredRows,
}

impl Queue {
    pub(crate) fn new(depth: Gauge, capacity: usize, clock: Arc<dyn Clock>) -> Self {
        let deferred = DeferredRows::new(capacity);
        Self {
            rows: Mutex::default(),
            capacity,
            arrived: Notify::new(),
            arrivals: AtomicU64::new(0),
            clock,
            depth,
            deferred,
        }
    }

    fn push(&self, handed: Vec<HandedOver>) {
        if handed.is_empty() {
            return;
        }
        let committed_at = self.clock.now();
        let count = handed.len();
        self.arrivals.fetch_add(count as u64, Ordering::Relaxed);
        let depth = {
            let mut rows = self.rows();
            let room = self.capacity.saturating_sub(rows.len());
            let mut handed = handed.into_iter();
            rows.extend(handed.by_ref().take(room).map(|handed| Queued { handed, committed_at }));
            self.deferred.add(handed.map(|handed| (handed.topic, handed.row)));
            count_left_to_sweeper(count.saturating_sub(room), "queue_full");
            rows.len()
        };
        self.depth.set(depth as f64);
        self.arrived.notify_one();
    }

    /// Waits until rows are there. Cancel safe.
    pub(crate) async fn wait_for_rows(&self) {
        loop {
            let arrived = self.arrived.notified();
            if self.len() > 0 {
                return;
            }
            arrived.await;
        }
    }

    /// Takes rows, oldest first: at most `rows_max`, and none beyond `bytes_max` but the first.
    ///
    /// Rows that waited for half their staleness are dropped and counted: the sweeper might have them by the time they
    /// are sent.
    pub(crate) fn try_take(&self, rows_max: usize, bytes_max: usize) -> Vec<Queued> {
        let now = self.clock.now();
        let (mut taken, mut bytes, mut stale) = (Vec::new(), 0_usize, Vec::new());
        let mut rows = self.rows();
        while let Some(row) = rows.front() {
            if taken.len() == rows_max || (!taken.is_empty() && bytes.saturating_add(row.handed.bytes) > bytes_max) {
                break;
            }
            let Some(row) = rows.pop_front() else { break };
            if now < row.committed_at + row.handed.staleness / 2 {
                bytes = bytes.saturating_add(row.handed.bytes);
                taken.push(row);
            } else {
                stale.push((row.handed.topic, row.handed.row));
            }
        }
        let depth = rows.len();
        count_left_to_sweeper(stale.len(), "stale");
        // Under the lock: whoever finds the queue empty also finds these.
        self.deferred.add(stale);
        drop(rows);
        self.depth.set(depth as f64);
        taken
    }

    /// How many rows were handed over since the start.
    pub(crate) fn arrivals(&self) -> u64 {
        self.arrivals.load(Ordering::Relaxed)
    }

    /// How many rows wait.
    pub(crate) fn len(&self) -> usize {
        self.rows().len()
    }

    fn rows(&self) -> MutexGuard<'_, VecDeque<Queued>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts rows that are left to the sweeper.
pub(crate) fn count_left_to_sweeper(rows: usize, reason: &'static str) {
    if rows > 0 {
        ::metrics::counter!(metrics::LEFT_TO_SWEEPER, "reason" => reason).increment(rows as u64);
    }
}

#[cfg(test)]
mod tests;
