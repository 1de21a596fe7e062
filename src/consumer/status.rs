//! How a consumer is, and how it ended.

use serde::Serialize;

/// What a consumer left undone when it ended. Another process of the group reads these records again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ConsumerReport {
    /// Records that were read and not processed.
    pub unprocessed: usize,
    /// Records that handlers still had. Their transactions may commit, and the inbox then recognises the records.
    pub running: usize,
    /// Partitions whose last offset the broker did not confirm.
    pub uncommitted: usize,
    /// Whether everything ended within the grace.
    pub in_time: bool,
}

impl ConsumerReport {
    /// Whether nothing runs any more and the broker knows how far each partition is done. Records that were read and not
    /// processed do no harm.
    pub fn is_clean(&self) -> bool {
        self.in_time && self.running == 0 && self.uncommitted == 0
    }
}

/// How a running consumer is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ConsumerStatus {
    /// Partitions that it reads.
    pub partitions: usize,
    /// Records in memory that are not processed.
    pub unprocessed: usize,
    /// Records that workers have: their handlers run, or wait for the others of their batch.
    pub running: usize,
    /// Records between what is processed without a gap and the ends of its partitions. Measured every ten seconds; `None` before.
    ///
    /// The end of a transaction has an offset, too. It does not count here, and is not committed: other tools count one record a
    /// partition where a topic ends with it.
    pub lag: Option<usize>,
    /// Whether the database is away, so that nothing runs.
    pub is_database_away: bool,
    /// Whether the loop ended by a panic, so that nothing is read any more. Start another consumer, and report it as a defect.
    pub has_panicked: bool,
}
