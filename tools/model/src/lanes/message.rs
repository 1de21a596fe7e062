//! A message, its row, and what each relay knows of it.

use crate::relay::RelayId;

/// A message. Its index is its `id`: ids are assigned in the order of the enqueues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Message {
    /// Where the database has it.
    pub row: Row,
    /// The relays' knowledge.
    pub view: [RelayView; 2],
    /// How many copies the broker has stored; two stand for more.
    pub copies: u8,
    /// Whether a second copy has a reason: a crash, a pause, a lost acknowledgement, a lost lane.
    pub duplicate_allowed: bool,
    /// Messages of its key that were committed before it was enqueued, and have not appeared yet, as a bit set.
    pub predecessors: u8,
    /// Whether its transaction took longer than the slack of the front.
    pub exceeds_slack: bool,
    /// Whether a relay's front has skipped it, so that only a late read finds it.
    pub passed: [bool; 2],
    /// The relays that got the broker's acknowledgement and have not died since.
    pub acknowledged_to: [bool; 2],
    /// A record in flight that nobody waits for any more.
    pub stray: Option<Stray>,
}

/// Where the database has a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Row {
    /// Not enqueued yet.
    Unwritten,
    /// In an open transaction, visible to nobody else.
    Uncommitted,
    /// In the table.
    Live,
    /// Removed as delivered.
    Settled,
    /// In the dead letters.
    DeadLetter,
    /// Its transaction was rolled back.
    RolledBack,
}

/// Why nobody waits for a record in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stray {
    /// The client gave it up.
    TimedOut,
    /// The process died.
    Orphaned,
}

/// A relay's memory of one message. It is lost when its process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelayView {
    /// Its place in the lane that the relay owns.
    pub lane_row: LaneRow,
    /// Its entry in the ledger, which survives the loss of the lane.
    pub entry: Option<Entry>,
}

/// `relay::lanes::lane::Lane`, for one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LaneRow {
    /// Not read yet, or done.
    No,
    /// Read without its payload; waits for its key.
    Waiting,
    /// Read by primary key, and ready to be sent.
    Read,
    /// In the ledger, sent from this lane.
    Sending,
    /// Its key waits for it.
    Blocked,
}

/// `relay::ledger::Entry` with `Holder::Lane`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    /// How far the send has come.
    pub progress: Progress,
    /// Whether the relay still owns the lane under the fence of this send.
    pub is_current: bool,
    /// Whether its process stalled with it past its lease: then nothing keeps its send from the broker.
    pub past_lease: bool,
}

/// How far a send has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Progress {
    /// In the client: its buffer, or the wire.
    InClient,
    /// The broker stored it; the acknowledgement is in flight.
    Stored,
    /// Acknowledged.
    Delivered,
    /// Failed.
    Failed(Class),
}

/// `transport::FailureClass`, by its handling. An outage writes nothing, so it needs no name here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// A failure of the record.
    Record,
    /// Says nothing about the record.
    Temporary,
}

impl Message {
    /// A message that is not enqueued yet.
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

    /// A relay's knowledge of it.
    pub fn of(&self, relay: RelayId) -> &RelayView {
        &self.view[relay as usize]
    }

    /// Like [`of`](Self::of), mutable.
    pub fn of_mut(&mut self, relay: RelayId) -> &mut RelayView {
        &mut self.view[relay as usize]
    }

    /// Whether it is settled, dead or rolled back.
    pub fn is_finished(&self) -> bool {
        matches!(self.row, Row::Settled | Row::DeadLetter | Row::RolledBack)
    }

    /// Whether it is finished, and neither a relay nor the network still holds anything of it.
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

    /// Whether its key waits for its outcome.
    pub fn is_head(&self) -> bool {
        matches!(self.lane_row, LaneRow::Read | LaneRow::Sending | LaneRow::Blocked)
    }

    /// How far its send has come.
    pub fn progress(&self) -> Option<Progress> {
        self.entry.map(|entry| entry.progress)
    }

    /// Whether this relay may still send a record of it, within its delivery time-out.
    pub fn is_still_in_flight(&self) -> bool {
        let is_in_flight = matches!(self.progress(), Some(Progress::InClient | Progress::Stored));
        is_in_flight && self.entry.is_some_and(|entry| !entry.past_lease)
    }

    /// The relay lost the lane, or its fence changed.
    pub(super) fn lose_lane(&mut self) {
        self.lane_row = LaneRow::No;
        if let Some(entry) = &mut self.entry {
            entry.is_current = false;
        }
    }
}
