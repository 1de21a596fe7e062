//! What follows from the outcome of a job.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::groups::survived;
use super::key_queue::{KeyQueue, QueueState, Step, Work};
use super::{Engine, Job, Outcome, QueueKey, Replay, Settled, Token};
use crate::consumer::error::HandlerError;
use crate::consumer::options::OnFailure;
use crate::consumer::record::PartitionId;
use crate::limits::{
    CONSUMER_CONFLICT_WAIT, CONSUMER_CONFLICTS_MAX, CONSUMER_OUTAGE_WAIT_MAX, CONSUMER_POSTPONE_WAIT_MIN,
};

impl Engine {
    /// What an outcome means: a connection that was lost in an outage was not the handler's fault, and of many conflicts in a row each one
    /// is.
    pub(crate) fn judge(&self, job: &Job, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Conflict
                if matches!(job.work, Work::Record(_)) && self.conflicts(job) >= CONSUMER_CONFLICTS_MAX =>
            {
                Outcome::Failed(HandlerError::retriable("it met deadlocks or serialization failures time after time"))
            }
            Outcome::ConnectionLost(error) if self.outage.count() != job.outages => {
                Outcome::Postponed(error.to_string())
            }
            Outcome::ConnectionLost(error) => Outcome::Failed(error),
            outcome => outcome,
        }
    }

    /// Takes the outcome of a job. `wait` is how long its record waits if it failed.
    pub(crate) fn complete(&mut self, job: &Job, outcome: &Outcome, wait: Duration, now: Instant) -> Settled {
        self.running = self.running.saturating_sub(1);
        let settled = match self.release(job, outcome) {
            true => self.settle(job, outcome, wait, now),
            false => Settled::Late,
        };
        self.end_in_group(job, outcome);
        settled
    }

    /// Ends the job's hold on its partition. Returns whether the assignment is still the one that it began in.
    fn release(&mut self, job: &Job, outcome: &Outcome) -> bool {
        let Some(partition) = self.assigned_mut(&job.token.partition, job.token.generation) else { return false };
        partition.running = partition.running.saturating_sub(1);
        if let Some(queue) = partition.queues.get_mut(&job.token.queue) {
            queue.running = queue.running.saturating_sub(1);
        }
        partition.end_look_ahead(job, outcome);
        if let Some(offset) = survived(job, outcome) {
            partition.suspects.survive(offset);
        }
        true
    }

    /// Tries the same again after a while.
    fn postpone(&mut self, job: &Job, now: Instant) -> Settled {
        let Some(queue) = self.queue(&job.token) else { return Settled::Late };
        let wait = CONSUMER_POSTPONE_WAIT_MIN * 2_u32.saturating_pow(queue.postponed.min(16));
        queue.postponed = queue.postponed.saturating_add(1);
        self.wait(&job.token, now + wait.min(CONSUMER_OUTAGE_WAIT_MAX));
        Settled::Deferred
    }

    /// How often the job's record met others in a row.
    fn conflicts(&self, job: &Job) -> u32 {
        let queue = self.partitions.get(&job.token.partition).and_then(|of| of.queues.get(&job.token.queue));
        queue.map_or(0, |queue| queue.conflicts)
    }

    pub(super) fn queue(&mut self, token: &Token) -> Option<&mut KeyQueue> {
        self.partitions.get_mut(&token.partition)?.queues.get_mut(&token.queue)
    }

    fn settle(&mut self, job: &Job, outcome: &Outcome, wait: Duration, now: Instant) -> Settled {
        match outcome {
            // The database said that none of its key is left.
            Outcome::Handled => {
                self.note_parked(job, false);
                self.done(job)
            }
            Outcome::Parked => {
                self.note_parked(job, true);
                self.done(job)
            }
            Outcome::TooOld | Outcome::ParkedAlone => {
                if let Some(partition) = self.partitions.get_mut(&job.token.partition) {
                    partition.has_parked_alone = true;
                }
                self.done(job)
            }
            Outcome::Duplicate { is_key_parked, ahead } => {
                self.note_parked(job, *is_key_parked || job.is_key_parked);
                self.advance(&job.token);
                let Some(partition) = self.partitions.get_mut(&job.token.partition) else { return Settled::Late };
                partition.copies.note(true);
                Settled::Copies(partition.pass_over(ahead))
            }
            Outcome::Replayed { is_key_free } => {
                self.replays_ended += 1;
                if let (true, Work::Replay(Replay::Key(key))) = (is_key_free, &job.work)
                    && let Some(partition) = self.partitions.get_mut(&job.token.partition)
                {
                    partition.parked_keys.remove(key);
                }
                self.done(job)
            }
            Outcome::OffsetMoved => {
                if let Some(partition) = self.partitions.get_mut(&job.token.partition) {
                    partition.needs_reopening = true;
                }
                Settled::Reopening
            }
            Outcome::Failed(_) | Outcome::ConnectionLost(_) if matches!(job.work, Work::Replay(_)) => {
                self.advance(&job.token);
                self.replays_ended += 1;
                Settled::ReplayFailed
            }
            Outcome::Conflict if matches!(job.work, Work::Replay(_)) => self.postpone(job, now),
            Outcome::Conflict => self.conflict(job, now),
            Outcome::Failed(error) | Outcome::ConnectionLost(error) => self.failed(job, error, wait, now),
            Outcome::Postponed(_) => self.postpone(job, now),
            Outcome::BatchRefused | Outcome::BatchFailed => {
                self.run_alone(&job.token);
                Settled::Deferred
            }
            // Nothing runs before it is back.
            Outcome::DatabaseAway(_) => {
                self.ready_first(&job.token);
                Settled::Deferred
            }
        }
    }

    /// Ends the job's work for good, which was new.
    fn done(&mut self, job: &Job) -> Settled {
        self.advance(&job.token);
        if let (Work::Record(_), Some(partition)) = (&job.work, self.partitions.get_mut(&job.token.partition)) {
            partition.survive();
            partition.copies.note(false);
        }
        Settled::Done
    }

    /// Remembers whether the key of the job's record has parked records.
    fn note_parked(&mut self, job: &Job, is_parked: bool) {
        let Work::Record(record) = &job.work else { return };
        let (Some(key), Some(partition)) = (&record.key, self.partitions.get_mut(&job.token.partition)) else { return };
        if is_parked {
            partition.parked_keys.insert(Arc::clone(key));
        } else if job.is_key_parked {
            partition.parked_keys.remove(key);
        }
    }

    /// Ends the first entry of a queue, and turns to the next one.
    fn advance(&mut self, token: &Token) {
        let Some(partition) = self.partitions.get_mut(&token.partition) else { return };
        let Some(queue) = partition.queues.get_mut(&token.queue) else { return };
        let done = queue.advance();
        let (is_empty, is_settled) = (queue.entries.is_empty(), queue.running == 0);
        if is_empty {
            partition.queues.remove(&token.queue);
        }
        if let Some(Work::Record(record)) = done {
            partition.finish(&record);
        }
        // One turn for a batch, however many records it had.
        if !is_empty && is_settled {
            self.ready.push_back(token.clone());
        }
    }

    /// Lets a queue run again before all others, once all of its batch is settled.
    pub(super) fn ready_first(&mut self, token: &Token) {
        let Some(queue) = self.queue(token) else { return };
        queue.state = QueueState::Ready;
        if queue.running == 0 {
            self.ready.push_front(token.clone());
        }
    }

    fn conflict(&mut self, job: &Job, now: Instant) -> Settled {
        let Some(queue) = self.queue(&job.token) else { return Settled::Late };
        queue.conflicts += 1;
        let until = now + CONSUMER_CONFLICT_WAIT * queue.conflicts;
        self.wait(&job.token, until);
        Settled::Deferred
    }

    fn failed(&mut self, job: &Job, error: &HandlerError, wait: Duration, now: Instant) -> Settled {
        let options = Arc::clone(&self.options);
        let Some(queue) = self.queue(&job.token) else { return Settled::Late };
        queue.failures = queue.failures.saturating_add(1);
        let failures = queue.failures;
        let is_final = !error.is_retriable() || failures >= options.attempts_max;
        if queue.step == Step::Handle && is_final && options.on_failure != OnFailure::BlockKey {
            queue.step = Step::GiveUp { reason: error.to_string().into() };
            self.ready_first(&job.token);
            return Settled::Exhausted { failures };
        }
        self.wait(&job.token, now + wait);
        match is_final {
            true => Settled::Blocked { failures, wait },
            false => Settled::Retried { failures, wait },
        }
    }

    /// Gives the queues of a partition that may run their turns. Entries that are there twice do no harm.
    pub(super) fn queue_ready(&mut self, id: &PartitionId) {
        let Some(partition) = self.partitions.get(id) else { return };
        let ready = partition.queues.iter().filter(|(_, queue)| queue.state == QueueState::Ready);
        let token =
            |queue: &QueueKey| Token { partition: id.clone(), generation: partition.generation, queue: queue.clone() };
        let tokens: Vec<Token> = ready.map(|(queue, _)| token(queue)).collect();
        self.ready.extend(tokens);
    }

    /// Has every partition opened again: the broker's client does not say which one has lost its place.
    pub(crate) fn reopen_all(&mut self) {
        for partition in self.partitions.values_mut() {
            partition.needs_reopening = true;
        }
    }

    /// Partitions to be opened again. They stay as they are until then.
    pub(crate) fn take_reopenings(&mut self) -> Vec<PartitionId> {
        let moved = self.partitions.iter().filter(|(_, of)| of.needs_reopening && of.running == 0 && !of.is_closing);
        // Its mark is taken back first: until it is open again, other things run.
        let moved = moved.filter(|(_, of)| !self.groups.is_marked(of.generation) && !self.groups.is_being_told);
        let ids: Vec<_> = moved.map(|(id, _)| id.clone()).collect();
        for id in &ids {
            self.partitions.remove(id);
        }
        ids
    }
}
