//! What every task for one transport shares, and the two moments all paths have in common: a row is offered to the transport,
//! and its outcome comes back.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::breaker::Breaker;
use super::entry::{Entry, Holder, Progress};
use super::inbox::{Fate, Inbox};
use super::ledger::{Ledger, Reservation};
use super::path::Path;
use super::queue::Queue;
use super::stop::Stop;
use super::topics::{TopicState, Topics};
use super::wakes::Wakes;
use crate::clock::{BootInstant, Clock};
use crate::crash_points::crash_point;
use crate::limits::{Limits, RETRY_AFTER_MAX};
use crate::metrics;
use crate::store::{Row, RowKey, Store};
use crate::transport::{FailureClass, Outcome, Receipt, ReceiptSink, Transport};

#[derive(Debug)]
pub(crate) struct Engine {
    /// The name of the transport.
    pub(crate) name: Arc<str>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) clock: Arc<dyn Clock>,
    /// This transport's share of the relay's.
    pub(crate) limits: Limits,
    pub(crate) topics: Topics,
    pub(crate) queue: Arc<Queue>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) breaker: Breaker,
    pub(crate) inbox: Inbox,
    pub(crate) stop: Arc<Stop>,
    pub(crate) wakes: Arc<Wakes>,
}

/// A row to send, with everything that decides whether it may be.
#[derive(Debug)]
pub(crate) struct Offer<'a> {
    pub(crate) row: Row,
    pub(crate) topic: &'a Arc<TopicState>,
    pub(crate) holder: Holder,
    pub(crate) term_ends_at: BootInstant,
    pub(crate) path: Path,
    pub(crate) committed_at: Option<BootInstant>,
    pub(crate) alone: bool,
    /// Whether it failed or was held before, so that an earlier copy may have been stored.
    pub(crate) again: bool,
}

/// What became of an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offered {
    Sent,
    /// Its term is over: another holder may have it.
    Late,
    /// This process knows the row already.
    Known(Progress),
}

impl Engine {
    /// Hands a row to the transport, if its term still runs and the row is not known here.
    pub(crate) fn offer(self: &Arc<Self>, offer: Offer<'_>, room: &mut Reservation) -> Offered {
        let Offer { row, topic, holder, term_ends_at, path, committed_at, alone, again } = offer;
        // Checked here, at the last moment before the client has it, and not when the row was read.
        if self.clock.now() >= term_ends_at {
            ::metrics::counter!(metrics::TERM_MISSED, "path" => path.as_str()).increment(1);
            return Offered::Late;
        }
        let batch = match &holder {
            Holder::Batch(batch) => Some(Arc::clone(batch)),
            Holder::Lease(_) | Holder::Lost => None,
        };
        let entry = Entry {
            topic: Arc::clone(topic),
            holder,
            progress: Progress::InFlight,
            path,
            failures: row.failures,
            attempt: row.envelope.attempt,
            bytes: row.envelope.size_bytes().max(1),
            committed_at,
            alone,
        };
        if let Err(known) = self.ledger.enter(row.key, entry, room) {
            return Offered::Known(known);
        }
        if let Some(batch) = batch {
            batch.expect();
        }
        if again {
            topic.meters.resent.increment(1);
        }
        let sink: Arc<dyn ReceiptSink> = Arc::clone(self) as _;
        self.transport.send(row.envelope, Receipt::new(row.key, sink));
        topic.meters.sent(path).increment(1);
        crash_point!(SENT);
        Offered::Sent
    }

    /// Whether nothing is left to do for what was handed over or claimed.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.len() == 0 && self.ledger.is_idle() && self.inbox.len() == 0
    }

    /// Waits until nothing is left to do, at most `within`; says whether it is so.
    pub(crate) async fn flush(&self, within: Duration) -> bool {
        timeout(within, self.ledger.changed(|| self.is_idle())).await.is_ok()
    }

    fn count(&self, entry: &Entry, outcome: &Outcome) {
        match outcome {
            Outcome::Delivered => {
                entry.topic.meters.delivered(entry.path).increment(1);
                if let Some(committed_at) = entry.committed_at {
                    let waited = committed_at.until(self.clock.now());
                    entry.topic.meters.commit_to_ack.record(waited.as_secs_f64());
                }
            }
            Outcome::Busy => {}
            Outcome::Failed(error) => {
                let class = error.class().as_str();
                ::metrics::counter!(metrics::FAILED, "topic" => entry.topic.name(), "class" => class).increment(1);
            }
        }
    }
}

/// Outcomes come here from the transport's threads. Each goes to its row's holder, and what it says of the topic and of
/// the broker is learned at once, whoever holds the row.
impl ReceiptSink for Engine {
    fn settle(&self, row: RowKey, outcome: Outcome) {
        if matches!(outcome, Outcome::Delivered) {
            crash_point!(ACKNOWLEDGED);
        }
        self.breaker.observe(&outcome, self.clock.now());
        let Some(entry) = self.ledger.answered(row, matches!(outcome, Outcome::Delivered)) else {
            tracing::error!(?row, "an outcome for a row that was never sent: the transport reported twice");
            return;
        };
        self.count(&entry, &outcome);
        match &outcome {
            Outcome::Delivered => {
                entry.topic.unpark();
                if entry.alone {
                    entry.topic.clear_suspect(row.message_id);
                }
            }
            Outcome::Failed(error) if error.class() == FailureClass::Topic => {
                let pause = error.retry_after().unwrap_or(self.limits.topic_park_duration).min(RETRY_AFTER_MAX);
                entry.topic.park(self.clock.now() + pause, error);
            }
            Outcome::Busy | Outcome::Failed(_) => {}
        }
        match entry.holder {
            Holder::Batch(batch) => {
                if let Err(late) = batch.push(row, outcome) {
                    self.inbox.push(row, Fate::from(late));
                }
            }
            Holder::Lease(_) | Holder::Lost => self.inbox.push(row, Fate::from(outcome)),
        }
    }
}
