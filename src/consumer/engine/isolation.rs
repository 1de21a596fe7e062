//! Records that run in groups, each apart from everything else, because one of them may kill the process.
//!
//! Before a group begins, the broker has to know which one it is. So the next owner knows which one ended the process, and runs its records
//! one by one. **Rejected:** one by one from the start. Each would need a commit of its own, and a consumer that something else kills now
//! and then would never catch up.

use super::note::Suspects;
use crate::limits::CONSUMER_SUSPECTS_MAX;

/// How a partition's records run while one of them may kill the process.
#[derive(Debug)]
pub(super) struct Isolation {
    /// Records left to run so.
    left: usize,
    /// The records that ran when the last owner ended, without those that have ended since.
    suspects: Option<Suspects>,
    /// The records of which the broker knows that they run.
    marked: Option<Suspects>,
    /// The records that run next, once they are marked.
    wanted: Option<Suspects>,
}

impl Isolation {
    pub(super) fn new(left: usize, suspects: Option<Suspects>) -> Self {
        Self { left, suspects, marked: None, wanted: None }
    }

    pub(super) fn suspects(&self) -> Option<Suspects> {
        self.suspects
    }

    pub(super) fn is_marked(&self) -> bool {
        self.marked.is_some()
    }

    pub(super) fn wanted(&self) -> Option<Suspects> {
        self.wanted
    }

    /// How often a record has killed the process when nothing ran beside it.
    pub(super) fn kills(&self, offset: i64) -> u32 {
        self.suspects.filter(|suspects| suspects.contains(offset)).map_or(0, |suspects| suspects.starts)
    }

    /// The records that run together with this one and those after it. A suspect runs by itself.
    fn group_from(&self, offset: i64) -> Suspects {
        let rows = match self.suspects {
            Some(suspects) if suspects.contains(offset) => 1,
            Some(suspects) if suspects.first > offset => CONSUMER_SUSPECTS_MAX.min(suspects.first - offset),
            _ => CONSUMER_SUSPECTS_MAX,
        };
        let starts = if rows == 1 { self.kills(offset).saturating_add(1) } else { 0 };
        Suspects { first: offset, rows, starts }
    }

    pub(super) fn is_in_marked_group(&self, offset: i64) -> bool {
        self.marked.is_some_and(|group| group.contains(offset))
    }

    /// Asks for the mark of a group. Returns whether it is there.
    pub(super) fn want_mark(&mut self, offset: i64) -> bool {
        let is_marked = self.is_in_marked_group(offset);
        self.wanted = (!is_marked).then(|| self.group_from(offset));
        is_marked
    }

    pub(super) fn marked(&mut self, group: Suspects) {
        self.marked = Some(group);
        self.wanted = None;
    }

    /// Notes that nothing of the group runs; whether some of it may run now.
    pub(super) fn pause_group(&mut self, has_more: bool) {
        self.marked.take_if(|group| !has_more || group.rows == 1);
    }

    /// Notes that a record has ended, however. The process lives, so what killed it before was something else. Suspects run in the order of
    /// their offsets, so those before it have ended, too, or wait for another one of their key.
    pub(super) fn ended(&mut self, offset: i64) {
        self.suspects = self.suspects.and_then(|suspects| suspects.after(offset));
    }

    /// Notes that a record is finished. Returns whether records need not run so any more.
    pub(super) fn survive(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left == 0
    }
}
