//! Records that run in groups, each apart from everything else, because one of them may kill the process.
//!
//! Before a group begins, the broker has to know which one it is. While it runs, nothing else does. So the next owner knows which records
//! ended the process, and runs those one by one. **Rejected:** one by one from the start. Each would need a commit of its own, and a
//! consumer that something else kills now and then would never catch up.

use super::isolation::{Groups, NextInGroups};
use super::key_queue::{QueueKey, QueueState, Step};
use super::note::Group;
use super::outcome::killed;
use super::partition::Partition;
use super::{Commit, Engine, Job, Mark, Note, Outcome, OwnedGroup, Token};
use crate::consumer::options::OnFailure;

impl Partition {
    /// The queues that may run, with the offsets of their first records. Replays have none.
    fn ready(&self) -> impl Iterator<Item = (&QueueKey, Option<i64>)> {
        let ready =
            self.queues.iter().filter(|(_, queue)| queue.state == QueueState::Ready && !queue.entries.is_empty());
        ready.map(|(key, queue)| (key, queue.first_offset()))
    }

    /// The queue of the next record of a group.
    fn next_in(&self, group: Group) -> Option<QueueKey> {
        let inside = self.ready().filter(|(_, offset)| offset.is_some_and(|offset| group.contains(offset)));
        inside.min_by_key(|(_, offset)| *offset).map(|(key, _)| key.clone())
    }

    fn takes_part(&self) -> bool {
        self.isolated_left.is_some() && !self.is_closing && !self.needs_reopening
    }
}

impl Engine {
    /// What may run while a partition's records run in groups.
    pub(super) fn next_in_groups(&mut self) -> NextInGroups {
        if self.groups.is_being_told {
            return NextInGroups::Wait;
        }
        if let Some(marked) = &self.groups.marked {
            let partition = self.assigned(&marked.partition, marked.generation);
            let open = partition.filter(|of| of.takes_part() && !self.groups.is_stale);
            let queue = open.and_then(|of| of.next_in(marked.group));
            if let Some(queue) = queue {
                let (partition, generation) = (marked.partition.clone(), marked.generation);
                return NextInGroups::Run(Token { partition, generation, queue });
            }
            if self.running > 0 {
                return NextInGroups::Wait;
            }
            if partition.is_none() {
                // Whoever has it now has told the broker.
                self.groups.marked = None;
            }
        }
        match self.next_candidate() {
            Some(_) if self.running > 0 => NextInGroups::Wait,
            Some((token, needed)) if self.groups.marked.is_some() || needed.is_some() => self.want(needed, token),
            Some((token, _)) => NextInGroups::Run(token),
            None if self.groups.marked.is_some() => {
                self.groups.wanted = Some(None);
                NextInGroups::Wait
            }
            None => NextInGroups::Free,
        }
    }

    /// Asks for a mark. What needs none runs if the broker knows that none does.
    fn want(&mut self, needed: Option<Group>, token: Token) -> NextInGroups {
        let Token { partition, generation, .. } = token;
        self.groups.wanted = Some(needed.map(|group| OwnedGroup { partition, generation, group }));
        NextInGroups::Wait
    }

    /// The first queue in the order of its partition, and the group that it needs.
    fn next_candidate(&mut self) -> Option<(Token, Option<Group>)> {
        for (id, partition) in self.partitions.iter_mut().filter(|(_, of)| of.takes_part()) {
            loop {
                let first = partition.ready().min_by_key(|(_, offset)| *offset);
                let Some((key, offset)) = first.map(|(key, offset)| (key.clone(), offset)) else { break };
                let Some(queue) = partition.queues.get_mut(&key) else { break };
                let kills = offset.map_or(0, |offset| partition.suspects.kills(offset));
                let has_failed = kills >= self.options.crashes_max && queue.step == Step::Handle;
                if has_failed && self.options.on_failure == OnFailure::BlockKey {
                    queue.state = QueueState::Blocked;
                    continue;
                }
                if has_failed {
                    queue.step = Step::GiveUp { reason: killed(kills) };
                }
                let needed = offset.filter(|_| queue.step == Step::Handle);
                let needed = needed.map(|offset| partition.suspects.group_from(offset));
                return Some((Token { partition: id.clone(), generation: partition.generation, queue: key }, needed));
            }
        }
        None
    }

    /// Takes the end of a job that may have run in a group.
    pub(super) fn end_in_group(&mut self, job: &Job, outcome: &Outcome) {
        let is_single = |marked: &OwnedGroup| marked.generation == job.token.generation && marked.group.rows == 1;
        if self.groups.marked.as_ref().is_some_and(is_single) && survived(job, outcome).is_some() {
            self.groups.is_stale = true;
        }
        let partition = self.assigned_mut(&job.token.partition, job.token.generation);
        if partition.is_some_and(|partition| partition.end_isolation()) {
            self.queue_ready(&job.token.partition);
        }
    }

    /// Nothing runs in an outage, so nothing of it ends the process.
    pub(super) fn unmark_idle(&mut self) {
        let may_be_marked = self.groups.marked.is_some() || self.groups.is_being_told;
        self.groups.wanted = (may_be_marked && self.running == 0).then_some(None);
    }

    /// What the broker is told next of the group that runs. Nothing begins until it knows.
    pub(crate) fn take_mark(&mut self) -> Option<Mark> {
        let mark = self.wanted_mark();
        self.groups.is_being_told |= mark.is_some();
        mark
    }

    pub(super) fn wanted_mark(&self) -> Option<Mark> {
        let wanted = self.groups.wanted.as_ref()?;
        let commit = |owned: &OwnedGroup, running| {
            let partition = self.assigned(&owned.partition, owned.generation)?;
            let note = Note { running, ..partition.note() };
            Some(Commit { partition: owned.partition.clone(), next: partition.watermark.next(), note })
        };
        let is_replaced = |old: &&OwnedGroup| wanted.as_ref().is_none_or(|new| new.generation != old.generation);
        let ended = self.groups.marked.as_ref().filter(is_replaced).and_then(|old| commit(old, None));
        let begins = wanted.as_ref().and_then(|new| commit(new, Some(new.group)));
        Some(Mark { commits: ended.into_iter().chain(begins).collect(), group: wanted.clone() })
    }

    /// Notes that the broker has the mark.
    pub(crate) fn marked(&mut self, mark: &Mark) {
        for commit in &mark.commits {
            if let Some(partition) = self.partitions.get_mut(&commit.partition) {
                partition.committed = None;
            }
        }
        let is_stale = self.groups.wanted.as_ref() != Some(&mark.group);
        self.groups = Groups { marked: mark.group.clone(), is_stale, ..Groups::default() };
    }

    /// Whether a partition's records run in groups.
    pub(crate) fn has_groups(&self) -> bool {
        self.groups.marked.is_some() || self.partitions.values().any(|of| of.isolated_left.is_some() && of.rows > 0)
    }
}

/// The offset of a record whose handler ran, and the process lives.
pub(super) fn survived(job: &Job, outcome: &Outcome) -> Option<i64> {
    let has_begun = !matches!(
        outcome,
        Outcome::DatabaseAway(_) | Outcome::Postponed(_) | Outcome::BatchRefused | Outcome::BatchFailed
    );
    job.work.offset().filter(|_| has_begun && job.step == Step::Handle)
}
