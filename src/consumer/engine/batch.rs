//! Which records a batch has, which is one transaction: only those that nothing sets apart. If one of them fails, each runs alone.

use super::key_queue::{KeyQueue, QueueState, Step, Work};
use super::partition::Partition;
use super::{Engine, Job, Token};
use crate::consumer::identity::asks_application;
use crate::consumer::options::Options;

impl KeyQueue {
    /// Whether the entry at this place may be in a batch. Those before it in the queue are in it already.
    fn fits_batch(&self, at: usize, options: &Options) -> bool {
        let Some(Work::Record(record)) = self.entries.get(at) else { return false };
        let is_untried = self.failures == 0 && self.conflicts == 0 && self.postponed == 0 && self.step == Step::Handle;
        is_untried && at >= self.alone && !asks_application(record, options.inbox_key.as_ref())
    }
}

impl Partition {
    /// Whether the record of a queue at this place may be in a batch. Records that run in groups, or seem to be copies, are in none, nor
    /// are those that may have to be parked.
    fn fits_batch(&self, token: &Token, at: usize, options: &Options) -> bool {
        let is_usual = self.isolated_left.is_none() && self.copies.due().is_none();
        let Some(queue) = self.queues.get(&token.queue).filter(|_| is_usual) else { return false };
        let key = queue.entries.get(at).and_then(Work::key);
        queue.fits_batch(at, options) && key.is_none_or(|key| !self.parked_keys.contains(key))
    }
}

impl Engine {
    fn fits_batch(&self, token: &Token, at: usize) -> bool {
        let partition = self.assigned(&token.partition, token.generation);
        partition.is_some_and(|partition| partition.fits_batch(token, at, &self.options))
    }

    /// The jobs of a batch that begins with the first record of this queue.
    pub(super) fn begin_batch(&mut self, first: Token) -> Vec<Job> {
        let rows_max = self.options.batch_records_max;
        if rows_max == 1 || !self.fits_batch(&first, 0) {
            return self.begin(first, 0).into_iter().collect();
        }
        let mut jobs = Vec::new();
        self.add_from_queue(first, rows_max, &mut jobs);
        // A stored offset is locked until the transaction ends: two of them in another order would be a deadlock.
        if !self.options.progress.has_offsets() {
            self.add_from_others(rows_max, &mut jobs);
        }
        jobs
    }

    /// Adds the first records of a queue: they cannot run at the same time anyway.
    fn add_from_queue(&mut self, token: Token, rows_max: usize, jobs: &mut Vec<Job>) {
        for at in 0..rows_max - jobs.len() {
            if !self.fits_batch(&token, at) {
                break;
            }
            jobs.extend(self.begin(token.clone(), at));
        }
    }

    /// Adds records of other queues, as long as enough are left for the other workers.
    fn add_from_others(&mut self, rows_max: usize, jobs: &mut Vec<Job>) {
        let mut set_apart = Vec::new();
        while jobs.len() < rows_max && set_apart.len() < rows_max && self.ready.len() >= self.options.workers {
            let Some(token) = self.ready.pop_front() else { break };
            match self.may_run(&token) {
                true if self.fits_batch(&token, 0) => self.add_from_queue(token, rows_max, jobs),
                true => set_apart.push(token),
                false => {}
            }
        }
        set_apart.into_iter().rev().for_each(|token| self.ready.push_front(token));
    }

    /// Runs the job's record again, in a transaction of its own. That spends nothing: which of them failed is not known yet.
    pub(super) fn run_alone(&mut self, token: &Token) {
        if let Some(queue) = self.queue(token) {
            queue.alone += 1;
            queue.state = QueueState::Ready;
            self.ready.push_front(token.clone());
        }
    }
}
