//! Which records a batch has, which is one transaction: only those that nothing sets apart. If one of them fails, each runs alone.

use super::key_queue::{KeyQueue, Step, Work};
use super::partition::Partition;
use super::{Engine, Job, Token};
use crate::consumer::identity::asks_application;
use crate::consumer::options::Options;

impl Partition {
    /// Whether the record of a queue at this place may be in a batch; those before it in the queue are in it already. Records that run in
    /// groups, or seem to be copies, are in none, nor are those that were tried before, or may have to be parked.
    fn fits_batch(&self, token: &Token, at: usize, options: &Options) -> bool {
        let is_usual = self.isolated_left.is_none() && self.copies.due().is_none();
        let Some(queue) = self.queues.get(&token.queue).filter(|queue| is_usual && queue.is_fresh()) else {
            return false;
        };
        let Some(Work::Record(record)) = queue.entries.get(at) else { return false };
        let may_be_parked = record.key.as_ref().is_some_and(|key| self.parked_keys.contains(key));
        !may_be_parked && !asks_application(record, options.inbox_key.as_ref())
    }
}

impl KeyQueue {
    /// Whether nothing of it was tried before.
    fn is_fresh(&self) -> bool {
        let tries = [self.failures, self.conflicts, self.postponed];
        tries == [0; 3] && self.alone == 0 && self.step == Step::Handle
    }
}

impl Engine {
    fn fits_batch(&self, token: &Token, at: usize) -> bool {
        let partition = self.assigned(&token.partition, token.generation);
        partition.is_some_and(|partition| partition.fits_batch(token, at, &self.options))
    }

    /// The jobs of a batch that begins with the first record of this queue.
    pub(super) fn begin_batch(&mut self, first: Token) -> Vec<Job> {
        let records_max = self.options.batch_records_max;
        let mut jobs = Vec::new();
        if records_max == 1 || !self.add_from_queue(&first, records_max, &mut jobs) {
            return self.begin(first, 0).into_iter().collect();
        }
        // A stored offset is locked until the transaction ends: two of them in another order would be a deadlock.
        if !self.options.progress.has_offsets() {
            self.add_from_others(records_max, &mut jobs);
        }
        jobs
    }

    /// Adds the first records of a queue, which cannot run at the same time anyway. Returns whether the first one fits.
    fn add_from_queue(&mut self, token: &Token, records_max: usize, jobs: &mut Vec<Job>) -> bool {
        let before = jobs.len();
        for at in 0..records_max - before {
            if !self.fits_batch(token, at) {
                break;
            }
            jobs.extend(self.begin(token.clone(), at));
        }
        jobs.len() > before
    }

    /// Adds records of other queues, as long as enough are left for the other workers.
    fn add_from_others(&mut self, records_max: usize, jobs: &mut Vec<Job>) {
        let mut set_apart = Vec::new();
        while jobs.len() < records_max && set_apart.len() < records_max && self.ready.len() >= self.options.workers {
            let Some(token) = self.ready.pop_front() else { break };
            if self.may_run(&token) && !self.add_from_queue(&token, records_max, jobs) {
                set_apart.push(token);
            }
        }
        set_apart.into_iter().rev().for_each(|token| self.ready.push_front(token));
    }

    /// Runs the job's record again, in a transaction of its own. That spends nothing: which of them failed is not known yet.
    pub(super) fn run_alone(&mut self, token: &Token) {
        if let Some(queue) = self.queue(token) {
            queue.alone += 1;
        }
        self.ready_first(token);
    }
}
