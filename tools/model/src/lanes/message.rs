//! A message, its row, and what each relay knows of it.

use crate::relay::RelayId;

/// A message. Its place among the others is its `id`: ids are given in the order of the enqueues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Message {
    /// Where the database has it.
    pub row: Row,
    /// What the relays know.
    pub view: [RelayView; 2],
    /// How many copies the broker has stored; two stand for more.
    pub copies: u8,
    /// Whether a second copy has a reason: a crash, a pause, a lost acknowledgement, a lane that was lost.
    pub duplicate_allowed: bool,
    /// Messages of its key that were committed before it was enqueued, and have not appeared yet: a bit for each.
    pub predecessors: u8,
    /// Whether its transaction took longer than the slack of the front.
    pub exceeds_slack: bool,
    /// Whether the front of a relay has passed it, so that only a late read finds it.
    pub passed: [bool; 2],
    /// Whom the broker has told that it has the message, and who has not died since.
    pub acknowledged_to: [bool; 2],
    /// A record that is on its way and that nobody waits for any more.
    pub stray: Option<Stray>,
}

/// Where the database has a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Row {
    /// Not enqueued yet.
    Unwritten,
    /// In an open transaction, which nobody else can see.
    Uncommitted,
    /// In the table.
    Live,
    /// Removed as delivered.
    Settled,
    /// In the dead letters.
    DeadLetter,
    /// Its transaction was rolled back: it was never there.
    RolledBack,
}

/// Why nobody waits for a record on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stray {
    /// The client gave it up.
    TimedOut,
    /// The process died.
    Orphaned,
}

/// What a relay's memory has of one message. All of it is lost when its process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelayView {
    /// Its place in the lane that the relay owns.
    pub lane_row: LaneRow,
    /// Its entry in the ledger, which outlives the ownership of the lane.
    pub entry: Option<Entry>,
}

/// `relay::lanes::lane::Lane`, of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LaneRow {
    /// Not read yet, or done.
    No,
    /// Read without what it carries; waits for its turn.
    Waiting,
    /// Read by primary key: to be sent.
    Read,
    /// In the ledger, sent from this lane.
    Sending,
    /// Its key waits behind it.
    Blocked,
}

/// `relay::ledger::Entry` with `Holder::Lane`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    /// How far the send has come.
    pub progress: Progress,
    /// Whether the relay owns the lane under the fence under which it sent this.
    pub is_current: bool,
    /// Whether its process stood still with it and its lease is over: what it sends now, nobody can keep from the broker.
    pub past_lease: bool,
}

/// How far a send has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Progress {
    /// In the client: its buffer, or the wire.
    InClient,
    /// The broker has it; the acknowledgement is on its way.
    Stored,
    /// Acknowledged.
    Delivered,
    /// Failed.
    Failed(Class),
}

/// `transport::FailureClass`, by its treatment. An outage writes nothing, and needs no name here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// An answer about the record.
    Record,
    /// Says nothing.
    Temporary,
}

impl Message {
    /// A message that is yet to be enqueued.
    pub const UNWRITTEN: Self = Self {
        row: Row::Unwritten,
        view: [RelayView::NOTHING; 2],
        copies: 0,
        duplicate_allowed: false,
        predecessors: 0,
        exceeds_slack: false,
        passed: [false; 2],
        acknowledged_to: [false; 2],
        stray: None,
    };

    /// What a relay knows of it.
    pub fn of(&self, relay: RelayId) -> &RelayView {
        &self.view[relay as usize]
    }

    /// As [`of`](Self::of), to be changed.
    pub fn of_mut(&mut self, relay: RelayId) -> &mut RelayView {
        &mut self.view[relay as usize]
    }

    /// Whether its way has ended.
    pub fn is_finished(&self) -> bool {
        matches!(self.row, Row::Settled | Row::DeadLetter | Row::RolledBack)
    }

    /// Whether its way has ended, and neither a relay nor the wire keeps anything of it.
    pub fn has_ended(&self) -> bool {
        self.is_finished() && self.view == [RelayView::NOTHING; 2] && self.stray.is_none()
    }

    /// The same with the relays' names exchanged.
    pub(super) fn swap_relays(&mut self) {
        self.view.swap(0, 1);
        self.passed.swap(0, 1);
        self.acknowledged_to.swap(0, 1);
    }
}

impl RelayView {
    /// Nothing.
    pub const NOTHING: Self = Self { lane_row: LaneRow::No, entry: None };

    /// Whether its key waits for what becomes of it.
    pub fn is_head(&self) -> bool {
        matches!(self.lane_row, LaneRow::Read | LaneRow::Sending | LaneRow::Blocked)
    }

    /// How far its send has come.
    pub fn progress(&self) -> Option<Progress> {
        self.entry.map(|entry| entry.progress)
    }

    /// Whether a record of it may still come from this relay, and its delivery time-out bounds when.
    pub fn is_still_in_flight(&self) -> bool {
        let is_in_flight = matches!(self.progress(), Some(Progress::InClient | Progress::Stored));
        is_in_flight && self.entry.is_some_and(|entry| !entry.past_lease)
    }

    /// The lane is no longer this relay's, or not under that fence.
    pub(super) fn lose_lane(&mut self) {
        self.lane_row = LaneRow::No;
        if let Some(entry) = &mut self.entry {
            entry.is_current = false;
        }
    }
}
