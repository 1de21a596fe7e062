//! From keys to statements, and from answers to outcomes.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use super::claims::{ClaimAnswer, ClaimedKeys};
use super::{Claim, Inbox, InboxError, InboxKey};
use crate::enqueue::Dialect;
use crate::hook::{Conn, Depth};
use crate::outbox::transaction::CommitError;

/// What is claimed together, in the caller's order, and without repetitions in the statement's.
pub(super) struct Wanted {
    keys: Vec<InboxKey>,
    sorted: Vec<InboxKey>,
}

impl Wanted {
    pub(super) fn new(keys: impl IntoIterator<Item = InboxKey>) -> Self {
        let keys: Vec<InboxKey> = keys.into_iter().collect();
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        sorted.dedup();
        Self { keys, sorted }
    }

    /// The keys of each statement.
    pub(super) fn statements(&self, rows_max: usize) -> impl Iterator<Item = &[InboxKey]> {
        self.sorted.chunks(rows_max)
    }
}

impl Inbox {
    /// A claim commits with the caller's transaction, so there must be one.
    pub(super) fn check_in_transaction(&self, conn: &mut impl Conn) -> Result<(), InboxError> {
        if Depth::of(conn)?.depth > 0 {
            return Ok(());
        }
        Err(InboxError::NotInTransaction { consumer: self.inner.consumer.clone() })
    }

    /// An application's own test may have begun one that never commits.
    pub(super) fn check_no_transaction(&self, conn: &mut impl Conn, call: &'static str) -> Result<(), InboxError> {
        let at = Depth::of(conn)?;
        if at.depth <= at.committed_depth() {
            return Ok(());
        }
        Err(InboxError::InTransaction { consumer: self.inner.consumer.clone(), call })
    }

    pub(super) fn claimed_keys<'a>(&'a self, keys: &'a [InboxKey]) -> ClaimedKeys<'a> {
        let inner = &self.inner;
        let seen_start_ms = inner.seen_start_ms.load(Ordering::Relaxed);
        ClaimedKeys {
            entries: &inner.entries,
            start: &inner.start,
            consumer: inner.number,
            keys,
            seen_start_ms,
            flagged: None,
        }
    }

    /// The database's error, or what it says of the transaction.
    pub(super) fn refused<B: Dialect>(&self, error: diesel::result::Error) -> InboxError {
        if B::is_transaction_lost_error(&error) {
            return InboxError::TransactionLost { consumer: self.inner.consumer.clone() };
        }
        InboxError::Database(error)
    }

    /// What a failed COMMIT means.
    pub(super) fn not_committed(&self, error: CommitError) -> InboxError {
        let consumer = || self.inner.consumer.clone();
        match error {
            CommitError::Aborted => InboxError::TransactionAborted { consumer: consumer() },
            CommitError::Lost => InboxError::TransactionLost { consumer: consumer() },
            CommitError::Database(error) => InboxError::Database(error),
        }
    }

    /// The outcome of each key, in the caller's order. A key that is there twice is new once.
    pub(super) fn outcomes(&self, wanted: &Wanted, mut answer: ClaimAnswer) -> Result<Vec<Claim>, InboxError> {
        if wanted.keys.is_empty() {
            return Ok(Vec::new());
        }
        let start = || InboxError::StartMissing { table: self.inner.start.clone() };
        let kept_from_ms = answer.kept_from_ms.ok_or_else(start)?;
        if kept_from_ms > i64::MIN {
            self.inner.seen_start_ms.store(kept_from_ms, Ordering::Relaxed);
        }
        let outcome = |key: &InboxKey| {
            if key.age_ms() < kept_from_ms {
                let kept_from = SystemTime::UNIX_EPOCH + Duration::from_millis(kept_from_ms.unsigned_abs());
                return Err(InboxError::TooOld { consumer: self.inner.consumer.clone(), key: *key, kept_from });
            }
            Ok(if answer.new.remove(key.as_uuid()) { Claim::New } else { Claim::Duplicate })
        };
        wanted.keys.iter().map(outcome).collect()
    }
}
