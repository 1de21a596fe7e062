use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;

use crate::clock::system_now;
use crate::message::{Envelope, MessageId};
use crate::transport::{FailureClass, FencedLane, FencedMessage, KeySequence, Outcome, OutcomeSender, Transport};

/// Sends messages and records the outcome of each, by the number under which it was sent.
#[derive(Debug, Default)]
pub struct OutcomeRecorder {
    seen: Mutex<Vec<(i64, RecordedOutcome)>>,
    changed: Notify,
}

/// An [`Outcome`] that can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedOutcome {
    /// The broker has stored it.
    Delivered,
    /// The client did not accept it.
    Busy,
    /// It failed.
    Failed {
        /// The class of the failure.
        class: FailureClass,
        /// The error and its sources, as logged.
        text: String,
    },
}

impl RecordedOutcome {
    /// The class of a failure.
    pub fn class(&self) -> Option<FailureClass> {
        match self {
            Self::Failed { class, .. } => Some(*class),
            Self::Delivered | Self::Busy => None,
        }
    }
}

impl OutcomeRecorder {
    /// A recorder without messages.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Sends a message as number `id`.
    pub fn send(self: &Arc<Self>, transport: &dyn Transport, id: i64, envelope: Envelope) {
        transport.send(envelope, self.sender(id));
    }

    /// The outcome sender of message `id`, for a caller that sends it itself.
    pub fn sender(self: &Arc<Self>, id: i64) -> OutcomeSender {
        let outcomes = Arc::clone(self);
        OutcomeSender::new(move |outcome| outcomes.note(id, outcome))
    }

    /// Sends messages of one sequence through a fenced lane, each with its number.
    pub fn send_fenced(
        self: &Arc<Self>,
        lane: &dyn FencedLane,
        sequence: &KeySequence,
        messages: impl IntoIterator<Item = (i64, Envelope)>,
    ) {
        let message = |(id, envelope): (i64, Envelope)| FencedMessage {
            envelope,
            sender: self.sender(id),
            sequence: sequence.clone(),
            row: None,
        };
        lane.send_all(messages.into_iter().map(message).collect());
    }

    /// The outcomes so far, in the order in which they arrived.
    pub fn seen(&self) -> Vec<(i64, RecordedOutcome)> {
        self.lock().clone()
    }

    /// How many outcomes have arrived.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// The outcome of message `id`; the first one, if it wrongly has several.
    pub fn of(&self, id: i64) -> Option<RecordedOutcome> {
        self.lock().iter().find(|(seen, _)| *seen == id).map(|(_, seen)| seen.clone())
    }

    /// Waits until `count` outcomes have arrived.
    ///
    /// # Panics
    /// If they have not arrived `within` that time.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn wait_for(&self, count: usize, within: Duration) -> Vec<(i64, RecordedOutcome)> {
        self.wait_until(|seen| seen.len() >= count, within).await
    }

    /// Waits until the outcomes fulfil a condition.
    ///
    /// # Panics
    /// If they do not `within` that time.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn wait_until(
        &self,
        mut reached: impl FnMut(&[(i64, RecordedOutcome)]) -> bool,
        within: Duration,
    ) -> Vec<(i64, RecordedOutcome)> {
        let reached = async {
            loop {
                let mut changed = pin!(self.changed.notified());
                changed.as_mut().enable();
                if reached(&self.lock()) {
                    return;
                }
                changed.await;
            }
        };
        let reached = tokio::time::timeout(within, reached).await;
        let seen = self.seen();
        assert!(reached.is_ok(), "not after {within:?}, with {} outcomes; the last: {:?}", seen.len(), seen.last());
        seen
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(i64, RecordedOutcome)>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, id: i64, outcome: Outcome) {
        let seen = match outcome {
            Outcome::Delivered => RecordedOutcome::Delivered,
            Outcome::Busy => RecordedOutcome::Busy,
            Outcome::Failed(error) => RecordedOutcome::Failed { class: error.class(), text: full_error_text(&error) },
        };
        self.lock().push((id, seen));
        self.changed.notify_waiters();
    }
}

/// All that a log could show of an error.
pub(super) fn full_error_text(error: &(dyn std::error::Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(|error| format!("{error} / {error:?}")).collect::<Vec<_>>().join("; ")
}

/// A message of the suite.
pub(super) fn envelope(topic: &str, key: Option<&str>, payload: &str) -> Envelope {
    // Now, because brokers expire old messages by their own clock; in milliseconds, which is what brokers store.
    let now_ms = system_now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    let created_at = SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(now_ms).unwrap_or_default());
    let mut envelope = Envelope::new(MessageId::new(), topic.into(), created_at);
    envelope.key = key.map(str::to_owned);
    envelope.payload = Some(payload.as_bytes().to_vec());
    envelope
}
