//! A message, its row, and what each relay knows of it.

use crate::relay::RelayId;

/// A message. Its place among the others is its `id`: ids are given in the order of the enqueues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Message {
    /// Where the database has it.
    pub row: Row,
    /// What the relays know.
    pub known: [Known; 2],
    /// How many copies the broker has stored; two stand for more.
    pub copies: u8,
    /// Whether a second copy has a reason: a crash, a pause, a lost acknowledgement, a lane that was lost.
    pub excused: bool,
    /// Messages of its key that were committed before it was enqueued, and have not appeared yet: a bit for each.
    pub behind: u8,
    /// Whether its transaction took longer than the slack of the front.
    pub overlong: bool,
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
    Dead,
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
pub struct Known {
    /// Its place in the lane that the relay owns.
    pub seen: Seen,
    /// Its entry in the ledger, which outlives the ownership of the lane.
    pub entry: Option<Entry>,
}

/// `relay::lanes::lane::Lane`, of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Seen {
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
    pub held: bool,
    /// Whether its process stood still with it and its lease is over: what it sends now, nobody can keep from the broker.
    pub belated: bool,
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
        known: [Known::NOTHING; 2],
        copies: 0,
        excused: false,
        behind: 0,
        overlong: false,
        passed: [false; 2],
        acknowledged_to: [false; 2],
        stray: None,
    };

    /// What a relay knows of it.
    pub fn of(&self, relay: RelayId) -> &Known {
        &self.known[relay as usize]
    }

    /// As [`of`](Self::of), to be changed.
    pub fn of_mut(&mut self, relay: RelayId) -> &mut Known {
        &mut self.known[relay as usize]
    }

    /// Whether its way has ended.
    pub fn is_finished(&self) -> bool {
        matches!(self.row, Row::Settled | Row::Dead | Row::RolledBack)
    }

    /// Whether its way has ended, and neither a relay nor the wire keeps anything of it.
    pub fn has_ended(&self) -> bool {
        self.is_finished() && self.known == [Known::NOTHING; 2] && self.stray.is_none()
    }

    /// The same with the relays' names exchanged.
    pub(super) fn swap_relays(&mut self) {
        self.known.swap(0, 1);
        self.passed.swap(0, 1);
        self.acknowledged_to.swap(0, 1);
    }
}

impl Known {
    /// Nothing.
    pub const NOTHING: Self = Self { seen: Seen::No, entry: None };

    /// Whether its key waits for what becomes of it.
    pub fn is_head(&self) -> bool {
        matches!(self.seen, Seen::Read | Seen::Sending | Seen::Blocked)
    }

    /// How far its send has come.
    pub fn progress(&self) -> Option<Progress> {
        self.entry.map(|entry| entry.progress)
    }

    /// Whether a record of it may still come from this relay, and its delivery time-out bounds when.
    pub fn is_on_its_way(&self) -> bool {
        let is_in_flight = matches!(self.progress(), Some(Progress::InClient | Progress::Stored));
        is_in_flight && self.entry.is_some_and(|entry| !entry.belated)
    }

    /// The lane is no longer this relay's, or not under that fence.
    pub(super) fn lose_lane(&mut self) {
        self.seen = Seen::No;
        if let Some(entry) = &mut self.entry {
            entry.held = false;
        }
    }
}
