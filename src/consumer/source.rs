//! The interface to a broker: what the loop needs from it. Each broker has an adapter.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::engine::{Commit, Note};
use super::options::StartFrom;
use super::record::{PartitionId, Record};

/// A broker's client, used by the loop's thread alone.
pub(crate) trait Source {
    /// Waits for a record. Assignments and revocations are reported meanwhile, on the same thread.
    fn poll(&mut self, within: Duration) -> Result<Option<Record>, SourceError>;

    /// Whether the broker has refused, since the last call, to read on at some partition's place: its records are gone.
    fn take_out_of_range(&mut self) -> bool;

    /// Partitions that were assigned since the last call. None of their records arrives before [`start`](Self::start).
    fn take_assigned(&mut self) -> Vec<PartitionId>;

    /// Whether a partition is still assigned.
    fn is_assigned(&self, id: &PartitionId) -> bool;

    /// Where the group stands in a partition, and what was noted there.
    fn position(&mut self, id: &PartitionId) -> Result<Position, SourceError>;

    /// Reads a partition from an offset on.
    fn start(&mut self, id: &PartitionId, offset: i64) -> Result<(), SourceError>;

    /// Reads no more of a partition, which stays assigned.
    fn stop(&mut self, id: &PartitionId) -> Result<(), SourceError>;

    fn pause(&mut self, ids: &[PartitionId]) -> Result<(), SourceError>;

    fn resume(&mut self, ids: &[PartitionId]) -> Result<(), SourceError>;

    /// Sends offsets to the broker, and does not wait for its answer.
    fn commit(&mut self, commits: &[Commit]) -> Result<(), SourceError>;

    /// Sends offsets to the broker, and waits for its answer, within a bound.
    fn commit_and_wait(&mut self, commits: &[Commit]) -> Result<(), SourceError>;

    /// The end of a partition, where a record that is sent now would go.
    fn end(&mut self, id: &PartitionId) -> Result<i64, SourceError>;

    /// The offset below which the loop has got every record, if the client knows it. It may be beyond the last record: offsets are also
    /// those of what is no record, such as the end of a transaction.
    fn fetched(&self, _id: &PartitionId) -> Option<i64> {
        None
    }
}

/// Where a group stands in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Position {
    /// Where to begin: what was committed, or by the choice of the user. What was committed may be out of the partition.
    pub(crate) start: i64,
    pub(crate) note: Note,
    /// The partition's oldest record.
    pub(crate) first: i64,
    /// Where a record that is sent now would go.
    pub(crate) end: i64,
}

impl Position {
    pub(crate) fn new(committed: Option<(i64, Note)>, choice: StartFrom, first: i64, end: i64) -> Self {
        let (start, note) = match (committed, choice) {
            (Some(committed), _) => committed,
            (None, StartFrom::Earliest) => (first, Note::default()),
            (None, StartFrom::Latest) => (end, Note::default()),
        };
        Self { start, note, first, end }
    }

    /// What was noted of the records from an offset on. It is about those from where the broker stands. The database may stand further on.
    pub(crate) fn note_from(&self, offset: i64) -> Note {
        let is_of_it = self.has(self.start) && (self.start..=self.end).contains(&offset);
        if is_of_it { self.note.clone().within(offset, self.end) } else { Note::default() }
    }

    /// Whether the partition can be read from an offset on.
    pub(crate) fn has(&self, offset: i64) -> bool {
        (self.first..=self.end).contains(&offset)
    }
}

/// Told by a source that partitions are taken away, while it can still commit.
pub(crate) trait RevocationListener: Send + Sync {
    /// Ends the work on these partitions, within a bound. Returns what is to be committed; nothing if they are lost already.
    fn revoke(&self, ids: &[PartitionId], is_lost: bool) -> Vec<Commit>;
}

/// Makes the source, on the loop's thread.
pub(crate) type MakeSource =
    Box<dyn FnOnce(Arc<dyn RevocationListener>) -> Result<Box<dyn Source>, SourceError> + Send>;

/// What a broker's client says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceError(pub(crate) String);

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SourceError {}
