//! Kafka with the bugs of a bad release.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use diesel_outbox::transport::{
    FailureClass, FencedLane, KafkaTransport, LaneName, Outcome, OutcomeSender, Transport, TransportError,
};
use diesel_outbox::{Envelope, Topic};

use super::{Bug, RETURNS};

#[derive(Debug)]
pub(super) struct BuggyKafka {
    kafka: KafkaTransport,
    bug: Option<Bug>,
    /// Whether the next fence fails.
    fails_to_fence: AtomicBool,
}

impl BuggyKafka {
    pub(super) fn new(kafka: KafkaTransport, bug: Option<Bug>) -> Self {
        Self { kafka, bug, fails_to_fence: AtomicBool::new(bug == Some(Bug::EveryEvent)) }
    }
}

#[async_trait]
impl Transport for BuggyKafka {
    fn delivery_timeout(&self) -> Duration {
        self.kafka.delivery_timeout()
    }

    async fn prepare(&self, topics: &[Topic]) -> Result<(), TransportError> {
        self.kafka.prepare(topics).await
    }

    fn send(&self, envelope: Envelope, sender: OutcomeSender) {
        self.send_all(vec![(envelope, sender)]);
    }

    /// Refuses the first copy of each message of one topic.
    fn send_all(&self, messages: Vec<(Envelope, OutcomeSender)>) {
        let is_refused = |envelope: &Envelope| {
            self.bug == Some(Bug::EveryEvent) && &*envelope.topic == RETURNS && envelope.kind == "refused"
        };
        let (refused, rest): (Vec<_>, Vec<_>) = messages.into_iter().partition(|(envelope, _)| is_refused(envelope));
        for (_, sender) in refused {
            let error = std::io::Error::other("the drill refuses it");
            sender.complete(Outcome::Failed(TransportError::new(FailureClass::Record, error)));
        }
        self.kafka.send_all(rest);
    }

    async fn probe(&self) -> Result<(), TransportError> {
        self.kafka.probe().await
    }

    fn outage(&self) -> Option<FailureClass> {
        assert!(!matches!(self.bug, Some(Bug::PanickingCall | Bug::EveryEvent)), "a bug in the transport");
        self.kafka.outage()
    }

    fn supports_fencing(&self) -> bool {
        self.kafka.supports_fencing()
    }

    async fn fence(&self, lane: LaneName) -> Result<Arc<dyn FencedLane>, TransportError> {
        if self.fails_to_fence.swap(false, Ordering::Relaxed) {
            let error = std::io::Error::other("the drill refuses to fence");
            return Err(TransportError::new(FailureClass::Temporary, error));
        }
        self.kafka.fence(lane).await
    }

    async fn flush(&self, within: Duration) -> usize {
        self.kafka.flush(within).await
    }
}
