//! What the broker knows of records that run apart from all others.

use super::outcome::{OwnedGroup, Token};

/// The group that runs.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// What the broker knows.
    pub(super) marked: Option<OwnedGroup>,
    /// What it is to know next; `Some(None)`: that no group runs.
    pub(super) wanted: Option<Option<OwnedGroup>>,
    /// A mark is on its way: until the broker confirms it, it may know the old or the new one.
    pub(super) is_being_told: bool,
    /// The broker has to be told anew before any of it runs: it was told something else, or a suspect was survived.
    pub(super) is_stale: bool,
}

impl Groups {
    /// Whether the group is of this assignment.
    pub(super) fn is_marked(&self, generation: u64) -> bool {
        self.marked.as_ref().is_some_and(|group| group.generation == generation)
    }

    /// Notes that something begins: until it has ended, the broker is told nothing else.
    pub(super) fn begin(&mut self) {
        self.wanted = None;
    }
}

/// What may run next.
#[derive(Debug)]
pub(super) enum NextInGroups {
    Run(Token),
    /// Nothing before something ends, or before the broker has the mark.
    Wait,
    /// No partition has records that run in groups.
    Free,
}
