//! What is read of a lane, and from where.

use std::time::Duration;

use crate::clock::BootInstant;
use crate::store::{Horizon, RowKey};

/// A key by its hash. Two keys with the same hash count as one: they wait for each other, which does no other harm.
pub(crate) type KeyHash = u64;

/// A row that waits for its turn. Its payload is read when the turn comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitingRow {
    pub(crate) row: RowKey,
    pub(crate) bytes: usize,
    /// When it was enqueued, as far as is known.
    pub(crate) since: BootInstant,
}

/// The purpose of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanKind {
    /// Rows with higher ids than any that was read.
    Front,
    /// Rows of keys that had more than were kept.
    Refill,
    /// Rows with lower ids, which became visible only after higher ones were read.
    Late,
}

/// Where a page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) kind: ScanKind,
    pub(crate) after: i64,
    /// How many already known rows it may find, besides a page of new ones.
    pub(crate) reread: usize,
    /// Up to where the lane had been read when the scan was planned.
    pub(in crate::relay::lanes) front: i64,
    /// Whether it begins so far back that it brings every earlier row of a key together with the new ones.
    pub(super) is_complete: bool,
}

/// A row of a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundRow {
    pub(crate) key: KeyHash,
    pub(crate) waiting: WaitingRow,
    /// Whether this process has it in the ledger, perhaps from an earlier ownership.
    pub(crate) in_ledger: bool,
}

/// The result of a read.
#[derive(Debug)]
pub(crate) struct Page {
    /// In the order of their ids, without delivered ones.
    pub(crate) rows: Vec<FoundRow>,
    /// How many rows were read, delivered ones included.
    pub(crate) read: usize,
    /// How long ago the youngest row read was enqueued.
    pub(crate) youngest: Duration,
    /// Which transactions were visible, if the database tells and there was a row.
    pub(crate) horizon: Option<Horizon>,
    /// The id of the last row read, or where the scan began.
    pub(crate) last: i64,
    /// Whether more may follow behind it.
    pub(crate) is_full: bool,
    /// Rows of the topic that this node has seen so far, including this page.
    pub(crate) seen: u64,
    /// When the read began and ended.
    pub(crate) read_at: (BootInstant, BootInstant),
}

impl Page {
    /// Every visible row up to here was read.
    pub(crate) fn end(&self) -> i64 {
        if self.is_full { self.last } else { i64::MAX }
    }
}
