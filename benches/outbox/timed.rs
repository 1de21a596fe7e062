//! When a message is acknowledged, and when its transaction was committed: both ends of what the row `latency`
//! measures.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use diesel::connection::InstrumentationEvent;
use diesel_outbox::transport::{
    FailureClass, FencedLane, FencedMessage, LaneName, Outcome, OutcomeSender, RowLookup, Transport, TransportError,
};
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

    /// From `self` to `later`, in microseconds, for every message that is in both.
    pub(crate) fn until(&self, later: &Self) -> Vec<f64> {
        let (from, to) = (self.lock(), later.lock());
        let waits = from.iter().filter_map(|(id, from)| Some(to.get(id)?.saturating_duration_since(*from)));
        waits.map(|wait| wait.as_secs_f64() * 1e6).collect()
    }

    pub(crate) fn at(&self, message_id: MessageId) -> Option<Instant> {
        self.lock().get(&message_id).copied()
    }

    /// When the last of the messages from before `end` reached `later`; `None` while one has not.
    pub(crate) fn last_until(&self, later: &Self, end: Instant) -> Option<Instant> {
        let (from, to) = (self.lock(), later.lock());
        let before = from.iter().filter(|(_, from)| **from <= end).map(|(id, _)| to.get(id).copied());
        before.collect::<Option<Vec<Instant>>>()?.into_iter().max()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<MessageId, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A transport that notes when the wrapped one delivers, and otherwise passes everything on.
#[derive(Debug)]
pub(crate) struct Timed<T> {
    pub(crate) inner: T,
    pub(crate) delivered: Instants,
}

/// The same for a fenced lane.
#[derive(Debug)]
struct TimedLane {
    inner: Arc<dyn FencedLane>,
    delivered: Instants,
}

impl Instants {
    /// An outcome sender that notes when its message is delivered, and passes every outcome on to `sender`.
    fn timed_sender(&self, message_id: MessageId, sender: OutcomeSender) -> OutcomeSender {
        let delivered = self.clone();
        OutcomeSender::new(move |outcome| {
            let now = Instant::now();
            if matches!(outcome, Outcome::Delivered) {
                delivered.note(message_id, now);
            }
            sender.complete(outcome);
        })
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
    fn send(&self, envelope: Envelope, sender: OutcomeSender) {
        let sender = self.delivered.timed_sender(envelope.message_id, sender);
        self.inner.send(envelope, sender);
    }
    fn send_all(&self, messages: Vec<(Envelope, OutcomeSender)>) {
        let timed = messages.into_iter().map(|(envelope, sender)| {
            let sender = self.delivered.timed_sender(envelope.message_id, sender);
            (envelope, sender)
        });
        self.inner.send_all(timed.collect());
    }
    async fn probe(&self) -> Result<(), TransportError> {
        self.inner.probe().await
    }
    fn outage(&self) -> Option<FailureClass> {
        self.inner.outage()
    }
    fn in_flight_max(&self) -> usize {
        self.inner.in_flight_max()
    }
    fn sends_individually(&self) -> bool {
        self.inner.sends_individually()
    }
    fn supports_fencing(&self) -> bool {
        self.inner.supports_fencing()
    }
    async fn fence(&self, lane: LaneName) -> Result<Arc<dyn FencedLane>, TransportError> {
        let inner = self.inner.fence(lane).await?;
        Ok(Arc::new(TimedLane { inner, delivered: self.delivered.clone() }))
    }
    fn supports_exactly_once(&self) -> bool {
        self.inner.supports_exactly_once()
    }
    async fn fence_exactly_once(&self, lane: LaneName, rows: RowLookup) -> Result<Arc<dyn FencedLane>, TransportError> {
        let inner = self.inner.fence_exactly_once(lane, rows).await?;
        Ok(Arc::new(TimedLane { inner, delivered: self.delivered.clone() }))
    }
    async fn flush(&self, within: Duration) -> usize {
        self.inner.flush(within).await
    }
}

impl FencedLane for TimedLane {
    fn send_all(&self, messages: Vec<FencedMessage>) {
        let timed = messages.into_iter().map(|FencedMessage { envelope, sender, sequence, row }| {
            let sender = self.delivered.timed_sender(envelope.message_id, sender);
            FencedMessage { envelope, sender, sequence, row }
        });
        self.inner.send_all(timed.collect());
    }
    fn is_open(&self) -> bool {
        self.inner.is_open()
    }
}

/// When a connection's last transaction was committed.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommitTimer(Arc<Mutex<(bool, Option<Instant>)>>);

impl CommitTimer {
    /// The instrumentation that finds out: it takes the end of the statement that follows the announcement of a COMMIT.
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
