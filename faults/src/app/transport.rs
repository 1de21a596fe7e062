//! Kafka, with a mark of who sent a copy, messages that are refused for good, and acknowledgements that get lost.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use diesel_outbox::store::RowKey;
use diesel_outbox::transport::{
    FailureClass, FencedLane, FencedMessage, KafkaTransport, LaneName, Outcome, Receipt, ReceiptSink, Transport,
    TransportError,
};
use diesel_outbox::{Envelope, Topic};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::now_ms;
use crate::truth::{CURABLE, Name};

/// The header that says which process sent a copy.
pub(crate) const SENT_BY: &str = "sent-by";
/// For how long the broker refuses what it takes afterwards, counted from the enqueue.
const CURED_AFTER: Duration = Duration::from_secs(4);

#[derive(Debug, Clone)]
pub(super) struct Troubled {
    kafka: Arc<KafkaTransport>,
    runtime: Handle,
    process: u32,
    trouble: Arc<Mutex<Option<(Trouble, Instant)>>>,
    /// What the client itself said of failures, since somebody asked.
    failures: Arc<AtomicU64>,
}

/// What the way to the broker does to messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    LoseAcks,
    LateAcks {
        by_ms: u64,
    },
    /// Every other message.
    FailSends,
}

impl Troubled {
    pub(super) fn new(kafka: KafkaTransport, process: u32) -> Self {
        Self {
            kafka: Arc::new(kafka),
            runtime: Handle::current(),
            process,
            trouble: Arc::default(),
            failures: Arc::default(),
        }
    }

    pub(super) fn trouble(&self, trouble: Trouble, for_ms: u64) {
        let until = Instant::now() + Duration::from_millis(for_ms);
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some((trouble, until));
    }

    pub(super) fn take_failures(&self) -> u64 {
        self.failures.swap(0, Ordering::AcqRel)
    }

    fn now(&self) -> Option<Trouble> {
        let trouble = *self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.filter(|(_, until)| Instant::now() < *until).map(|(trouble, _)| trouble)
    }

    /// Marks a copy, or refuses it.
    fn prepared(&self, envelope: Envelope, receipt: Receipt) -> Option<(Envelope, Receipt)> {
        let name = envelope.payload.as_deref().and_then(Name::of_payload);
        let is_doomed = envelope.kind == "plain" && name.is_some_and(Name::is_doomed);
        if is_doomed || (envelope.kind == CURABLE && !is_cured(&envelope)) {
            let error = TransportError::new(FailureClass::Record, std::io::Error::other("the broker refuses it"));
            receipt.settle(Outcome::Failed(error));
            return None;
        }
        if self.now() == Some(Trouble::FailSends)
            && name.is_some_and(|name| (name.sequence + u64::from(envelope.attempt)) % 2 == 0)
        {
            receipt.settle(timed_out());
            return None;
        }
        Some(self.marked(envelope, receipt, false))
    }

    fn marked(&self, mut envelope: Envelope, receipt: Receipt, is_fenced: bool) -> (Envelope, Receipt) {
        envelope.headers.push(SENT_BY, self.process.to_string());
        let row = RowKey { id: 0, message_id: envelope.message_id };
        let ear = Ear { receipt: Mutex::new(Some(receipt)), is_fenced, of: self.clone() };
        (envelope, Receipt::new(row, Arc::new(ear)))
    }
}

/// Whether the broker takes by now what it refused.
fn is_cured(envelope: &Envelope) -> bool {
    let since = envelope.created_at.duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_millis(now_ms()) > since + CURED_AFTER
}

#[async_trait]
impl Transport for Troubled {
    fn delivery_timeout(&self) -> Duration {
        self.kafka.delivery_timeout()
    }

    async fn prepare(&self, topics: &[Topic]) -> Result<(), TransportError> {
        self.kafka.prepare(topics).await
    }

    fn send(&self, envelope: Envelope, receipt: Receipt) {
        self.send_all(vec![(envelope, receipt)]);
    }

    fn send_all(&self, messages: Vec<(Envelope, Receipt)>) {
        let prepared = messages.into_iter().filter_map(|(envelope, receipt)| self.prepared(envelope, receipt));
        self.kafka.send_all(prepared.collect());
    }

    async fn probe(&self) -> Result<(), TransportError> {
        self.kafka.probe().await
    }

    fn outage(&self) -> Option<FailureClass> {
        self.kafka.outage()
    }

    fn can_fence(&self) -> bool {
        self.kafka.can_fence()
    }

    async fn fence(&self, lane: LaneName) -> Result<Arc<dyn FencedLane>, TransportError> {
        let lane = self.kafka.fence(lane).await?;
        Ok(Arc::new(TroubledLane { lane, of: self.clone() }))
    }

    async fn flush(&self, within: Duration) -> usize {
        self.kafka.flush(within).await
    }
}

/// A fenced lane with a mark of who sent a copy. What it says of messages may be late, and nothing else: a lane has to end a run before
/// it says that one of it failed.
#[derive(Debug)]
struct TroubledLane {
    lane: Arc<dyn FencedLane>,
    of: Troubled,
}

impl FencedLane for TroubledLane {
    fn send_all(&self, messages: Vec<FencedMessage>) {
        let marked = messages.into_iter().map(|FencedMessage { envelope, receipt, run }| {
            let (envelope, receipt) = self.of.marked(envelope, receipt, true);
            FencedMessage { envelope, receipt, run }
        });
        self.lane.send_all(marked.collect());
    }

    fn is_open(&self) -> bool {
        self.lane.is_open()
    }
}

fn timed_out() -> Outcome {
    Outcome::Failed(TransportError::new(FailureClass::Temporary, std::io::Error::other("nothing came back in time")))
}

/// Passes an outcome on, but for an acknowledgement that is to be lost or late.
struct Ear {
    receipt: Mutex<Option<Receipt>>,
    is_fenced: bool,
    of: Troubled,
}

impl ReceiptSink for Ear {
    fn settle(&self, _row: RowKey, outcome: Outcome) {
        let Some(receipt) = self.receipt.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        // What a fence refused was not stored, and comes twice by nothing.
        if matches!(&outcome, Outcome::Failed(error) if error.class() != FailureClass::Fenced) {
            self.of.failures.fetch_add(1, Ordering::AcqRel);
        }
        match self.of.now().filter(|_| matches!(outcome, Outcome::Delivered)) {
            Some(Trouble::LoseAcks) if !self.is_fenced => receipt.settle(timed_out()),
            Some(Trouble::LateAcks { by_ms }) => {
                // On a thread of the client's, where no runtime is known.
                self.of.runtime.spawn(async move {
                    sleep(Duration::from_millis(by_ms)).await;
                    receipt.settle(outcome);
                });
            }
            Some(Trouble::LoseAcks | Trouble::FailSends) | None => receipt.settle(outcome),
        }
    }
}

impl fmt::Debug for Ear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ear").finish_non_exhaustive()
    }
}
