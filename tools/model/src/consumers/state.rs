//! The whole state of the model: the records, the database, the broker, and what each member believes.

use super::job::Record;
use super::member::MemberId;

/// The number of records in a state.
pub const RECORDS_MAX: usize = 4;
/// The number of partitions in a state.
pub const PARTITIONS_MAX: usize = 2;

/// The whole state. Offsets count from 0 in each partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct State {
    /// The records, in the order of the log.
    pub records: [Record; RECORDS_MAX],
    /// What each member believes of each partition.
    pub views: [[View; PARTITIONS_MAX]; 2],
    /// The broker: to whom a partition is assigned.
    pub owners: [Option<MemberId>; PARTITIONS_MAX],
    /// The broker: the offset that was committed last.
    pub committed: [u8; PARTITIONS_MAX],
    /// The database: `outbox_consumer_offsets`.
    pub next: [u8; PARTITIONS_MAX],
    /// The database: the messages with an entry in the inbox, as a bit set.
    pub entries: u8,
    /// The database: the inbox's start, as the first message that is kept.
    pub start: u8,
    /// How many faults may still happen.
    pub faults_left: u8,
    /// How often a partition may still be revoked without a fault.
    pub moves_left: u8,
    /// How often the inbox's start may still move.
    pub ages_left: u8,
    /// The last violation by a step.
    pub breach: Option<Breach>,
}

/// What a member believes of a partition. The broker may have taken it away already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum View {
    /// It is not assigned.
    No,
    /// It is assigned, and to be opened.
    Assigned,
    /// Broker and database were asked where to begin.
    Opening {
        /// Where.
        start: u8,
    },
    /// It is read.
    Open(Open),
}

/// A partition that is read: all records from `next` on are in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Open {
    /// The watermark: every record below is done.
    pub next: u8,
    /// It is being revoked: nothing more is begun.
    pub is_closing: bool,
    /// Its offset in the database is not what this process wrote last.
    pub is_moved: bool,
    /// What the broker was told since it gave the partition to somebody else.
    pub told: Option<u8>,
}

/// A violation, found by comparing the states before and after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Breach {
    /// A record had its effect before an earlier one of its key.
    Inverted,
    /// A claim gave a handler what was processed.
    ClaimedAgain,
    /// The offset in the database went back.
    WentBack,
}

impl State {
    /// What a member believes of a partition.
    pub fn view(&self, member: MemberId, partition: usize) -> View {
        self.views[member as usize][partition]
    }

    /// Its partition, if the member reads it.
    pub fn open(&self, member: MemberId, partition: usize) -> Option<Open> {
        match self.view(member, partition) {
            View::Open(open) => Some(open),
            _ => None,
        }
    }

    /// Whether the broker has given the partition to the member.
    pub fn is_owner(&self, member: MemberId, partition: usize) -> bool {
        self.owners[partition] == Some(member)
    }

    pub(super) fn set_view(&mut self, member: MemberId, partition: usize, view: View) {
        self.views[member as usize][partition] = view;
    }

    pub(super) fn open_mut(&mut self, member: MemberId, partition: usize) -> Option<&mut Open> {
        match &mut self.views[member as usize][partition] {
            View::Open(open) => Some(open),
            _ => None,
        }
    }

    /// The same with the members' names exchanged.
    pub(super) fn swapped(&self) -> Self {
        let mut state = *self;
        state.views.swap(0, 1);
        for owner in state.owners.iter_mut().flatten() {
            *owner = owner.other();
        }
        state.records.iter_mut().for_each(|record| record.own.swap(0, 1));
        state
    }
}
