use std::fmt;
use std::sync::Arc;

use super::{FailureClass, Outcome, TransportError};
use crate::store::RowKey;

/// Where outcomes go. Called from the transport's threads: it must neither block nor panic.
pub trait ReceiptSink: Send + Sync + 'static {
    /// Takes the outcome of one row.
    fn settle(&self, row: RowKey, outcome: Outcome);
}

/// The right to report one message's outcome, once.
///
/// Dropped without an outcome it reports a temporary failure, so that a transport that forgets a message delays it
/// instead of losing it.
pub struct Receipt {
    row: RowKey,
    sink: Option<Arc<dyn ReceiptSink>>,
}

impl Receipt {
    /// A receipt for `row` that reports to `sink`.
    pub fn new(row: RowKey, sink: Arc<dyn ReceiptSink>) -> Self {
        Self { row, sink: Some(sink) }
    }

    /// Reports the outcome.
    pub fn settle(mut self, outcome: Outcome) {
        self.report(outcome);
    }

    fn report(&mut self, outcome: Outcome) {
        if let Some(sink) = self.sink.take() {
            sink.settle(self.row, outcome);
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        self.report(Outcome::Failed(TransportError::new(FailureClass::Temporary, Forgotten)));
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Receipt").field(&self.row).finish()
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the transport dropped the message without saying what became of it")]
struct Forgotten;
