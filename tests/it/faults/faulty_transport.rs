//! Kafka with the troubles that a real broker makes too seldom for a test.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use diesel_outbox::transport::{
    FailureClass, FencedLane, KafkaTransport, LaneName, Outcome, OutcomeSender, RowLookup, Transport, TransportError,
};
use diesel_outbox::{Envelope, Topic};

#[derive(Debug)]
pub(super) struct FaultyKafka {
    kafka: KafkaTransport,
    /// So many messages are refused before Kafka gets one.
    pub(super) refusals: AtomicUsize,
    /// Acknowledgements come this much later.
    pub(super) acknowledged_after: Duration,
}

impl FaultyKafka {
    pub(super) fn new(kafka: KafkaTransport, refusals: usize, acknowledged_after: Duration) -> Self {
        Self { kafka, refusals: AtomicUsize::new(refusals), acknowledged_after }
    }
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
        let refused = self.refusals.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1));
        if refused.is_ok() {
            let error = TransportError::new(FailureClass::Record, std::io::Error::other("as the test says"));
            return sender.complete(Outcome::Failed(error));
        }
        let by = self.acknowledged_after;
        if by.is_zero() {
            return self.kafka.send(envelope, sender);
        }
        let late = move |outcome| {
            std::thread::spawn(move || {
                std::thread::park_timeout(by);
                sender.complete(outcome);
            });
        };
        self.kafka.send(envelope, OutcomeSender::new(late));
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

    /// What leaves by a fenced lane has no troubles.
    async fn fence(&self, lane: LaneName) -> Result<Arc<dyn FencedLane>, TransportError> {
        self.kafka.fence(lane).await
    }

    fn supports_exactly_once(&self) -> bool {
        self.kafka.supports_exactly_once()
    }

    async fn fence_exactly_once(&self, lane: LaneName, rows: RowLookup) -> Result<Arc<dyn FencedLane>, TransportError> {
        self.kafka.fence_exactly_once(lane, rows).await
    }

    async fn flush(&self, within: Duration) -> usize {
        self.kafka.flush(within).await
    }
}
