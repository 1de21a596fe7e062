//! The queue between the commit hook and the relay: bounded, and the only thing that enqueue and engine share.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use ::metrics::Gauge;
use async_trait::async_trait;
use tokio::sync::Notify;

use crate::clock::{BootInstant, Clock};
use crate::metrics;
use crate::relay::ledger::deferred::DeferredRows;
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
    /// Bytes of payload, key and headers: a confirm reads no more than there is room for.
    pub(crate) bytes: usize,
    /// Its lane, on an ordered topic: such a row wakes the owner of that, who finds its place among the others.
    pub(crate) lane: Option<u16>,
    /// When it is due, of a delayed message, not later than the database will say: such a row only wakes the poller.
    pub(crate) due_at: Option<BootInstant>,
    /// The row itself: handed over with it, its commit is verified and it need not be read.
    pub(crate) inline: Option<Box<InlineRow>>,
}

/// A row whose commit is verified, or may yet be.
#[derive(Debug)]
pub(crate) struct InlineRow {
    pub(crate) row: Row,
    /// The relay's clock ([`Link::now`]) before the INSERT was sent: the born lease counts from here.
    pub(crate) inserted_at: BootInstant,
    /// The same clock when COMMIT was to be sent, where the relay was told so: what was committed before the INSERT, a look since then
    /// has seen.
    pub(crate) announced_at: Option<BootInstant>,
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
    connected: RwLock<Option<Connected>>,
}

#[derive(Debug, Clone)]
struct Connected {
    queues: Arc<Queues>,
    relay: Arc<dyn RelayHandle>,
}

/// What an outbox may ask of its relay.
#[async_trait]
pub(crate) trait RelayHandle: fmt::Debug + Send + Sync {
    /// Waits until everything handed over has been settled, at most `within`; says whether it has.
    async fn flush(&self, within: Duration) -> bool;

    /// A row is about to be committed to a lane, or perhaps not. Never waits.
    fn committing_to_lane(&self, topic: &str, lane: u16);

    /// A row was committed to a lane. Never waits.
    fn committed_to_lane(&self, topic: &str, lane: u16, id: Option<i64>, inline: Option<Box<InlineRow>>);

    /// A delayed message was committed that is due at `due_at`. Never waits.
    fn committed_delayed(&self, due_at: BootInstant);

    /// Something may be due, or at the tail of a lane, that nobody handed over. Never waits.
    fn poll_now(&self);
}

impl Link {
    /// Connects a starting relay; `false` where one is connected already.
    pub(crate) fn connect(&self, queues: Queues, relay: Arc<dyn RelayHandle>) -> bool {
        let mut slot = self.connected.write().unwrap_or_else(PoisonError::into_inner);
        let free = slot.is_none();
        if free {
            *slot = Some(Connected { queues: Arc::new(queues), relay });
        }
        free
    }

    /// Disconnects the relay: from now on rows are born due, for others to take.
    pub(crate) fn disconnect(&self) {
        *self.connected.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Waits until everything handed over has been settled, at most `within`; says whether it has. Without a relay there
    /// is nothing to wait for.
    pub(crate) async fn flush(&self, within: Duration) -> bool {
        let connected = self.connected();
        match connected {
            Some(connected) => connected.relay.flush(within).await,
            None => true,
        }
    }

    /// Tells the relay that COMMIT is being sent for such a row, where it comes along; see [`InlineRow::announced_at`].
    pub(crate) fn announce(&self, row: &mut HandedOver) {
        let (Some(lane), Some(inline), Some(connected)) = (row.lane, &mut row.inline, self.connected()) else {
            return;
        };
        inline.announced_at = Some(connected.queues.first.clock.now());
        connected.relay.committing_to_lane(&row.topic, lane);
    }

    /// Hands rows to the relay. Never waits, never panics; what does not fit is the sweeper's, and counted.
    pub(crate) fn hand_over(&self, rows: Vec<HandedOver>) {
        let Some(connected) = self.connected() else { return count_lost(rows.len(), "no_relay") };
        let is_for_the_queue = |row: HandedOver| match (row.lane, row.due_at) {
            (Some(lane), _) => {
                connected.relay.committed_to_lane(&row.topic, lane, row.row.id, row.inline);
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

    /// Something may be to be sent that nobody handed over.
    pub(crate) fn wake(&self) {
        if let Some(connected) = self.connected() {
            connected.relay.poll_now();
        }
    }

    /// The relay's clock; `None` where no relay runs.
    pub(crate) fn now(&self) -> Option<BootInstant> {
        self.connected().map(|connected| connected.queues.first.clock.now())
    }

    fn connected(&self) -> Option<Connected> {
        self.connected.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The queues into a relay: one for each transport, so that none fills up for another.
#[derive(Debug)]
pub(crate) struct Queues {
    /// Takes what is of no other's topics.
    first: Arc<Queue>,
    others: Vec<Arc<Queue>>,
    /// By topic, the place among the others.
    places: HashMap<Arc<str>, usize>,
}

impl Queues {
    pub(crate) fn new(first: Arc<Queue>) -> Self {
        Self { first, others: Vec::new(), places: HashMap::new() }
    }

    /// Another queue, for these topics.
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
    /// Of what was handed over and never got as far as the ledger.
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
            count_lost(count.saturating_sub(room), "queue_full");
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

    /// Takes what is there, oldest first: at most `rows_max` rows, and no row after the first beyond `bytes_max`.
    ///
    /// Rows that waited for half their staleness are dropped and counted: by the time they were confirmed and sent the
    /// sweeper might have them.
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
        count_lost(stale.len(), "stale");
        // Under the lock: who finds the queue empty finds them.
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

/// Counts rows that the sweeper will have to find.
pub(crate) fn count_lost(rows: usize, reason: &'static str) {
    if rows > 0 {
        ::metrics::counter!(metrics::HOOK_LOST, "reason" => reason).increment(rows as u64);
    }
}

#[cfg(test)]
mod tests;
