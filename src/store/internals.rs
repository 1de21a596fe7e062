//! Everything in `store`, for our own tests, benches and tools.

pub use super::admin::{AdminStore, CancelOutcome, PausedTopic, SendNowOutcome};
pub use super::audit::{AuditCursor, AuditEntry, AuditFilter, AuditRecord, AuditStore};
pub use super::dead_letter::{
    DeadLetter, DeadLetterCount, DeadLetterCursor, DeadLetterFilter, DeadLetterGroup, FailedAttempt,
};
pub use super::dead_letter_reason::DeadLetterReason;
pub use super::error::TooFewConnections;
pub use super::half::{Decision, HalfStore};
pub use super::history::{
    HistoryRow, HistoryStore, ProcessedOutcome, Pruned, SentCount, SentCursor, SentMessage, SentScan,
};
pub use super::horizon::Horizon;
pub use super::interface::{Claim, ClaimHandle, ClaimMode, ClaimSpec, Closed, Store, StoreWarning, TopicBacklog};
pub use super::lanes::{
    LaneBalanceSpec, LaneCount, LaneEntry, LaneScan, LaneState, LaneStore, LaneView, OwnedLane, WithFence,
};
pub use super::live::{BoundedCount, LiveCount, LiveFilter, LiveMessage, LivePosition, LiveState};
pub use super::live_scan::{KeyInLane, KeyNeighbours, LiveConditions, LiveRange, LiveScan, LiveScanEnd};
pub use super::memory::{Call, Fault, InsertOptions, MemoryClaim, PendingRow, RowLock};
pub use super::notices::{NoticeStore, NoticeStream};
pub use super::poll::{DueWatermark, NextDue, PollFrom, PollRange, PollResult, PollSpec, PollTopic};
pub use super::requeue::{MessageKey, Requeue};
pub use super::row::{Confirmed, Failed, Held, Loaded, Locking, NewDeadLetter, Poisoned, Row, RowKey, RowRef};
pub use super::stored::{DeadLetterRow, LiveRow, StoredError};
pub use crate::retention::Keep;
