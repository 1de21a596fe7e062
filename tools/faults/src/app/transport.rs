//! Kafka that marks each copy with its sender, refuses some messages for good, and loses acknowledgements.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use diesel_outbox::transport::{
    FailureClass, FencedLane, FencedMessage, KafkaTransport, LaneName, Outcome, OutcomeSender, RowLookup, Transport,
    TransportError,
};
use diesel_outbox::{Envelope, Topic};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::now_ms;
use crate::truth::{MessageName, REFUSED_AT_FIRST};

/// The header with the process that sent a copy.
pub(crate) const SENT_BY: &str = "sent-by";
/// How long the broker refuses a message that it accepts afterwards, counted from the enqueue.
const ACCEPTED_AFTER: Duration = Duration::from_secs(4);

#[derive(Debug, Clone)]
pub(super) struct FaultyKafka {
    kafka: Arc<KafkaTransport>,
    runtime: Handle,
    process: u32,
    fault: Arc<Mutex<Option<(TransportFault, Instant)>>>,
    /// The failures that the client itself reported since the last report.
    failures: Arc<AtomicU64>,
}

/// The faults of the connection to the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransportFault {
    LoseAcks,
    LateAcks {
        by_ms: u64,
    },
    /// Fails every other message.
    FailSends,
}

impl FaultyKafka {
    pub(super) fn new(kafka: KafkaTransport, process: u32) -> Self {
        Self {
            kafka: Arc::new(kafka),
            runtime: Handle::current(),
            process,
            fault: Arc::default(),
            failures: Arc::default(),
        }
    }

    pub(super) fn inject(&self, fault: TransportFault, for_ms: u64) {
        let until = Instant::now() + Duration::from_millis(for_ms);
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some((fault, until));
    }

    pub(super) fn take_failures(&self) -> u64 {
        self.failures.swap(0, Ordering::AcqRel)
    }

    fn now(&self) -> Option<TransportFault> {
        let fault = *self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        fault.filter(|(_, until)| Instant::now() < *until).map(|(fault, _)| fault)
    }

    /// Marks a copy, or refuses it.
    fn prepared(&self, envelope: Envelope, sender: OutcomeSender) -> Option<(Envelope, OutcomeSender)> {
        let name = envelope.payload.as_deref().and_then(MessageName::of_payload);
        let is_always_refused = envelope.kind == "plain" && name.is_some_and(MessageName::is_always_refused);
        if is_always_refused || (envelope.kind == REFUSED_AT_FIRST && !is_accepted_by_now(&envelope)) {
            let error = TransportError::new(FailureClass::Record, std::io::Error::other("the broker refuses it"));
            sender.complete(Outcome::Failed(error));
            return None;
        }
        if self.now() == Some(TransportFault::FailSends)
            && name.is_some_and(|name| (name.sequence + u64::from(envelope.attempt)) % 2 == 0)
        {
            sender.complete(timed_out());
            return None;
        }
        Some(self.marked(envelope, sender, false))
    }

    fn marked(&self, mut envelope: Envelope, sender: OutcomeSender, is_fenced: bool) -> (Envelope, OutcomeSender) {
        envelope.headers.push(SENT_BY, self.process.to_string());
        let of = self.clone();
        (envelope, OutcomeSender::new(move |outcome| of.forward(sender, outcome, is_fenced)))
    }

    /// Forwards an outcome, unless it is an acknowledgement to be lost or delayed.
    fn forward(&self, sender: OutcomeSender, outcome: Outcome, is_fenced: bool) {
        // A message that a fence refused was not stored, so it cannot cause a duplicate.
        if matches!(&outcome, Outcome::Failed(error) if error.class() != FailureClass::Fenced) {
            self.failures.fetch_add(1, Ordering::AcqRel);
        }
        match self.now().filter(|_| matches!(outcome, Outcome::Delivered)) {
            Some(TransportFault::LoseAcks) if !is_fenced => sender.complete(timed_out()),
            Some(TransportFault::LateAcks { by_ms }) => {
                // This is a thread of the client, without a runtime.
                self.runtime.spawn(async move {
                    sleep(Duration::from_millis(by_ms)).await;
                    sender.complete(outcome);
                });
            }
            Some(TransportFault::LoseAcks | TransportFault::FailSends) | None => sender.complete(outcome),
        }
    }
}

/// Whether the broker now accepts what it refused.
fn is_accepted_by_now(envelope: &Envelope) -> bool {
    let since = envelope.created_at.duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_millis(now_ms()) > since + ACCEPTED_AFTER
}

#[async_trait]
impl Transport for FaultyKafka {
    fn delivery_timeout(&self) -> Duration {
        self.kafka.delivery_timeout()
    }

    async fn prepare(&self, topics: &[Topic]) -> Result<(), TransportError> {
        self.kafka.prepare(topics).await
    }

    fn send(&self, envelope: Envelope, sender: OutcomeSender) {
        self.send_all(vec![(envelope, sender)]);
    }

    fn send_all(&self, messages: Vec<(Envelope, OutcomeSender)>) {
        let prepared = messages.into_iter().filter_map(|(envelope, sender)| self.prepared(envelope, sender));
        self.kafka.send_all(prepared.collect());
    }

    async fn probe(&self) -> Result<(), TransportError> {
        self.kafka.probe().await
    }

    fn outage(&self) -> Option<FailureClass> {
        self.kafka.outage()
    }

    fn supports_fencing(&self) -> bool {
        self.kafka.supports_fencing()
    }

    fn supports_exactly_once(&self) -> bool {
        self.kafka.supports_exactly_once()
    }

    async fn fence_exactly_once(&self, lane: LaneName, rows: RowLookup) -> Result<Arc<dyn FencedLane>, TransportError> {
        let lane = self.kafka.fence_exactly_once(lane, rows).await?;
        Ok(Arc::new(FaultyLane { lane, of: self.clone() }))
    }

    async fn fence(&self, lane: LaneName) -> Result<Arc<dyn FencedLane>, TransportError> {
        let lane = self.kafka.fence(lane).await?;
        Ok(Arc::new(FaultyLane { lane, of: self.clone() }))
    }

    async fn flush(&self, within: Duration) -> usize {
        self.kafka.flush(within).await
    }
}

/// A fenced lane that marks each copy with its sender. It may delay outcomes, but nothing else: a lane must end a
/// sequence before it reports that a message of it failed.
#[derive(Debug)]
struct FaultyLane {
    lane: Arc<dyn FencedLane>,
    of: FaultyKafka,
}

impl FencedLane for FaultyLane {
    fn send_all(&self, messages: Vec<FencedMessage>) {
        let marked = messages.into_iter().map(|FencedMessage { envelope, sender, sequence, row }| {
            let (envelope, sender) = self.of.marked(envelope, sender, true);
            FencedMessage { envelope, sender, sequence, row }
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
