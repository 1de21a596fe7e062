//! What follows from the outcome of a job.

use std::sync::Arc;
use std::time::Instant;

use super::lane::{LaneState, Step, Work};
use super::{Engine, Job, LaneKey, Outcome, Replay, Settled, Token};
use crate::consumer::error::HandlerError;
use crate::consumer::options::OnFailure;
use crate::consumer::record::PartitionId;
use crate::limits::{CONSUMER_CONFLICT_WAIT, CONSUMER_CONFLICTS_MAX, CONSUMER_OUTAGE_WAIT_MAX};
use crate::retry::retry_wait;

impl Engine {
    /// Takes the outcome of a job. With `true`, the database is back.
    pub(crate) fn complete(&mut self, job: &Job, outcome: &Outcome, now: Instant) -> (Settled, bool) {
        self.running = self.running.saturating_sub(1);
        self.is_alone_running = false;
        if let Outcome::DatabaseAway(_) = outcome {
            let is_outage_new = self.outage.begin(now, job.is_probe);
            let is_current = self.release(job);
            return (if is_current { self.defer(job, is_outage_new) } else { Settled::Late }, false);
        }
        let is_back = self.outage.end();
        let settled = match self.release(job) {
            true => self.settle(job, outcome, now),
            false => Settled::Late,
        };
        self.resume_after_alone(job);
        (settled, is_back)
    }

    /// Ends the job's hold on its partition. Returns whether the assignment is still the one that it began in.
    fn release(&mut self, job: &Job) -> bool {
        let partition = self.partitions.get_mut(&job.token.partition);
        let Some(partition) = partition.filter(|of| of.generation == job.token.generation) else { return false };
        partition.running = partition.running.saturating_sub(1);
        if let Some(offset) = job.alone {
            partition.ended_alone(offset);
        }
        true
    }

    /// Tries the same again once the database is there. A replay is found again by the next look for released records.
    fn defer(&mut self, job: &Job, is_outage_new: bool) -> Settled {
        match job.work {
            Work::Replay(_) => self.advance(&job.token),
            Work::Record(_) => self.ready_again(&job.token, true),
        }
        Settled::Deferred { is_outage_new }
    }

