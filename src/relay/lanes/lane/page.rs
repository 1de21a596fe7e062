//! What is read of a lane, and from where.

use std::time::Duration;

use crate::clock::BootInstant;
use crate::store::{Horizon, RowKey};

/// A key by its hash. Two keys with the same one count as one: they wait for each other, and nothing else.
pub(crate) type KeyHash = u64;

/// A row that waits for its turn. What it carries is read when that comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitingRow {
    pub(crate) row: RowKey,
    pub(crate) bytes: usize,
    /// When it was enqueued, as far as is known.
    pub(crate) since: BootInstant,
}

/// What a page is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanKind {
    /// For what is behind everything read so far.
    Front,
    /// For rows of keys that had more than was kept of them.
    Refill,
    /// For rows that became visible behind higher ids.
    Late,
}

/// Where a page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) kind: ScanKind,
    pub(crate) after: i64,
    /// How many rows it may find that were read before, beside a page of new ones.
    pub(crate) reread: usize,
    /// Up to where the lane was read when this was decided.
    pub(in crate::relay::lanes) front: i64,
    /// Whether it begins so far back that what it brings from beyond the front comes with every earlier row of its key.
    pub(super) is_complete: bool,
}

/// A row of a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundRow {
    pub(crate) key: KeyHash,
    pub(crate) waiting: WaitingRow,
    /// Whether this process has it in flight, or its failure to write, perhaps from an earlier time as the lane's owner.
    pub(crate) in_ledger: bool,
}

/// What was read.
#[derive(Debug)]
pub(crate) struct Page {
    /// By id, and only those that are not delivered.
    pub(crate) rows: Vec<FoundRow>,
    /// How many rows were read, delivered ones included.
    pub(crate) read: usize,
    /// How long ago the youngest row read was enqueued.
    pub(crate) youngest: Duration,
    /// Which transactions could be seen, where the database tells and there was a row.
    pub(crate) horizon: Option<Horizon>,
    /// The id of the last row read, or where the scan began.
    pub(crate) last: i64,
    /// Whether more may follow behind it.
    pub(crate) is_full: bool,
    /// Rows of the topic that this node has seen so far, with those of this page.
    pub(crate) seen: u64,
    /// When it was asked for, and when it was there.
    pub(crate) read_at: (BootInstant, BootInstant),
}

impl Page {
    /// Everything up to here was read that was there.
    pub(crate) fn end(&self) -> i64 {
        if self.is_full { self.last } else { i64::MAX }
    }
}
