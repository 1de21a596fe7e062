//! What all tasks of one transport share, and where outcomes arrive.

pub(super) mod engines;
pub(super) mod failure_log;
pub(super) mod one_by_one;
pub(super) mod outgoing;
pub(super) mod rows;
pub(super) mod stop;
pub(super) mod store_call;
pub(super) mod supervised;
pub(super) mod task_health;
pub(super) mod wakeups;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use ::metrics::Gauge;
use tokio::time::{sleep, timeout};

use self::failure_log::FailureLog;
use self::one_by_one::OneByOne;
use self::rows::{Entry, Holder, Ledger};
use self::stop::{Stage, Stop};
use self::wakeups::Wakeups;
use super::dead_letter_callbacks::DeadLetterCallbacks;
use super::direct::queue::Queue;
use super::fingerprints::Fingerprints;
use super::health::breaker::Breaker;
use super::health::database_clock::DatabaseClock;
use super::lanes::ordered_topics::Lanes;
use super::settle::outcome_queue::OutcomeQueue;
use super::settle::unflushed::Unflushed;
use super::topics::Topics;
use crate::clock::{BootInstant, Clock};
use crate::crash_points::crash_point;
use crate::events::log_event;
use crate::injected_bugs::{InjectedBug, is_injected};
use crate::limits::{Limits, READ_RETRY_MAX, RETRY_AFTER_MAX};
use crate::message::MessageId;
use crate::panic_guard::catch_panic;
use crate::receipts::Waiters;
use crate::repeated::warn_once_a_minute;
use crate::store::{RowKey, Store};
use crate::transport::{FailureClass, Outcome, OutcomeSink, Transport};

#[derive(Debug)]
pub(crate) struct Engine {
    /// The name of the transport.
    pub(crate) name: Arc<str>,
    /// Identifies the outbox: its table of live messages, and the relay's name if the process has several.
    pub(crate) outbox: Arc<str>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) database_clock: Arc<DatabaseClock>,
    /// This transport's share of the relay's limits.
    pub(crate) limits: Limits,
    pub(crate) topics: Topics,
    pub(crate) lanes: Lanes,
    pub(crate) queue: Arc<Queue>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) breaker: Breaker,
    pub(crate) outcome_queue: OutcomeQueue,
    pub(crate) unflushed: Unflushed,
    pub(crate) stop: Arc<Stop>,
    pub(crate) wakeups: Arc<Wakeups>,
    pub(crate) dead_letter_callbacks: Arc<DeadLetterCallbacks>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) fingerprints: Arc<Fingerprints>,
    pub(crate) one_by_one: OneByOne,
    pub(crate) failure_log: FailureLog,
    pub(crate) oldest_in_flight: Gauge,
}

