//! What the relay remembers of each topic between claims. Losing all of it does no harm.

pub(super) mod back_off;
pub(super) mod claim_cursor;
pub(super) mod claim_size;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::metrics::{Counter, Gauge};
use tokio::sync::Notify;

use self::back_off::BackOff;
use self::claim_cursor::{ClaimCursor, ClaimStart};
use self::claim_size::ClaimSize;
use super::health::counters::TopicCounters;
use super::health::gauges::Gauges;
use crate::clock::BootInstant;
use crate::events::log_event;
use crate::metrics;
use crate::store::{Claim, DueWatermark, PollRange};
use crate::topic::Topic;
use crate::transport::TransportError;

/// The configured topics, in the order they were configured.
#[derive(Debug)]
pub(crate) struct Topics {
    in_order: Vec<Arc<TopicState>>,
    by_name: HashMap<Arc<str>, Arc<TopicState>>,
}

impl Topics {
    pub(crate) fn new(topics: impl IntoIterator<Item = Topic>, gauges: &Gauges) -> Self {
        let in_order: Vec<_> =
            topics.into_iter().map(|topic| Arc::new(TopicState::new(topic, gauges.clone()))).collect();
        let by_name = in_order.iter().map(|state| (state.name(), Arc::clone(state))).collect();
        Self { in_order, by_name }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<TopicState>> {
        self.by_name.get(name)
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<TopicState>> {
        self.in_order.iter()
    }

    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        self.iter().map(|state| state.name()).collect()
    }

    /// Takes one topic with work, beginning behind the one at `turn`, so that a large backlog starves no other topic.
    pub(crate) fn next_due(&self, turn: &mut usize, now: BootInstant) -> Option<Arc<TopicState>> {
        let count = self.in_order.len();
        let found = (1..=count).map(|step| (*turn + step) % count).find(|&at| self.in_order[at].is_claimable(now))?;
        *turn = found;
        Some(Arc::clone(&self.in_order[found]))
    }
}

/// One topic.
#[derive(Debug)]
pub(crate) struct TopicState {
    /// As the application configured it.
    pub(crate) config: Topic,
    pub(crate) counters: TopicCounters,
    /// How often due rows were seen.
    seen_due: AtomicU64,
    /// The value of `seen_due` up to which nothing is left.
    swept_due: AtomicU64,
    gauges: Gauges,
    in_flight: AtomicUsize,
    emptied: Notify,
    /// Closed while a suspect is sent alone.
    gated: AtomicBool,
    /// On an ordered topic: the warning about messages without a lane was given.
    warned_of_unordered: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// `None` until the first poll.
    paused: Option<bool>,
    back_off: BackOff,
    claim_cursor: ClaimCursor,
    claim_size: ClaimSize,
}

/// Where a claim begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClaimFrom {
    pub(crate) start: ClaimStart,
    /// The value of `seen_due` when the claim began.
    seen_due: u64,
}

impl TopicState {
    pub(super) fn new(config: Topic, gauges: Gauges) -> Self {
        Self {
            counters: TopicCounters::new(&config.shared_name(), &config.shared_transport_name()),
            gauges,
            config,
            seen_due: AtomicU64::new(0),
            swept_due: AtomicU64::new(0),
            in_flight: AtomicUsize::new(0),
            emptied: Notify::new(),
            gated: AtomicBool::new(false),
            warned_of_unordered: AtomicBool::new(false),
            inner: Mutex::default(),
        }
    }

    pub(crate) fn name(&self) -> Arc<str> {
        self.config.shared_name()
    }

    /// Counts settled rows, where they are kept.
    pub(crate) fn kept(&self, rows: usize) {
        if self.config.keep().is_some() {
            self.counter(metrics::KEPT).increment(rows as u64);
        }
    }

    pub(crate) fn counter(&self, metric: &'static str) -> Counter {
        ::metrics::counter!(metric, "topic" => self.name(), "transport" => self.config.shared_transport_name())
    }

    pub(crate) fn gauge(&self, metric: &'static str) -> Gauge {
        self.gauges.of_topic(metric, &self.name(), &self.config.shared_transport_name())
    }

    /// Due rows were seen.
    pub(crate) fn note_due(&self) {
        self.seen_due.fetch_add(1, Ordering::AcqRel);
    }

    /// Warns once that the topic is ordered and has messages in no lane.
    pub(crate) fn warn_of_unordered(&self) {
        if !self.warned_of_unordered.swap(true, Ordering::AcqRel) {
            let topic = self.config.name();
            log_event!(ROWS_OUTSIDE_LANES, topic);
        }
    }

    /// Notes the range that a poll covered.
    pub(crate) fn note_poll(&self, range: &PollRange) {
        self.inner().claim_cursor.note_poll(range);
    }

    /// Where the next cheap poll begins; `None` before the first one.
    pub(crate) fn watermark(&self) -> Option<DueWatermark> {
        self.inner().claim_cursor.watermark()
    }

    fn is_swept(&self) -> bool {
        self.swept_due.load(Ordering::Acquire) >= self.seen_due()
    }

    fn seen_due(&self) -> u64 {
        self.seen_due.load(Ordering::Acquire)
    }

    /// A claim found all that was due when it began. It may have missed what was seen since.
    fn note_swept(&self, from: ClaimFrom) {
        self.swept_due.fetch_max(from.seen_due, Ordering::AcqRel);
    }

    fn is_claimable(&self, now: BootInstant) -> bool {
        !self.is_swept() && !self.is_gated() && self.may_begin(now)
    }

    /// Whether messages of the topic may be read in order to be sent.
    pub(crate) fn may_begin(&self, now: BootInstant) -> bool {
        let inner = self.inner();
        inner.paused == Some(false) && !inner.back_off.is_active(now)
    }

