use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use metrics::Gauge;

use super::Outbox;
use crate::clock::{BootInstant, SystemClock};
use crate::limits::Limits;
use crate::relay::queue::{Carried, Flush, Queue, Queues};
use crate::store::RowRef;

/// Stands in for a relay in our own tests: takes what is handed over, and does nothing with it.
#[derive(Debug)]
pub struct Tap {
    outbox: Outbox,
    queue: Arc<Queue>,
}

/// A row that was handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tapped {
    /// Where it is.
    pub row: RowRef,
    /// Its topic.
    pub topic: Arc<str>,
    /// The payload, where the row itself was handed over.
    pub carried: Option<Option<Vec<u8>>>,
}

impl Outbox {
    /// Connects a tap in the place of a relay.
    #[doc(hidden)]
    pub fn tap(&self) -> Tap {
        let queue = Arc::new(Queue::new(Gauge::noop(), Limits::default().queue_refs_max, Arc::new(SystemClock)));
        assert!(
            self.link().connect(Queues::new(Arc::clone(&queue)), Arc::new(NothingToFlush)),
            "a relay or tap is connected already"
        );
        Tap { outbox: self.clone(), queue }
    }
}

#[derive(Debug)]
struct NothingToFlush;

#[async_trait]
impl Flush for NothingToFlush {
    async fn flush(&self, _within: Duration) -> bool {
        true
    }

    fn committing_to_lane(&self, _topic: &str, _lane: u16) {}

    fn committed_to_lane(&self, _topic: &str, _lane: u16, _id: Option<i64>, _carried: Option<Box<Carried>>) {}

    fn committed_for_later(&self, _due_at: BootInstant) {}

    fn look_again(&self) {}
}

impl Tap {
    /// Takes everything handed over so far.
    pub fn take(&self) -> Vec<Tapped> {
        let taken = self.queue.try_take(usize::MAX, usize::MAX);
        let tapped = taken.into_iter().map(|queued| Tapped {
            row: queued.handed.row,
            topic: queued.handed.topic,
            carried: queued.handed.carried.map(|carried| carried.row.envelope.payload),
        });
        tapped.collect()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.outbox.link().disconnect();
    }
}
