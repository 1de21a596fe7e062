use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use super::cause::EndReason;
use super::context::LaneProducer;
use super::transaction::{Job, deliver};
use crate::limits::{KAFKA_LANE_IDLE, KAFKA_LANE_POLL, KAFKA_TRANSACTION_BYTES_MAX, KAFKA_TRANSACTION_MESSAGES_MAX};

/// Sends what a lane is given, one transaction after the other, on a thread of its own: the client's calls wait.
pub(super) struct Worker {
    pub(super) producer: LaneProducer,
    pub(super) jobs: Receiver<Vec<Job>>,
    pub(super) is_open: Arc<AtomicBool>,
    pub(super) delivery_timeout: Duration,
}

impl Worker {
    /// Ends when nobody has the lane any more and all that it was given is reported.
    pub(super) fn run(self) {
        let mut waiting = VecDeque::new();
        while self.gather(&mut waiting) {
            let jobs = transaction_of(&mut waiting);
            if let Err((left, cause)) = deliver(&self.producer, jobs, self.delivery_timeout) {
                return self.close(left.into_iter().chain(waiting), &cause);
            }
        }
    }

    /// Takes in what is there, and waits for something where nothing is; says whether there is any.
    fn gather(&self, waiting: &mut VecDeque<Job>) -> bool {
        while waiting.is_empty() {
            match self.jobs.recv_timeout(KAFKA_LANE_IDLE) {
                Ok(jobs) => waiting.extend(jobs),
                // Errors of connections and log lines, which nobody hears otherwise.
                Err(RecvTimeoutError::Timeout) => self.producer.poll(KAFKA_LANE_POLL),
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        while let Ok(jobs) = self.jobs.try_recv() {
            waiting.extend(jobs);
        }
        true
    }

    /// Refuses all that is here and whatever comes until nobody has the lane any more.
    fn close(self, left: impl Iterator<Item = Job>, cause: &EndReason) {
        tracing::warn!(error = %cause.error(), "a fenced lane sends nothing more before it is fenced anew");
        // Before the first outcome that says so.
        self.is_open.store(false, Ordering::Release);
        left.for_each(|job| job.fail(cause.error()));
        loop {
            match self.jobs.recv_timeout(KAFKA_LANE_IDLE) {
                Ok(jobs) => jobs.into_iter().for_each(|job| job.fail(cause.error())),
                // Or they would pile up.
                Err(RecvTimeoutError::Timeout) => self.producer.poll(KAFKA_LANE_POLL),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

impl Drop for Worker {
    /// After a panic, too.
    fn drop(&mut self) {
        self.is_open.store(false, Ordering::Release);
    }
}

fn transaction_of(waiting: &mut VecDeque<Job>) -> Vec<Job> {
    let (mut count, mut bytes) = (0, 0);
    for job in waiting.iter().take(KAFKA_TRANSACTION_MESSAGES_MAX) {
        bytes += job.envelope.size_bytes();
        // One goes whatever its size.
        if count > 0 && bytes > KAFKA_TRANSACTION_BYTES_MAX {
            break;
        }
        count += 1;
    }
    waiting.drain(..count).collect()
}

#[cfg(test)]
mod tests {
    use super::super::transaction::tests::job;
    use super::*;
    use crate::transport::KeySequence;

    /// How many go with each transaction, of messages of these sizes.
    fn transactions(sizes: &[usize]) -> Vec<usize> {
        let mut waiting: VecDeque<Job> = sizes.iter().map(|bytes| job(*bytes, &KeySequence::new())).collect();
        let mut counts = Vec::new();
        while !waiting.is_empty() {
            counts.push(transaction_of(&mut waiting).len());
        }
        counts
    }

    #[test]
    fn a_transaction_has_no_more_messages_and_bytes_than_it_may_but_always_one() {
        let most = KAFKA_TRANSACTION_MESSAGES_MAX;
        let many: Vec<usize> = std::iter::repeat_n(1, most * 2 + 1).collect();
        assert_eq!(transactions(&many), [most, most, 1]);
        let (quarter, larger) = (KAFKA_TRANSACTION_BYTES_MAX / 4, KAFKA_TRANSACTION_BYTES_MAX + 1);
        assert_eq!(transactions(&[quarter; 5]), [4, 1]);
        assert_eq!(transactions(&[larger, larger, 1]), [1, 1, 1]);
    }
}
