//! Kafka, with a mark of who sent a copy, messages that are refused for good, and acknowledgements that get lost.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use diesel_outbox::store::RowKey;
use diesel_outbox::transport::{
    FailureClass, KafkaTransport, Outcome, Receipt, ReceiptSink, Transport, TransportError,
};
use diesel_outbox::{Envelope, Topic};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use crate::truth::Name;

/// The header that says which process sent a copy.
pub(crate) const SENT_BY: &str = "sent-by";

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
    fn prepared(&self, mut envelope: Envelope, receipt: Receipt) -> Option<(Envelope, Receipt)> {
        let name = envelope.payload.as_deref().and_then(Name::of_payload);
        let is_plain = envelope.kind == "plain";
        if is_plain && name.is_some_and(Name::is_doomed) {
            let error = TransportError::new(FailureClass::Record, std::io::Error::other("it is doomed"));
            receipt.settle(Outcome::Failed(error));
            return None;
        }
        if self.now() == Some(Trouble::FailSends)
            && name.is_some_and(|name| (name.sequence + u64::from(envelope.attempt)) % 2 == 0)
        {
            receipt.settle(timed_out());
            return None;
        }
        envelope.headers.push(SENT_BY, self.process.to_string());
        let row = RowKey { id: 0, message_id: envelope.message_id };
        let ear = Ear { receipt: Mutex::new(Some(receipt)), of: self.clone() };
        Some((envelope, Receipt::new(row, Arc::new(ear))))
    }
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

    async fn flush(&self, within: Duration) -> usize {
        self.kafka.flush(within).await
    }
}

fn timed_out() -> Outcome {
    Outcome::Failed(TransportError::new(FailureClass::Temporary, std::io::Error::other("nothing came back in time")))
}

/// Passes an outcome on, but for an acknowledgement that is to be lost or late.
struct Ear {
    receipt: Mutex<Option<Receipt>>,
    of: Troubled,
}

impl ReceiptSink for Ear {
    fn settle(&self, _row: RowKey, outcome: Outcome) {
        let Some(receipt) = self.receipt.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        if matches!(outcome, Outcome::Failed(_)) {
            self.of.failures.fetch_add(1, Ordering::AcqRel);
        }
        match self.of.now().filter(|_| matches!(outcome, Outcome::Delivered)) {
            Some(Trouble::LoseAcks) => receipt.settle(timed_out()),
            Some(Trouble::LateAcks { by_ms }) => {
                // On a thread of the client's, where no runtime is known.
                self.of.runtime.spawn(async move {
                    sleep(Duration::from_millis(by_ms)).await;
                    receipt.settle(outcome);
                });
            }
            Some(Trouble::FailSends) | None => receipt.settle(outcome),
        }
    }
}

impl fmt::Debug for Ear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ear").finish_non_exhaustive()
    }
}
