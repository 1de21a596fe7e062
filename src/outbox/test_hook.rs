use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use metrics::Gauge;

use super::Outbox;
use crate::clock::{BootInstant, SystemClock};
use crate::limits::Limits;
use crate::relay::FlushOutcome;
use crate::relay::direct::queue::{ConnectedRelay, InlineRow, Queue, Queues};
use crate::store::RowRef;

/// Stands in for a relay in our own tests: takes what is handed over, and does nothing with it.
#[derive(Debug)]
pub struct TestHook {
    outbox: Outbox,
    queue: Arc<Queue>,
}

/// A row that was handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedRow {
    /// Where it is.
    pub row: RowRef,
    /// Its topic.
    pub topic: Arc<str>,
    /// The payload, where the row itself was handed over.
    pub inline: Option<Option<Vec<u8>>>,
}

impl Outbox {
    /// Connects a test hook in the place of a relay.
    #[doc(hidden)]
    pub fn test_hook(&self) -> TestHook {
        let queue = Arc::new(Queue::new(Gauge::noop(), Limits::default().queue_rows_max, Arc::new(SystemClock)));
        assert!(
            self.link().connect(Queues::new(Arc::clone(&queue)), Arc::new(NothingToFlush)),
            "a relay or test hook is connected already"
        );
        TestHook { outbox: self.clone(), queue }
    }
}

#[derive(Debug)]
struct NothingToFlush;

#[async_trait]
impl ConnectedRelay for NothingToFlush {
    async fn flush(&self, _within: Duration) -> FlushOutcome {
        FlushOutcome::Settled
    }

    fn committing_to_lane(&self, _topic: &str, _lane: u16) {}

    fn committed_to_lane(&self, _topic: &str, _lane: u16, _id: Option<i64>, _inline: Option<Box<InlineRow>>) {}

    fn owns_lane(&self, _topic: &str, _lane: u16) -> bool {
        true
    }

    fn committed_delayed(&self, _due_at: BootInstant) {}

    fn poll_now(&self) {}
}

impl TestHook {
    /// Takes everything handed over so far.
    pub fn take(&self) -> Vec<CapturedRow> {
        let taken = self.queue.try_take(usize::MAX, usize::MAX);
        let captured = taken.into_iter().map(|queued| CapturedRow {
            row: queued.handed.row,
            topic: queued.handed.topic,
            inline: queued.handed.inline.map(|inline| inline.row.envelope.payload),
        });
        captured.collect()
    }
}

impl Drop for TestHook {
    fn drop(&mut self) {
        self.outbox.link().disconnect();
    }
}
