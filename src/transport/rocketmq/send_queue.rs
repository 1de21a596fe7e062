use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::capacity::CapacityPermit;
use super::error::NotSent;
use super::queues::Queue;
use super::record;
use crate::limits::ROCKETMQ_BATCH_MESSAGES_MAX;
use crate::message::Envelope;
use crate::transport::{FailureClass, Outcome, OutcomeSender, TransportError};

/// A message that waits to be sent.
pub(super) struct QueuedMessage {
    pub(super) envelope: Envelope,
    pub(super) held: PendingOutcome,
    pub(super) handed_at: Instant,
}

impl QueuedMessage {
    /// Drops the message because the transport is closed.
    pub(super) fn abandon(self) {
        self.held.complete(Outcome::Failed(TransportError::new(FailureClass::Temporary, NotSent::Closing)));
    }
}

/// What remains of a message while it is in a request: its outcome sender and its permit. The permit is released before the
/// report. Otherwise the next message, sent in response to the report, could find no room.
pub(super) struct PendingOutcome {
    pub(super) sender: OutcomeSender,
    pub(super) permit: CapacityPermit,
}

impl PendingOutcome {
    pub(super) fn complete(self, outcome: Outcome) {
        let Self { sender, permit } = self;
        drop(permit);
        sender.complete(outcome);
    }
}

/// The messages that wait for one queue of a topic. One request is in flight at a time; otherwise batches could
/// overtake each other. Messages that arrive meanwhile go with the next request. So batches grow with the load, and a
/// single message is sent at once.
pub(super) struct SendQueue {
    pub(super) queue: Queue,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: VecDeque<QueuedMessage>,
    has_worker: bool,
}

impl SendQueue {
    pub(super) fn new(queue: Queue) -> Arc<Self> {
        Arc::new(Self { queue, state: Mutex::default() })
    }

    /// Appends a message. Returns whether a worker must be started.
    pub(super) fn push(&self, entry: QueuedMessage) -> bool {
        let mut state = self.state();
        state.entries.push_back(entry);
        !std::mem::replace(&mut state.has_worker, true)
    }

    /// The messages of the next request; empty ends the worker. A message above the size limit goes alone.
    pub(super) fn next(&self, batches: bool, bytes_max: usize) -> Vec<QueuedMessage> {
        let mut state = self.state();
        let (mut bytes, mut count) = (0, 0);
        let messages_max = if batches { ROCKETMQ_BATCH_MESSAGES_MAX } else { 1 };
        for entry in state.entries.iter().take(messages_max) {
            bytes += record::size_bytes(&entry.envelope);
            if count > 0 && bytes > bytes_max {
                break;
            }
            count += 1;
        }
        state.has_worker = count > 0;
        state.entries.drain(..count).collect()
    }

    /// Removes everything that waits.
    pub(super) fn take(&self) -> VecDeque<QueuedMessage> {
        std::mem::take(&mut self.state().entries)
    }

    /// Whether nothing waits and no worker runs.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.state();
        state.entries.is_empty() && !state.has_worker
    }

    pub(super) fn len(&self) -> usize {
        self.state().entries.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Splits off the messages that have waited too long.
pub(super) fn split_expired(
    entries: Vec<QueuedMessage>,
    wait_max: Duration,
) -> (Vec<QueuedMessage>, Vec<QueuedMessage>) {
    let now = Instant::now();
    entries.into_iter().partition(|entry| now.duration_since(entry.handed_at) < wait_max)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::limits::ROCKETMQ_BATCH_BYTES_MAX;
    use crate::message::MessageId;
    use crate::store::RowKey;
    use crate::transport::OutcomeSink;
    use crate::transport::rocketmq::capacity::Capacity;

    struct Nobody;

    impl OutcomeSink for Nobody {
        fn complete(&self, _row: RowKey, _outcome: Outcome) {}
    }

    fn entry(bytes: usize) -> QueuedMessage {
        let mut envelope = Envelope::new(MessageId::new(), "orders".into(), SystemTime::UNIX_EPOCH);
        envelope.payload = Some(vec![0; bytes]);
        let row = RowKey { id: 1, message_id: envelope.message_id };
        let permit = Capacity::new(1).enter().expect("it is empty");
        let held = PendingOutcome { sender: OutcomeSender::of_row(row, Arc::new(Nobody)), permit };
        QueuedMessage { envelope, held, handed_at: Instant::now() }
    }

    /// How many messages of these sizes go with each request.
    fn requests(sizes: &[usize], batches: bool) -> Vec<usize> {
        let send_queue = SendQueue::new(Queue { broker: "a".into(), number: 0 });
        for bytes in sizes {
            send_queue.push(entry(*bytes));
        }
        let next = || Some(send_queue.next(batches, ROCKETMQ_BATCH_BYTES_MAX).len()).filter(|count| *count > 0);
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_request_has_no_more_messages_and_bytes_than_it_may_but_always_one() {
        let most = ROCKETMQ_BATCH_MESSAGES_MAX;
        let many: Vec<usize> = std::iter::repeat_n(1, most * 2 + 1).collect();
        assert_eq!(requests(&many, true), [most, most, 1]);
        let (quarter, larger) = (ROCKETMQ_BATCH_BYTES_MAX / 4, ROCKETMQ_BATCH_BYTES_MAX + 1);
        assert_eq!(requests(&[quarter; 4], true), [3, 1], "the frames count as well");
        assert_eq!(requests(&[larger, larger, 1], true), [1, 1, 1]);
        assert_eq!(requests(&[1; 3], false), [1, 1, 1]);
    }
}
