//! How much is in memory, and what is committed when.

use std::time::Instant;

use super::partition::Partition;
use super::{Commit, Engine};
use crate::consumer::record::PartitionId;
use crate::limits::CONSUMER_FINISHED_MAX;

/// What the source is to change.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) pause: Vec<PartitionId>,
    pub(crate) resume: Vec<PartitionId>,
}

/// What each partition may have in memory.
struct Share {
    records_max: usize,
    bytes_max: usize,
    /// All partitions together are full: one had filled up before others were opened.
    is_all_used: bool,
}

impl Share {
    /// Whether a partition has used up its share, or the `divisor`th part of it. One record of each is always read: the others may wait
    /// for a failed one.
    fn is_used_by(&self, partition: &Partition, divisor: usize) -> bool {
        (self.is_all_used && partition.rows > 0)
            || partition.rows >= self.records_max.div_ceil(divisor)
            || partition.bytes >= self.bytes_max.div_ceil(divisor)
            || partition.watermark.len() >= CONSUMER_FINISHED_MAX / divisor
    }
}

/// How far a partition is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) id: PartitionId,
    /// Every record below this offset is done.
    pub(crate) next: i64,
    /// Records in memory that are not.
    pub(crate) unprocessed: usize,
    /// Whether nothing of it is left in memory and reading goes on: then `next` is as far as it was read.
    pub(crate) is_up_to_date: bool,
}

impl Engine {
    fn share(&self) -> Share {
        let partitions = self.partitions.len().max(1);
        let (records_max, bytes_max) = (self.options.records_max, self.options.bytes_max);
        let of = |max: usize| (max / partitions).max(1);
        let bytes: usize = self.partitions.values().map(|partition| partition.bytes).sum();
        Share {
            records_max: of(records_max),
            bytes_max: of(bytes_max),
            is_all_used: self.rows() >= records_max || bytes >= bytes_max,
        }
    }

    /// Whether a partition is to be paused before another record of it is read.
    pub(crate) fn is_full(&self, id: &PartitionId) -> bool {
        let share = self.share();
        self.partitions.get(id).is_some_and(|partition| !partition.is_paused && share.is_used_by(partition, 1))
    }

    /// Which partitions are to be paused and resumed. A paused one is resumed when half of its share is free, so that it does not
    /// change with each record.
    pub(crate) fn flow(&mut self) -> Flow {
        let share = self.share();
        let is_outage = self.outage.is_there();
        let mut flow = Flow::default();
        for (id, partition) in &mut self.partitions {
            let is_paused = is_outage || share.is_used_by(partition, if partition.is_paused { 2 } else { 1 });
            match (partition.is_paused, is_paused) {
                (false, true) => flow.pause.push(id.clone()),
                (true, false) => flow.resume.push(id.clone()),
                _ => {}
            }
            partition.is_paused = is_paused;
        }
        flow
    }

    /// Whether a partition is paused.
    pub(crate) fn is_any_paused(&self) -> bool {
        self.partitions.values().any(|partition| partition.is_paused)
    }

    /// The offsets that the broker does not know yet.
    pub(crate) fn commits(&mut self, now: Instant) -> Vec<Commit> {
        // In an outage nothing runs, so nothing is survived.
        let tried = self.partitions.iter_mut().filter(|_| !self.outage.is_there());
        let passed = tried.filter_map(|(id, of)| of.pass_trial(now).then(|| id.clone()));
        for id in passed.collect::<Vec<_>>() {
            self.queue_ready(&id);
        }
        let open = self.partitions.iter_mut().filter(|(_, of)| !of.needs_reopening);
        let moved = open.filter_map(|(id, partition)| {
            let next = partition.next_to_commit();
            // A mark is newer than what is known here, and stays until its group has ended.
            if self.groups.is_marked(partition.generation) || partition.committed == Some(next) {
                return None;
            }
            partition.committed = Some(next);
            Some(Commit { partition: id.clone(), next, note: partition.note() })
        });
        moved.collect()
    }

    /// What is committed before the first record of a partition runs.
    pub(crate) fn commits_of(&mut self, id: &PartitionId) -> Vec<Commit> {
        let Some(partition) = self.partitions.get_mut(id) else { return Vec::new() };
        let next = partition.next_to_commit();
        partition.committed = Some(next);
        vec![Commit { partition: id.clone(), next, note: partition.note() }]
    }

    /// Commits all offsets again: the broker refused some.
    pub(crate) fn commit_again(&mut self) {
        for partition in self.partitions.values_mut() {
            partition.committed = None;
        }
    }

    /// How far each partition is done.
    pub(crate) fn positions(&self) -> Vec<Done> {
        let partitions = self.partitions.iter();
        let of = partitions.map(|(id, of)| Done {
            id: id.clone(),
            next: of.watermark.next(),
            unprocessed: of.rows,
            is_up_to_date: of.rows == 0 && !of.is_paused && !of.needs_reopening,
        });
        of.collect()
    }
}
