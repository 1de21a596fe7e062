use std::fmt;
use std::sync::Arc;

use super::in_flight::{InFlightCounter, InFlightGuard};
use super::{FailureClass, Outcome, TransportError};
use crate::store::RowKey;

/// Receives outcomes. Called from the transport's threads: it must neither block nor panic.
pub trait ReceiptSink: Send + Sync + 'static {
    /// Receives the outcome of one row.
    fn complete(&self, row: RowKey, outcome: Outcome);
}

/// The right to report one message's outcome, once.
/// If it is dropped without an outcome, it reports a temporary failure. A transport that forgets a message thus delays
/// it instead of losing it.
/// instead of losing it.
pub struct Receipt {
    row: RowKey,
    sink: Option<Arc<dyn ReceiptSink>>,
    /// Dropped after the report, so that whoever waits for the count finds the outcome reported.
    in_flight_guard: Option<InFlightGuard>,
}

impl Receipt {
    pub(crate) fn row(&self) -> RowKey {
        self.row
    }

    /// A receipt for `row` that reports to `sink`.
    pub fn new(row: RowKey, sink: Arc<dyn ReceiptSink>) -> Self {
        Self { row, sink: Some(sink), in_flight_guard: None }
    }

    /// Counts the message in `in_flight` until its outcome has been reported. Counts add up: a transport that wraps
    /// another one can count the same messages.
    #[must_use = "a receipt that is dropped reports a failure"]
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
        if let Some(sink) = self.sink.take() {
            sink.complete(self.row, outcome);
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        self.report(Outcome::Failed(TransportError::new(FailureClass::Temporary, DroppedUnanswered)));
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Receipt").field(&self.row).finish()
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the transport dropped the message without an outcome")]
struct DroppedUnanswered;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::message::MessageId;

    #[derive(Default)]
    struct Sink {
        reported: AtomicBool,
        in_flight: InFlightCounter,
    }

    impl ReceiptSink for Sink {
        fn complete(&self, _row: RowKey, _outcome: Outcome) {
            assert_eq!(self.in_flight.count(), 1, "it counts until its outcome has been reported");
            self.reported.store(true, Ordering::Release);
        }
    }

    fn counted() -> (Arc<Sink>, Receipt) {
        let sink = Arc::new(Sink::default());
        let row = RowKey { id: 1, message_id: MessageId::new() };
        let receipt = Receipt::new(row, Arc::clone(&sink) as Arc<dyn ReceiptSink>).tracked_by(&sink.in_flight);
        (sink, receipt)
    }

    #[test]
    fn a_receipt_counts_until_it_is_completed_or_dropped() {
        let (sink, receipt) = counted();
        receipt.complete(Outcome::Delivered);
        assert_eq!((sink.in_flight.count(), sink.reported.load(Ordering::Acquire)), (0, true));
        let (sink, receipt) = counted();
        drop(receipt);
        assert_eq!((sink.in_flight.count(), sink.reported.load(Ordering::Acquire)), (0, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_with_the_last_receipt_or_returns_the_rest() {
        let (sink, receipt) = counted();
        let outer = InFlightCounter::new();
        let receipt = receipt.tracked_by(&outer);
        assert_eq!(outer.wait_until_none(Duration::from_secs(60)).await, 1);
        let waiting = tokio::spawn({
            let (inner, outer) = (sink.in_flight.clone(), outer.clone());
            async move { inner.wait_until_none(Duration::from_secs(60)).await + outer.wait_until_none(Duration::ZERO).await }
        });
        tokio::task::yield_now().await;
        receipt.complete(Outcome::Delivered);
        let began_at = tokio::time::Instant::now();
        assert_eq!(waiting.await.unwrap(), 0);
        assert_eq!(began_at.elapsed(), Duration::ZERO, "the wait ended before the time-out");
    }
}
