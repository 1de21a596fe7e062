//! The database: where a relay and an [`Admin`](crate::admin::Admin) find the messages.
//!
//! Only this crate has stores ([`OutboxStore`]). The interface between store and relay is private.

pub(crate) mod admin;
pub(crate) mod audit;
pub(crate) mod dead_letter;
pub(crate) mod dead_letter_reason;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod decode;
pub(crate) mod error;
pub(crate) mod half;
pub(crate) mod history;
pub(crate) mod horizon;
pub(crate) mod interface;
#[cfg(feature = "_internals")]
pub(crate) mod internals;
pub(crate) mod lane_check;
pub(crate) mod lanes;
pub(crate) mod live;
pub(crate) mod live_scan;
mod measured;
pub(crate) mod memory;
#[cfg(feature = "mysql")]
mod mysql;
pub(crate) mod notices;
pub(crate) mod parked;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) mod pause_table;
pub(crate) mod poll;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) mod pool;
#[cfg(feature = "postgres")]
mod postgres;
pub(crate) mod requeue;
pub(crate) mod row;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) mod schema;
mod sealed;
#[cfg(any(
    all(feature = "postgres", any(feature = "async", feature = "libpq")),
    all(feature = "mysql", feature = "async")
))]
pub(crate) mod secrets;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) mod sql;
#[cfg(feature = "sqlite")]
mod sqlite;
pub(crate) mod stored;

pub use error::{SchemaProblem, StoreError};
pub use interface::StoreWarning;
pub use memory::MemoryStore;
#[cfg(feature = "mysql")]
pub use mysql::MysqlStore;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub use pool::{ConnectionPool, ManagedConnections};
#[cfg(feature = "postgres")]
pub use postgres::{NoticeConnection, PostgresStore};
pub use sealed::OutboxStore;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub use sql::SqlStore;
#[cfg(feature = "sqlite")]
pub use sqlite::{SQLITE_PRAGMAS, SqliteStore};

#[allow(unused_imports, reason = "only databases use it")]
pub(crate) use crate::retention::Keep;
pub(crate) use admin::{AdminStore, CancelOutcome, PausedTopic, SendNowOutcome};
pub(crate) use audit::{AuditCursor, AuditEntry, AuditFilter, AuditRecord, AuditStore};
pub(crate) use dead_letter::{
    DeadLetter, DeadLetterCount, DeadLetterCursor, DeadLetterFilter, DeadLetterGroup, FailedAttempt,
};
pub(crate) use dead_letter_reason::DeadLetterReason;
pub(crate) use error::TooFewConnections;
#[allow(unused_imports, reason = "only databases and RocketMQ use them")]
pub(crate) use half::{Decision, HalfStore};
pub(crate) use history::{
    HistoryRow, HistoryStore, ProcessedOutcome, Pruned, SentCount, SentCursor, SentMessage, SentScan,
};
pub(crate) use horizon::Horizon;
pub(crate) use interface::{Claim, ClaimHandle, ClaimMode, ClaimSpec, Closed, Store, TopicBacklog, overdue};
pub(crate) use lanes::{
    LaneBalanceSpec, LaneCount, LaneEntry, LaneScan, LaneState, LaneStore, LaneView, OwnedLane, WithFence,
};
pub(crate) use live::{BoundedCount, LiveCount, LiveCursor, LiveFilter, LiveMessage, LivePosition, LiveState};
pub(crate) use live_scan::{KeyInLane, KeyNeighbours, LiveConditions, LiveRange, LiveScan, LiveScanEnd, StateColumns};
pub(crate) use memory::InsertOptions;
#[cfg(test)]
pub(crate) use memory::{Call, Fault, PendingRow};
pub(crate) use notices::{NoticeStore, NoticeStream};
pub(crate) use poll::{DueWatermark, NextDue, PollFrom, PollRange, PollResult, PollSpec, PollTopic};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
#[allow(unused_imports, reason = "only consumers use them")]
pub(crate) use pool::{ErrorClass, classify};
#[cfg(feature = "postgres")]
pub(crate) use postgres::pg_instant;
pub(crate) use requeue::{MessageKey, Requeue};
pub(crate) use row::{
    Confirmed, Failed, Held, Loaded, Locking, NewDeadLetter, Poisoned, Row, RowKey, RowRef, is_in_no_column,
};
pub(crate) use sealed::shared;
pub(crate) use stored::{DeadLetterRow, LiveRow, StoredError};
