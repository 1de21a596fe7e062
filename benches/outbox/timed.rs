//! When a message is acknowledged, and when its transaction had committed: both ends of what the row `latency` measures.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use diesel::connection::InstrumentationEvent;
use diesel_outbox::store::RowKey;
use diesel_outbox::transport::{FailureClass, Outcome, Receipt, ReceiptSink, Transport, TransportError};
use diesel_outbox::{Envelope, MessageId, Topic};

/// Instants by message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Instants(Arc<Mutex<HashMap<MessageId, Instant>>>);

impl Instants {
    pub(crate) fn note(&self, message_id: MessageId, at: Instant) {
        self.lock().insert(message_id, at);
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// From `self` to `later`, in microseconds, of every message that is in both.
    pub(crate) fn until(&self, later: &Self) -> Vec<f64> {
        let (from, to) = (self.lock(), later.lock());
        let waits = from.iter().filter_map(|(id, from)| Some(to.get(id)?.saturating_duration_since(*from)));
        waits.map(|wait| wait.as_secs_f64() * 1e6).collect()
    }

    pub(crate) fn at(&self, message_id: MessageId) -> Option<Instant> {
        self.lock().get(&message_id).copied()
    }

    /// When the last of those that are here before `end` came to `later`; `None` while one has not.
    pub(crate) fn last_until(&self, later: &Self, end: Instant) -> Option<Instant> {
        let (from, to) = (self.lock(), later.lock());
        let before = from.iter().filter(|(_, from)| **from <= end).map(|(id, _)| to.get(id).copied());
        before.collect::<Option<Vec<Instant>>>()?.into_iter().max()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<MessageId, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A transport that notes when another one delivers.
#[derive(Debug)]
pub(crate) struct Timed<T> {
    pub(crate) inner: T,
    pub(crate) delivered: Instants,
}

/// The receipt that was given to us, behind the one that we gave.
#[derive(Debug)]
struct Noting {
    receipt: Mutex<Option<Receipt>>,
    delivered: Instants,
}

impl ReceiptSink for Noting {
    fn settle(&self, row: RowKey, outcome: Outcome) {
        let now = Instant::now();
        if matches!(outcome, Outcome::Delivered) {
            self.delivered.note(row.message_id, now);
        }
        let receipt = self.receipt.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(receipt) = receipt {
            receipt.settle(outcome);
        }
    }
}

#[async_trait]
impl<T: Transport> Transport for Timed<T> {
    fn delivery_timeout(&self) -> Duration {
        self.inner.delivery_timeout()
    }
    async fn prepare(&self, topics: &[Topic]) -> Result<(), TransportError> {
        self.inner.prepare(topics).await
    }
    fn send(&self, envelope: Envelope, receipt: Receipt) {
        let row = RowKey { id: 0, message_id: envelope.message_id };
        let noting = Noting { receipt: Mutex::new(Some(receipt)), delivered: self.delivered.clone() };
        self.inner.send(envelope, Receipt::new(row, Arc::new(noting)));
    }
    async fn probe(&self) -> Result<(), TransportError> {
        self.inner.probe().await
    }
    fn outage(&self) -> Option<FailureClass> {
        self.inner.outage()
    }
    async fn flush(&self, within: Duration) -> usize {
        self.inner.flush(within).await
    }
}

/// When the last transaction of a connection had committed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Committed(Arc<Mutex<(bool, Option<Instant>)>>);

impl Committed {
    /// The instrumentation that finds out: the end of the statement that follows the announcement of a COMMIT.
    pub(crate) fn instrumentation(&self) -> impl FnMut(InstrumentationEvent<'_>) + Send + use<> {
        let this = self.clone();
        move |event| {
            let mut state = this.0.lock().unwrap_or_else(PoisonError::into_inner);
            match event {
                InstrumentationEvent::CommitTransaction { depth, .. } if depth.get() == 1 => state.0 = true,
                InstrumentationEvent::FinishQuery { error: None, .. } if state.0 => {
                    *state = (false, Some(Instant::now()))
                }
                _ => {}
            }
        }
    }

    pub(crate) fn take(&self) -> Option<Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.take()
    }
}
