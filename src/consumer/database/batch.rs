//! A batch: several records in one transaction, with one claim and one COMMIT for all of them.
//!
//! It commits only where each record is new and each handler succeeds. Everything else is left to the transaction that a record has for
//! itself.

use std::sync::Arc;

use super::failure::Failure;
use super::link::Link;
use super::transaction::Transactions;
use crate::clock::system_now;
use crate::consumer::engine::{Job, Outcome};
use crate::consumer::identity::inbox_key;
use crate::consumer::record::Record;
use crate::crash_points::crash_point;
use crate::inbox::InboxKey;
use crate::limits::CONSUMER_BATCH_AGE_DIVISOR;
use crate::outbox::transaction::CommitError;
use crate::retention::DAY;
use crate::store::sql::dialect::Dialect;
use crate::store::sql::read_value::Columns;

const RELEASE: &str = "RELEASE SAVEPOINT record_batch";

impl<DB: Columns + Dialect, L: Link<DB>> Transactions<DB, L> {
    pub(super) async fn batch(&mut self, jobs: &[Job]) -> Outcome {
        let records: Vec<&Arc<Record>> = jobs.iter().filter_map(|job| job.work.record()).collect();
        let mut keys: Vec<_> = records.iter().map(|record| inbox_key(record)).collect();
        keys.sort_unstable();
        let processed = match self.seem_new(&keys).await {
            Ok(true) => self.process_all(jobs, &records, &keys).await,
            Ok(false) => return Outcome::BatchRefused,
            Err(failure) => Err(failure),
        };
        let outcome = match processed {
            Ok(()) => Outcome::Handled,
            Err(failure) => self.fail(failure).await,
        };
        // Of the handler that failed, if one did.
        self.end_span(&outcome);
        match outcome {
            Outcome::Handled | Outcome::DatabaseAway(_) | Outcome::OffsetMoved => outcome,
            outcome => {
                let records = jobs.len();
                tracing::debug!(records, ?outcome, "a batch was rolled back: each of its records runs alone");
                Outcome::BatchFailed
            }
        }
    }

    /// Progress is written last. **Rejected:** first, as for a single record. A handler that breaks the rules and commits would keep the
    /// claims of records that have not run yet, and these would be lost.
    async fn process_all(&mut self, jobs: &[Job], records: &[&Arc<Record>], keys: &[InboxKey]) -> Result<(), Failure> {
        self.begin().await?;
        self.link.batch(&self.sql.batch_savepoint.first().sql).await?;
        for record in records {
            self.handle(record, Some(1)).await?;
            if self.link.is_transaction_lost() {
                // What the next handler writes would be committed at once.
                return Err(Failure::Commit(CommitError::Lost));
            }
            self.end_span(&Outcome::Handled);
        }
        // Fails if a handler has ended the transaction. What is written next would then be kept without the handlers' work.
        self.link.batch(RELEASE).await?;
        if let ([first, ..], [.., last]) = (jobs, records)
            && self.options.progress.has_offsets()
        {
            self.move_offset(&first.token.partition, [first.expected_next, last.offset + 1]).await?;
        }
        // Another process may have processed one of them meanwhile: the claim waits for it.
        if !self.link.claim_all(keys).await? {
            return Err(Failure::NotNew);
        }
        crash_point!(CONSUMER_CLAIMED);
        crash_point!(CONSUMER_COMMITTING);
        self.link.commit().await.map_err(Failure::Commit)?;
        crash_point!(CONSUMER_COMMITTED);
        Ok(())
    }

    /// Whether the inbox knows none of these messages, and they are far from being too old: no handler is to see a copy.
    async fn seem_new(&mut self, keys: &[InboxKey]) -> Result<bool, Failure> {
        let Some(inbox) = self.link.inbox() else { return Ok(true) };
        let (kept, now) = (DAY * inbox.keep_days() / CONSUMER_BATCH_AGE_DIVISOR, system_now());
        let is_old = |made_at| now.duration_since(made_at).is_ok_and(|age| age > kept);
        let has_twins = keys.windows(2).any(|two| two[0] == two[1]);
        if has_twins || keys.iter().filter_map(InboxKey::created_at).any(is_old) {
            return Ok(false);
        }
        // Outside of the transaction: on MariaDB its first read decides what later ones see.
        Ok(self.link.find(keys).await?.is_empty())
    }
}
