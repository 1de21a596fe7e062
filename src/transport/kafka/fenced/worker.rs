use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::cause::EndReason;
use super::context::LaneProducer;
use super::job::Job;
use super::progress::Progress;
use super::transaction::deliver;
use crate::events::log_event;
use crate::limits::{
    KAFKA_LANE_IDLE, KAFKA_LANE_POLL, KAFKA_PROGRESS_POLL, KAFKA_TRANSACTION_BYTES_MAX, KAFKA_TRANSACTION_MESSAGES_MAX,
};
use crate::transport::Outcome;

/// Sends a lane's messages, one transaction after the other, on its own thread: the client's calls block.
pub(super) struct Worker {
    pub(super) producer: LaneProducer,
    pub(super) jobs: Receiver<Vec<Job>>,
    pub(super) is_open: Arc<AtomicBool>,
    pub(super) delivery_timeout: Duration,
    /// For an exactly-once topic.
    pub(super) progress: Option<Progress>,
}

impl Worker {
    /// Ends when the lane is dropped and all its messages are reported.
    pub(super) fn run(mut self) {
        let mut waiting = VecDeque::new();
        while self.gather(&mut waiting) {
            let Some(room) = self.wait_for_room(&mut waiting) else {
                return self.close(waiting.into_iter(), &EndReason::unsettled());
            };
            let jobs = transaction_of(&mut waiting, room);
            if let Err((left, cause)) = deliver(&self.producer, &mut self.progress, jobs, self.delivery_timeout) {
                return self.close(left.into_iter().chain(waiting), &cause);
            }
        }
    }

    /// How many messages the next transaction may have; `None` if too many rows stay in the table for too long.
    fn wait_for_room(&mut self, waiting: &mut VecDeque<Job>) -> Option<usize> {
        let ends_at = Instant::now() + self.delivery_timeout;
        loop {
            let Some(progress) = &mut self.progress else { return Some(KAFKA_TRANSACTION_MESSAGES_MAX) };
            // First: what an earlier owner delivered needs no room, and makes some once it is settled.
            report_delivered(progress, waiting);
            match progress.room() {
                room if room > 0 || waiting.is_empty() => return Some(room.min(KAFKA_TRANSACTION_MESSAGES_MAX)),
                _ if Instant::now() >= ends_at => return None,
                _ => self.producer.poll(KAFKA_PROGRESS_POLL),
            }
            self.take_queued(waiting);
        }
    }

    /// Collects what is queued, and waits if nothing is. Returns whether there is a message.
    fn gather(&self, waiting: &mut VecDeque<Job>) -> bool {
        while waiting.is_empty() {
            match self.jobs.recv_timeout(KAFKA_LANE_IDLE) {
                Ok(jobs) => waiting.extend(jobs),
                // Serves connection errors and log lines, which nobody else polls here.
                Err(RecvTimeoutError::Timeout) => self.producer.poll(KAFKA_LANE_POLL),
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        self.take_queued(waiting);
        true
    }

    fn take_queued(&self, waiting: &mut VecDeque<Job>) {
        while let Ok(jobs) = self.jobs.try_recv() {
            waiting.extend(jobs);
        }
    }

    /// Refuses all remaining and later messages until the lane is dropped.
    fn close(self, left: impl Iterator<Item = Job>, cause: &EndReason) {
        log_event!(FENCED_LANE_CLOSED, error = %cause.error());
        // Before the first outcome that shows it.
        self.is_open.store(false, Ordering::Release);
        left.for_each(|job| job.fail(cause.error()));
        loop {
            match self.jobs.recv_timeout(KAFKA_LANE_IDLE) {
                Ok(jobs) => jobs.into_iter().for_each(|job| job.fail(cause.error())),
                // Otherwise the events would pile up.
                Err(RecvTimeoutError::Timeout) => self.producer.poll(KAFKA_LANE_POLL),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

impl Drop for Worker {
    /// Also runs after a panic.
    fn drop(&mut self) {
        self.is_open.store(false, Ordering::Release);
    }
}

/// Reports what an earlier transaction delivered.
fn report_delivered(progress: &mut Progress, waiting: &mut VecDeque<Job>) {
    for job in std::mem::take(waiting) {
        match &job.row {
            Some(row) if progress.delivered.has(row) => job.sender.complete(Outcome::Delivered),
            _ => waiting.push_back(job),
        }
    }
}

fn transaction_of(waiting: &mut VecDeque<Job>, messages_max: usize) -> Vec<Job> {
    let (mut count, mut bytes) = (0, 0);
    for job in waiting.iter().take(messages_max) {
        bytes += job.envelope.size_bytes();
        // The first message is sent whatever its size.
        if count > 0 && bytes > KAFKA_TRANSACTION_BYTES_MAX {
            break;
        }
        count += 1;
    }
    waiting.drain(..count).collect()
}

#[cfg(test)]
mod tests {
    use super::super::job::tests::job;
    use super::*;
    use crate::transport::KeySequence;

    /// How many messages of these sizes go with each transaction.
    fn transactions(sizes: &[usize]) -> Vec<usize> {
        let mut waiting: VecDeque<Job> = sizes.iter().map(|bytes| job(*bytes, &KeySequence::new())).collect();
        let mut counts = Vec::new();
        while !waiting.is_empty() {
            counts.push(transaction_of(&mut waiting, KAFKA_TRANSACTION_MESSAGES_MAX).len());
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
