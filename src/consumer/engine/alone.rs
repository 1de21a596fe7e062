//! Records that run alone in the process, because one of them may kill it.
//!
//! Before such a record begins, the broker has to know which one it is. Then the next owner knows which one ended the process.

use super::key_queue::{QueueState, Step};
use super::outcome::killed;
use super::{Commit, Engine, Mark, Note, Token};
use crate::consumer::options::OnFailure;

impl Engine {
    /// Whether something runs alone next: `Some(None)` while that has to wait for others to end or for its mark.
    pub(super) fn next_alone(&mut self) -> Option<Option<Token>> {
        let suspicious = self.partitions.iter_mut().filter(|(_, of)| of.alone.is_some() && !of.is_closing);
        for (id, partition) in suspicious.filter(|(_, of)| !of.needs_reopening) {
            while let Some((key, offset)) = partition.next_alone() {
                let kills = offset.map_or(0, |offset| partition.kills(offset));
                let Some(queue) = partition.queues.get_mut(&key) else { break };
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
                let is_marked = offset.is_none_or(|offset| !runs_handler || partition.want_mark(offset));
                let may_begin = is_marked && self.running == 0;
                let token = Token { partition: id.clone(), generation: partition.generation, queue: key };
                return Some(may_begin.then_some(token));
            }
        }
        None
    }

    /// The mark that is to be committed before a record runs alone.
    pub(crate) fn wanted_mark(&self) -> Option<Mark> {
        self.partitions.iter().find_map(|(id, partition)| {
            let alone = partition.alone.as_ref()?.wanted?;
            let note = Note { alone: Some(alone), ..partition.note() };
            let commit = Commit { partition: id.clone(), next: partition.watermark.next(), note };
            Some(Mark { commit, generation: partition.generation, alone })
        })
    }

    /// Notes that the broker has the mark.
    pub(crate) fn marked(&mut self, mark: &Mark) {
        let partition = self.partitions.get_mut(&mark.commit.partition);
        if let Some(partition) = partition.filter(|of| of.generation == mark.generation) {
            partition.marked(mark.alone);
            partition.committed = None;
        }
    }
}
