//! Which group of records runs next, and when nothing else may.

use super::key_queue::{QueueKey, QueueState, Step};
use super::outcome::killed;
use super::partition::Partition;
use super::{Commit, Engine, Job, Mark, Note, Token};
use crate::consumer::options::OnFailure;

impl Partition {
    /// Notes that a record that ran in a group has ended, however.
    pub(super) fn ended_isolated(&mut self, offset: i64) {
        if let Some(isolation) = &mut self.isolation {
            isolation.ended(offset);
        }
    }

    /// The queue of the record that runs next, which is the first in the order of the partition that may run.
    fn next_isolated(&self) -> Option<(QueueKey, Option<i64>)> {
        let ready =
            self.queues.iter().filter(|(_, queue)| queue.state == QueueState::Ready && !queue.entries.is_empty());
        ready.map(|(key, queue)| (key.clone(), queue.first_offset())).min_by_key(|(_, offset)| *offset)
    }

    /// The queue of the next record, if it is of the group that runs.
    fn next_of_group(&self) -> Option<QueueKey> {
        let (key, offset) = self.next_isolated()?;
        let is_in_group = self.isolation.as_ref()?.is_in_marked_group(offset?);
        is_in_group.then_some(key)
    }

    /// Ends the group if none of it is left to run.
    fn end_group(&mut self) {
        let has_more = self.next_of_group().is_some();
        if let Some(isolation) = self.isolation.as_mut().filter(|_| self.running == 0) {
            isolation.pause_group(has_more);
        }
    }
}

impl Engine {
    /// Whether something runs apart from everything else: `Some(None)` while it has to wait for others to end or for its mark.
    pub(super) fn next_isolated(&mut self) -> Option<Option<Token>> {
        if let Some(generation) = self.isolated.filter(|_| self.running > 0) {
            let of = self.partitions.iter().find(|(_, partition)| partition.generation == generation);
            match of {
                Some((_, partition)) if partition.isolation.is_none() => {}
                Some((id, partition)) if !partition.is_closing && !partition.needs_reopening => {
                    let token = |queue| Token { partition: id.clone(), generation, queue };
                    return Some(partition.next_of_group().map(token));
                }
                _ => return Some(None),
            }
        }
        self.next_group()
    }

    /// The first record of the next group.
    fn next_group(&mut self) -> Option<Option<Token>> {
        let suspicious = self.partitions.iter_mut().filter(|(_, of)| of.isolation.is_some() && !of.is_closing);
        for (id, partition) in suspicious.filter(|(_, of)| !of.needs_reopening) {
            while let Some((key, offset)) = partition.next_isolated() {
                let Some(isolation) = &mut partition.isolation else { break };
                let Some(queue) = partition.queues.get_mut(&key) else { break };
                let kills = offset.map_or(0, |offset| isolation.kills(offset));
                let has_failed = kills >= self.options.crashes_max && queue.step == Step::Handle;
                if has_failed && self.options.on_failure == OnFailure::BlockKey {
                    queue.state = QueueState::Held;
                    continue;
                }
                if has_failed {
                    queue.step = Step::GiveUp { reason: killed(kills) };
                }
                // The handler does not run in any other case.
                let runs_handler = queue.step == Step::Handle;
                let is_marked = offset.is_none_or(|offset| !runs_handler || isolation.want_mark(offset));
                let may_begin = is_marked && self.running == 0;
                let token = Token { partition: id.clone(), generation: partition.generation, queue: key };
                return Some(may_begin.then_some(token));
            }
        }
        None
    }

    /// Takes the end of a job that ran in a group.
    pub(super) fn end_isolated(&mut self, job: &Job) {
        if self.running == 0 {
            self.isolated = None;
        }
        let partition = self.partitions.get_mut(&job.token.partition);
        let partition = partition.filter(|of| of.generation == job.token.generation);
        let Some(partition) = partition.filter(|_| job.isolated.is_some()) else { return };
        partition.end_group();
        if partition.isolation.is_none() {
            self.queue_ready(&job.token.partition);
        }
    }

    /// The mark that is to be committed before a group runs.
    pub(crate) fn wanted_mark(&self) -> Option<Mark> {
        self.partitions.iter().find_map(|(id, partition)| {
            let group = partition.isolation.as_ref()?.wanted()?;
            let note = Note { suspects: Some(group), ..partition.note() };
            let commit = Commit { partition: id.clone(), next: partition.watermark.next(), note };
            Some(Mark { commit, generation: partition.generation, group })
        })
    }

    /// Notes that the broker has the mark.
    pub(crate) fn marked(&mut self, mark: &Mark) {
        let partition = self.partitions.get_mut(&mark.commit.partition);
        let Some(partition) = partition.filter(|of| of.generation == mark.generation) else { return };
        if let Some(isolation) = &mut partition.isolation {
            isolation.marked(mark.group);
        }
        partition.committed = None;
    }
}
