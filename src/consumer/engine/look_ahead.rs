//! Which records are looked up together, and what becomes of those that are copies.

use std::sync::Arc;

use super::Job;
use super::copies::Copies;
use super::key_queue::{KeyQueue, QueueKey, QueueState, Step, Work};
use super::outcome::Outcome;
use super::partition::Partition;
use crate::consumer::record::Record;

impl KeyQueue {
    /// Whether its first record may run, and has not run yet.
    fn is_untried(&self) -> bool {
        self.state == QueueState::Ready && self.failures == 0 && self.step == Step::Handle
    }
}

impl Partition {
    /// The records that a worker is to look up if the first one of `queue`, which it gets, is a copy.
    pub(super) fn look_ahead(&mut self, queue: &QueueKey) -> Vec<Arc<Record>> {
        let Some(rows) = self.copies.due().filter(|_| self.isolated_left.is_none()) else { return Vec::new() };
        let own = self.queues.get(queue).into_iter().flat_map(|of| of.entries.iter().skip(1));
        let others = self.queues.iter().filter(|(key, of)| *key != queue && of.is_untried());
        let entries = own.chain(others.flat_map(|(_, of)| &of.entries));
        let records: Vec<_> = entries.filter_map(Work::record).take(rows).cloned().collect();
        if !records.is_empty() {
            self.copies.begin();
        }
        records
    }

    /// Notes the end of a job that may have looked up others.
    pub(super) fn end_look_ahead(&mut self, job: &Job, outcome: &Outcome) {
        if !job.ahead.is_empty() {
            let copies = if let Outcome::Duplicate { ahead, .. } = outcome { ahead.offsets.len() } else { 0 };
            self.copies.end(job.ahead.len(), copies);
        }
    }

    /// Finishes copies, wherever they are next in their queues. Returns how many.
    pub(super) fn pass_over(&mut self, copies: &Copies) -> usize {
        let mut passed = Vec::new();
        for queue in self.queues.values_mut().filter(|queue| queue.is_untried()) {
            while queue.first_offset().is_some_and(|offset| copies.offsets.contains(&offset)) {
                passed.extend(queue.advance());
            }
        }
        self.queues.retain(|_, queue| !queue.entries.is_empty());
        self.parked_keys.extend(copies.parked_keys.iter().cloned());
        for work in &passed {
            if let Work::Record(record) = work {
                self.finish(record);
            }
        }
        passed.len()
    }
}