    fn settle(&mut self, job: &Job, outcome: &Outcome, now: Instant) -> Settled {
        match outcome {
            Outcome::Handled | Outcome::TooOld | Outcome::Parked | Outcome::DeadLettered => {
                if let (Outcome::DeadLettered, Some(partition)) =
                    (outcome, self.partitions.get_mut(&job.token.partition))
                {
                    partition.has_dead_letters = true;
                }
                match outcome {
                    Outcome::Parked => self.note_parked(job, true),
                    // The database said that none is left.
                    Outcome::Handled => self.note_parked(job, false),
                    _ => {}
                }
                self.advance(&job.token);
                Settled::Done
            }
            Outcome::Duplicate { is_key_parked } => {
                self.note_parked(job, *is_key_parked || job.is_key_parked);
                self.advance(&job.token);
                Settled::Done
            }
            Outcome::Replayed { is_key_free } => {
                if let (true, Work::Replay(Replay::Key(key))) = (is_key_free, &job.work)
                    && let Some(partition) = self.partitions.get_mut(&job.token.partition)
                {
                    partition.parked_keys.remove(key);
                }
                self.advance(&job.token);
                Settled::Done
            }
            Outcome::OffsetMoved => {
                if let Some(partition) = self.partitions.get_mut(&job.token.partition) {
                    partition.needs_reopening = true;
                }
                Settled::Reopening
            }
            Outcome::Conflict => self.conflict(job, now),
            Outcome::Failed(_) if matches!(job.work, Work::Replay(_)) => {
                self.advance(&job.token);
                Settled::ReplayFailed
            }
            Outcome::Failed(error) => self.failed(job, error, now),
            Outcome::DatabaseAway(_) => unreachable!("complete has deferred it"),
        }
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

    /// Ends the first entry of a lane, and turns to the next one.
    fn advance(&mut self, token: &Token) {
        let Some(partition) = self.partitions.get_mut(&token.partition) else { return };
        let Some(lane) = partition.lanes.get_mut(&token.lane) else { return };
        let done = lane.advance();
        let is_empty = lane.queue.is_empty();
        if is_empty {
            partition.lanes.remove(&token.lane);
        }
        if let Some(Work::Record(record)) = done {
            partition.finish(&record);
        }
        if !is_empty {
            self.ready.push_back(token.clone());
        }
    }

    fn ready_again(&mut self, token: &Token, is_first: bool) {
        let partition = self.partitions.get_mut(&token.partition);
        if let Some(lane) = partition.and_then(|partition| partition.lanes.get_mut(&token.lane)) {
            lane.state = LaneState::Ready;
            match is_first {
                true => self.ready.push_front(token.clone()),
                false => self.ready.push_back(token.clone()),
            }
        }
    }

    fn conflict(&mut self, job: &Job, now: Instant) -> Settled {
        let partition = self.partitions.get_mut(&job.token.partition);
        let lane = partition.and_then(|partition| partition.lanes.get_mut(&job.token.lane));
        let Some(lane) = lane else { return Settled::Late };
        lane.conflicts += 1;
        if lane.conflicts > CONSUMER_CONFLICTS_MAX {
            let error = HandlerError::retriable("it met deadlocks or serialization failures time after time");
            return self.failed(job, &error, now);
        }
        let until = now + CONSUMER_CONFLICT_WAIT * lane.conflicts;
        lane.state = LaneState::Waiting(until);
        self.wait(job.token.clone(), until);
        Settled::Deferred { is_outage_new: false }
    }

    fn failed(&mut self, job: &Job, error: &HandlerError, now: Instant) -> Settled {
        let options = Arc::clone(&self.options);
        let partition = self.partitions.get_mut(&job.token.partition);
        let lane = partition.and_then(|partition| partition.lanes.get_mut(&job.token.lane));
        let Some(lane) = lane else { return Settled::Late };
        lane.failures = lane.failures.saturating_add(1);
        let failures = lane.failures;
        let is_final = !error.is_retriable() || failures >= options.attempts_max;
        if lane.step == Step::Handle && is_final && options.on_failure != OnFailure::HoldKey {
            lane.step = Step::GiveUp { reason: error.to_string().into() };
            self.ready_again(&job.token, true);
            return Settled::GivenUp { failures };
        }
        let wait = match lane.step {
            Step::Handle => retry_wait(&*options.retry, &job.token.partition.topic, failures),
            // Neither parked nor dead-lettered: the table is missing, or refuses the row.
            Step::GiveUp { .. } => CONSUMER_OUTAGE_WAIT_MAX,
        };
        let until = now + wait;
        lane.state = LaneState::Waiting(until);
        self.wait(job.token.clone(), until);
        match is_final {
            true => Settled::Held { failures, wait },
            false => Settled::Retried { failures, wait },
        }
    }

    /// Puts the lanes of a partition back into the queue once its records need not run alone any more.
    fn resume_after_alone(&mut self, job: &Job) {
        let Some(partition) = self.partitions.get(&job.token.partition) else { return };
        if job.alone.is_some() && partition.alone.is_none() {
            let ready = partition.lanes.iter().filter(|(_, lane)| lane.state == LaneState::Ready);
            let token = |lane: &LaneKey| Token { lane: lane.clone(), ..job.token.clone() };
            let tokens: Vec<Token> = ready.map(|(lane, _)| token(lane)).collect();
            self.ready.extend(tokens);
        }
    }

    /// Partitions to be opened again. They stay as they are until then.
    pub(crate) fn take_reopenings(&mut self) -> Vec<PartitionId> {
        let moved = self.partitions.iter().filter(|(_, of)| of.needs_reopening && of.running == 0 && !of.is_closing);
        let ids: Vec<_> = moved.map(|(id, _)| id.clone()).collect();
        for id in &ids {
            self.partitions.remove(id);
        }
        ids
    }
}
