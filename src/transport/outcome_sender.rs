use std::fmt;
use std::sync::Arc;

use super::in_flight::{InFlightCounter, InFlightGuard};
use super::{FailureClass, Outcome, TransportError};
use crate::store::RowKey;

/// Receives the outcomes of a relay's rows. Called from the transport's threads: it must neither block nor panic.
pub(crate) trait OutcomeSink: Send + Sync + 'static {
    /// Receives the outcome of one row.
    fn complete(&self, row: RowKey, outcome: Outcome);

    /// The broker stores the row there. Its outcome follows.
    fn placed(&self, _row: RowKey, _partition: i32, _offset: i64) {}
}

/// The right to report one message's outcome, once.
/// If it is dropped without an outcome, it reports a temporary failure. A transport that forgets a message thus delays
/// it instead of losing it.
///
/// A transport that wraps another one can watch the outcome:
///
/// ```
/// use diesel_outbox::transport::{MemoryTransport, Outcome, OutcomeSender, Transport};
/// use diesel_outbox::Envelope;
///
/// fn send_and_note(inner: &MemoryTransport, envelope: Envelope, sender: OutcomeSender) {
///     let message_id = envelope.message_id;
///     inner.send(envelope, sender.observed_by(move |outcome: &Outcome| eprintln!("{message_id}: {outcome:?}")));
/// }
/// ```
pub struct OutcomeSender {
    to: Option<To>,
    /// Called with the outcome first.
    observers: Vec<Observer>,
    /// Dropped after the report, so that whoever waits for the count finds the outcome reported.
    in_flight_guard: Option<InFlightGuard>,
}

type Observer = Box<dyn FnOnce(&Outcome) + Send + Sync>;

/// Who gets the outcome.
enum To {
    Row(RowKey, Arc<dyn OutcomeSink>),
    Function(Box<dyn FnOnce(Outcome) + Send + Sync>),
}

impl OutcomeSender {
    /// An outcome sender that calls `report` once, on a thread of the transport. It must neither block nor panic.
    pub fn new(report: impl FnOnce(Outcome) + Send + Sync + 'static) -> Self {
        Self { to: Some(To::Function(Box::new(report))), observers: Vec::new(), in_flight_guard: None }
    }

    /// An outcome sender for `row` that reports to `sink`. It needs no allocation, because a relay makes one for each message.
    pub(crate) fn of_row(row: RowKey, sink: Arc<dyn OutcomeSink>) -> Self {
        Self { to: Some(To::Row(row, sink)), observers: Vec::new(), in_flight_guard: None }
    }

    /// The row, if a relay made the outcome sender.
    pub(crate) fn row(&self) -> Option<RowKey> {
        match self.to {
            Some(To::Row(row, _)) => Some(row),
            _ => None,
        }
    }

    /// Calls `observe` with the outcome, before it is reported. It must neither block nor panic.
    #[must_use = "an outcome sender that is dropped reports a failure"]
    pub fn observed_by(mut self, observe: impl FnOnce(&Outcome) + Send + Sync + 'static) -> Self {
        self.observers.push(Box::new(observe));
        self
    }

    /// Notes where the broker stores the message, before its outcome is reported: for whoever
    /// [waits for it](crate::receipts::DeliveryReceipt). A negative offset is an unknown one.
    pub fn placed(&self, partition: i32, offset: i64) {
        if let Some(To::Row(row, sink)) = &self.to {
            sink.placed(*row, partition, offset);
        }
    }

    /// Counts the message in `in_flight` until its outcome has been reported. Counts add up: a transport that wraps
    /// another one can count the same messages.
    #[must_use = "an outcome sender that is dropped reports a failure"]
    pub fn tracked_by(mut self, in_flight: &InFlightCounter) -> Self {
        let also = self.in_flight_guard.take();
        self.in_flight_guard = Some(in_flight.register(also));
        self
    }

    /// Reports the outcome.
    pub fn complete(mut self, outcome: Outcome) {
        self.report(outcome);
    }

    fn report(&mut self, outcome: Outcome) {
        self.observers.drain(..).for_each(|observe| observe(&outcome));
        match self.to.take() {
            Some(To::Row(row, sink)) => sink.complete(row, outcome),
            Some(To::Function(report)) => report(outcome),
            None => {}
        }
    }
}

impl Drop for OutcomeSender {
    fn drop(&mut self) {
        self.report(Outcome::Failed(TransportError::new(FailureClass::Temporary, DroppedWithoutOutcome)));
    }
}

impl fmt::Debug for OutcomeSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OutcomeSender").field(&self.row()).finish()
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the transport dropped the message without an outcome")]
struct DroppedWithoutOutcome;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    #[derive(Default)]
    struct Sink {
        reported: AtomicBool,
        in_flight: InFlightCounter,
    }

    fn counted() -> (Arc<Sink>, OutcomeSender) {
        let sink = Arc::new(Sink::default());
        let shared = Arc::clone(&sink);
        let report = move |_outcome: Outcome| {
            assert_eq!(shared.in_flight.count(), 1, "it counts until it has been reported");
            shared.reported.store(true, Ordering::Release);
        };
        let sender = OutcomeSender::new(report).tracked_by(&sink.in_flight);
        (sink, sender)
    }

    #[test]
    fn an_outcome_counts_until_it_is_completed_or_dropped() {
        let (sink, sender) = counted();
        sender.complete(Outcome::Delivered);
        assert_eq!((sink.in_flight.count(), sink.reported.load(Ordering::Acquire)), (0, true));
        let (sink, sender) = counted();
        drop(sender);
        assert_eq!((sink.in_flight.count(), sink.reported.load(Ordering::Acquire)), (0, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_with_the_last_outcome_or_returns_the_rest() {
        let (sink, sender) = counted();
        let outer = InFlightCounter::new();
        let sender = sender.tracked_by(&outer);
        assert_eq!(outer.wait_until_none(Duration::from_secs(60)).await, 1);
        let waiting = tokio::spawn({
            let (inner, outer) = (sink.in_flight.clone(), outer.clone());
            async move { inner.wait_until_none(Duration::from_secs(60)).await + outer.wait_until_none(Duration::ZERO).await }
        });
        tokio::task::yield_now().await;
        sender.complete(Outcome::Delivered);
        let began_at = tokio::time::Instant::now();
        assert_eq!(waiting.await.unwrap(), 0);
        assert_eq!(began_at.elapsed(), Duration::ZERO, "the wait ended before the time-out");
    }
}