    /// Notes whether somebody has paused the topic. Returns whether it was paused and no longer is.
    pub(crate) fn set_paused(&self, is_paused: bool) -> bool {
        let before = self.inner().paused.replace(is_paused);
        self.gauge(metrics::TOPIC_PAUSED).set(f64::from(u8::from(is_paused)));
        let topic = self.config.name();
        match before {
            Some(true) if !is_paused => log_event!(TOPIC_RESUMED, topic),
            None | Some(false) if is_paused => log_event!(TOPIC_PAUSED, topic),
            _ => {}
        }
        before == Some(true) && !is_paused
    }

    /// Whether the topic is paused, or may be: before the first poll this is unknown.
    pub(crate) fn may_be_paused(&self) -> bool {
        self.inner().paused != Some(false)
    }

    /// Whether the last poll found it paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.inner().paused == Some(true)
    }

    /// Backs off from the topic for a while: the broker refuses it, or its receiver asked for a pause.
    pub(crate) fn back_off(&self, until: BootInstant, reason: &TransportError) {
        let requested = reason.retry_after();
        let first = self.inner().back_off.extend(until, requested.is_some());
        let topic = self.config.name();
        match requested {
            _ if !first => {}
            // It ends by itself: nobody needs to do anything.
            Some(wait) => {
                log_event!(TOPIC_BUSY, topic, %reason, ?wait)
            }
            None => log_event!(TOPIC_REFUSED, topic, %reason),
        }
        if requested.is_none() {
            self.gauge(metrics::TOPIC_BACKED_OFF).set(1.0);
        }
    }

    /// Whether the broker refused the topic and has accepted no message of it since.
    pub(crate) fn is_refused(&self) -> bool {
        self.inner().back_off.is_refusal()
    }

    /// Whether the topic was backed off and has accepted no message since: it is tried with one row at a time.
    pub(crate) fn is_on_trial(&self) -> bool {
        self.inner().back_off.is_on_trial()
    }

    /// The broker accepted a message: the topic is no longer refused. A pause that the receiver asked for goes on.
    pub(crate) fn accepted(&self, now: BootInstant) {
        if self.inner().back_off.accepted(now) {
            log_event!(TOPIC_ACCEPTED, topic = %self.config.name());
            self.gauge(metrics::TOPIC_BACKED_OFF).set(0.0);
        }
    }

    /// Keeps everybody else from sending to the topic; `false` if somebody else already does.
    fn close_gate(&self) -> bool {
        !self.gated.swap(true, Ordering::AcqRel)
    }

    fn open_gate(&self) {
        self.gated.store(false, Ordering::Release);
    }

    pub(crate) fn is_gated(&self) -> bool {
        self.gated.load(Ordering::Acquire)
    }

    pub(crate) fn sent(&self) {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn completed(&self) {
        let before = self.in_flight.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "an outcome without a send");
        if before == 1 {
            self.emptied.notify_waiters();
        }
    }

    /// Waits until nothing of the topic is in flight. Cancel safe.
    pub(crate) async fn wait_until_idle(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.in_flight() == 0 {
                return;
            }
            emptied.await;
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Where to claim from. A traversal lasts for `traversal_max` at most.
    pub(crate) fn claim_from(&self, now: BootInstant, traversal_max: Duration) -> ClaimFrom {
        let seen_due = self.seen_due();
        ClaimFrom { start: self.inner().claim_cursor.start(now, traversal_max), seen_due }
    }

    /// Notes the range of a claim of at most `rows_max` rows.
    pub(crate) fn note_range(&self, from: ClaimFrom, rows_max: usize, claim: &Claim, now: BootInstant) {
        let mut inner = self.inner();
        inner.claim_cursor.note(from.start, claim, now);
        if !claim.found_all {
            inner.claim_size.note_claimed(claim.rows.len(), rows_max);
        } else if !from.start.in_traversal {
            self.note_swept(from);
        }
    }

    pub(crate) fn claim_size(&self) -> ClaimSize {
        self.inner().claim_size
    }

    /// A claim of at most this many rows was read too late to send all of it. A smaller one follows at once; `false` if
    /// there is none.
    pub(crate) fn claimed_late(&self, rows_max: usize) -> bool {
        // A traversal would skip the rows that were not sent.
        self.inner().claim_cursor.stop();
        self.read_late(rows_max)
    }

    /// A read of at most this many rows took too long; `false` if nothing smaller is left.
    pub(crate) fn read_late(&self, rows_max: usize) -> bool {
        let mut inner = self.inner();
        let was_full_size = inner.claim_size.is_full_size();
        let shrinks = inner.claim_size.note_late(rows_max);
        drop(inner);
        if was_full_size && shrinks {
            let topic = self.config.name();
            log_event!(DATABASE_SLOW, topic, rows_max);
        }
        shrinks
    }

    /// Rows were read in `read`, within a lease of `lease`.
    pub(crate) fn read_in_time(&self, read: Duration, lease: Duration) {
        self.inner().claim_size.note_in_time(read, lease);
    }

    /// Ends the traversal: rows of a failed claim are below it, and above the watermark.
    pub(crate) fn stop_traversal(&self) {
        self.inner().claim_cursor.stop();
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A topic's closed gate; dropping it opens the gate.
#[derive(Debug)]
pub(crate) struct Gate<'a>(&'a TopicState);

impl<'a> Gate<'a> {
    pub(crate) fn close(topic: &'a TopicState) -> Option<Self> {
        topic.close_gate().then_some(Self(topic))
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        self.0.open_gate();
    }
}

#[cfg(test)]
mod tests;