impl Engine {
    /// Whether everything handed over or claimed is done.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_drained() && self.lanes.is_idle()
    }

    /// Waits before a failed claim or read is repeated, or until the relay drains.
    pub(crate) async fn wait_after_failed_read(&self) {
        tokio::select! {
            () = sleep(self.limits.poll_interval.min(READ_RETRY_MAX)) => {}
            () = self.stop.reached(Stage::Draining) => {}
        }
    }

    /// Waits until nothing is left to do, including what was left to the sweepers, for `within` at most. Returns
    /// whether that is so.
    pub(crate) async fn flush(&self, within: Duration) -> bool {
        let settled = async {
            self.ledger.changed(|| self.is_idle()).await;
            while self.has_deferred().await {
                sleep(self.limits.poll_interval).await;
                self.ledger.changed(|| self.is_idle()).await;
            }
        };
        timeout(within, settled).await.is_ok()
    }

    /// Whether a row left to the sweepers still exists. Only the database knows: any process may have taken it.
    async fn has_deferred(&self) -> bool {
        for deferred in [&self.queue.deferred, &self.ledger.deferred] {
            let left = deferred.of(|topic| self.topics.get(topic).is_none_or(|topic| !topic.is_paused()));
            for refs in left.chunks(self.limits.settle_rows_max.max(1)) {
                let there = match self.store.remaining(refs).await {
                    Ok(there) => there,
                    Err(error) => {
                        warn_once_a_minute!(FLUSH_FAILED, self.failure_log.flush, error);
                        return true;
                    }
                };
                let mut gone: HashSet<MessageId> = refs.iter().map(|row| row.message_id).collect();
                for row in &there {
                    gone.remove(&row.message_id);
                }
                deferred.forget(&gone);
                if !there.is_empty() {
                    return true;
                }
            }
        }
        false
    }

    /// Whether everything taken is done. Rows that wait in lanes are left to the next owner.
    pub(crate) fn is_drained(&self) -> bool {
        self.queue.len() == 0 && self.ledger.is_idle() && self.outcome_queue.len() == 0
    }

    /// Applies an outcome to the state of its topic.
    fn note_in_topic(&self, entry: &Entry, outcome: &Outcome, now: BootInstant) {
        Self::count(entry, outcome, now);
        match outcome {
            Outcome::Delivered => entry.topic.accepted(now),
            Outcome::Failed(error) if error.class() == FailureClass::Topic => {
                let wait = error.retry_after().unwrap_or(self.limits.topic_back_off_duration).min(RETRY_AFTER_MAX);
                entry.topic.back_off(now + wait, error);
            }
            Outcome::Busy | Outcome::Failed(_) => {}
        }
    }

    fn count(entry: &Entry, outcome: &Outcome, now: BootInstant) {
        let (counters, took) = (&entry.topic.counters, entry.sent_at.until(now));
        match outcome {
            Outcome::Delivered => {
                counters.delivered(entry.path).increment(1);
                counters.totals.delivered.fetch_add(1, Relaxed);
                counters.timings.send(None).record(took.as_secs_f64());
                if let Some(committed_at) = entry.committed_at {
                    counters.commit_to_ack.record(committed_at.until(now).as_secs_f64());
                }
                if let Some(waited) = entry.waited {
                    counters.timings.enqueue_to_ack(entry.path).record((waited + took).as_secs_f64());
                }
            }
            Outcome::Busy => {}
            Outcome::Failed(error) => {
                let class = error.class();
                counters.totals.failed.fetch_add(1, Relaxed);
                counters.failed(class).increment(1);
                counters.timings.send(Some(class)).record(took.as_secs_f64());
            }
        }
    }
}

/// Receives outcomes on the transport's threads. Each goes to the row's holder, and topic and breaker learn from it at
/// once, whoever holds the row.
impl OutcomeSink for Engine {
    fn placed(&self, row: RowKey, partition: i32, offset: i64) {
        self.waiters.note_place(row.message_id, partition, offset);
    }

    fn complete(&self, row: RowKey, outcome: Outcome) {
        let outcome = match outcome {
            Outcome::Failed(error)
                if is_injected(InjectedBug::LostAckIsSent) && error.class() == FailureClass::Temporary =>
            {
                Outcome::Delivered
            }
            outcome => outcome,
        };
        if matches!(outcome, Outcome::Delivered) {
            crash_point!(ACKNOWLEDGED);
        }
        let now = self.clock.now();
        self.breaker.observe(&outcome, now);
        let Some(entry) = self.ledger.complete(row, matches!(outcome, Outcome::Delivered)) else {
            log_event!(OUTCOME_UNEXPECTED, ?row);
            return;
        };
        if matches!(outcome, Outcome::Delivered) {
            self.waiters.acknowledge(row.message_id);
        }
        // The error's text comes from the transport: a panic in it must not lose the outcome.
        catch_panic("outcome", &self.name, || self.note_in_topic(&entry, &outcome, now));
        match entry.holder {
            Holder::Claim(claim_outcomes) => {
                if let Err(late) = claim_outcomes.push(row, outcome) {
                    self.outcome_queue.push(row, late);
                }
            }
            Holder::Lane(in_flight) => {
                match &outcome {
                    // The acknowledgement is enough for the next row of the key; it need not wait for the settle.
                    Outcome::Delivered => in_flight.delivered(row),
                    Outcome::Busy => in_flight.failed(None, self.clock.now()),
                    Outcome::Failed(error) => in_flight.failed(Some(error.class()), self.clock.now()),
                }
                self.outcome_queue.push(row, outcome);
            }
            Holder::Lease(_) | Holder::Lost => self.outcome_queue.push(row, outcome),
        }
    }
}
