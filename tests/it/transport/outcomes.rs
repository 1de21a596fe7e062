//! What the tests of transports share: a sink that keeps outcomes, and envelopes to send.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use diesel_outbox::store::RowKey;
use diesel_outbox::transport::{FailureClass, Outcome, Receipt, ReceiptSink};
use diesel_outbox::{Envelope, MessageId};

/// Keeps outcomes in the order they come, with the row they are of.
#[derive(Default)]
pub(crate) struct Outcomes(Mutex<Vec<(i64, Seen)>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    Delivered,
    Busy,
    Failed(FailureClass),
}

impl Outcomes {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn receipt(self: &Arc<Self>, id: i64, envelope: &Envelope) -> Receipt {
        Receipt::new(RowKey { id, message_id: envelope.message_id }, Arc::clone(self) as Arc<dyn ReceiptSink>)
    }

    pub(crate) fn seen(&self) -> Vec<(i64, Seen)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ReceiptSink for Outcomes {
    fn settle(&self, row: RowKey, outcome: Outcome) {
        let seen = match outcome {
            Outcome::Delivered => Seen::Delivered,
            Outcome::Busy => Seen::Busy,
            Outcome::Failed(error) => Seen::Failed(error.class()),
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((row.id, seen));
    }
}

pub(crate) fn envelope(topic: &str, key: &str) -> Envelope {
    let mut envelope = Envelope::new(MessageId::new(), topic.into(), SystemTime::UNIX_EPOCH);
    envelope.key = Some(key.to_owned());
    envelope
}
