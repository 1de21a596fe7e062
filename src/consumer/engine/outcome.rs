//! What workers are given, and what they report.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::copies::Copies;
use super::key_queue::{QueueKey, Step, Work};
use super::note::{Group, Note};
use crate::consumer::error::HandlerError;
use crate::consumer::record::{PartitionId, Record};

/// Which queue of which assignment a job is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) partition: PartitionId,
    /// A partition that is revoked and assigned again has another one: what was begun before changes nothing.
    pub(crate) generation: u64,
    pub(crate) queue: QueueKey,
}

/// What a worker is to do.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) token: Token,
    pub(crate) work: Work,
    pub(crate) step: Step,
    /// The number of the attempt, from 1.
    pub(crate) attempt: u32,
    /// Where the partition stands in the database, if its records run one after the other.
    pub(crate) expected_next: i64,
    /// Whether earlier records of its key are parked, as far as this process knows.
    pub(crate) is_key_parked: bool,
    /// How often the database had been away when it began.
    pub(crate) outages: u64,
    /// Records to look up if this one is a copy.
    pub(crate) ahead: Vec<Arc<Record>>,
}

/// What a worker may do now.
#[derive(Debug)]
pub(crate) enum Next {
    /// One job, or a batch of records.
    Jobs(Vec<Job>),
    /// Nothing before this moment, unless something changes.
    Wait(Option<Instant>),
}

/// How a job ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The handler ran, and its transaction is committed.
    Handled,
    /// The inbox had the message already; with whether its key has parked records, and the copies among the records to look up.
    Duplicate { is_key_parked: bool, ahead: Copies },
    /// The inbox keeps no ids of that age, so nobody knows whether it was processed: it is parked alone.
    TooOld,
    /// The record is in the table of parked records, with what follows of its key.
    Parked,
    /// The record is there alone.
    ParkedAlone,
    /// Parked records were processed; with whether the key has none left.
    Replayed { is_key_free: bool },
    /// The handler failed.
    Failed(HandlerError),
    /// The handler lost its connection, and the database answers on another one.
    ConnectionLost(HandlerError),
    /// The handler met a deadlock or the like.
    Conflict,
    /// Its batch did not begin, because one of the records may be a copy. Each of them runs alone next.
    BatchRefused,
    /// Its batch was rolled back. Each of the records runs alone next.
    BatchFailed,
    /// A statement of the consumer's own failed, which says nothing about the record.
    Postponed(String),
    /// The database gives no connection, or none that answers.
    DatabaseAway(String),
    /// The partition's offset in the database is not what this process wrote.
    OffsetMoved,
}

/// What the engine made of an outcome: for metrics, events and the hook.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// The assignment is over: nothing changed.
    Late,
    Done,
    /// It was a copy, as were so many of those behind it.
    Copies(usize),
    Retried {
        failures: u32,
        wait: Duration,
    },
    /// It has failed for good, and is parked next.
    Exhausted {
        failures: u32,
    },
    /// It has failed for good, and its key waits.
    Blocked {
        failures: u32,
        wait: Duration,
    },
    /// Parked records stay where they are.
    ReplayFailed,
    /// Nothing was spent.
    Deferred,
    Reopening,
}

/// An offset to commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) partition: PartitionId,
    pub(crate) next: i64,
    pub(crate) note: Note,
}

/// A group of records that runs apart from all others, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnedGroup {
    pub(crate) partition: PartitionId,
    pub(crate) generation: u64,
    pub(crate) group: Group,
}

/// What the broker is to know before anything else runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) commits: Vec<Commit>,
    /// The group that runs then, if one does.
    pub(crate) group: Option<OwnedGroup>,
}

/// The reason of a record that killed its process.
pub(super) fn killed(kills: u32) -> Arc<str> {
    format!("the process ended {kills} times while this record alone ran in it").into()
}
