//! Bugs to inject: each removes one rule of the protocol, and the checker must find what that breaks.

/// A protocol with one bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// The offset of a record is committed when the record is read.
    OffsetBeforeCommit,
    /// The committed offset passes a record that is not done, if one behind it is.
    OffsetPassesGap,
    /// A partition is handed over as if what runs were done.
    HandsOverUnfinished,
    /// A COMMIT without an answer counts as done.
    LostAnswerIsDone,
    /// The offset in the database moves whatever it is.
    OffsetNotCompared,
    /// Whoever opens a partition sets the offset in the database to the broker's.
    OpeningOverwritesOffset,
    /// The claim commits by itself, before the handler runs.
    ClaimOutsideTransaction,
    /// A claim that failed counts as one that found nothing.
    ClaimErrorSwallowed,
    /// An entry names the record's place instead of its message.
    EntryOfPlace,
    /// A prune removes entries above the inbox's start.
    PrunesEarly,
    /// A prune removes entries first, and moves the start then.
    StartMovesLast,
    /// A claim reads the start before it waits for others.
    StartReadFirst,
    /// A message that is too old counts as processed.
    TooOldIsDuplicate,
    /// A message that is too old counts as new.
    TooOldIsNew,
    /// Two records of one key run at once.
    TwoOfKey,
}
