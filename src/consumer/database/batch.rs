//! A batch: several records in one transaction, with one claim and one COMMIT for all of them.
//!
//! It commits only where each record is new and each handler succeeds. Everything else is left to the transaction that a record has for
//! itself.

use std::sync::Arc;
use std::time::SystemTime;

use super::failure::Failure;
use super::link::Link;
use super::transaction::Transactions;
use crate::clock::system_now;
use crate::consumer::engine::{Job, Outcome};
use crate::consumer::identity::inbox_key;
use crate::consumer::record::Record;
use crate::crash_points::crash_point;
use crate::inbox::InboxKey;
use crate::limits::{CONSUMER_BATCH_AGE_DIVISOR, CONSUMER_CONNECTION_TIMEOUT};
use crate::outbox::transaction::CommitError;
use crate::retention::DAY;
use crate::store::sql::dialect::{Bind, Dialect, Statement};
use crate::store::sql::read_value::Columns;

const RELEASE: &str = "RELEASE SAVEPOINT record_batch";

impl<DB: Columns + Dialect, L: Link<DB>> Transactions<DB, L> {
    pub(super) async fn jobs(&mut self, jobs: &[Job]) -> Outcome {
        if let Err(error) = self.link.connect(CONSUMER_CONNECTION_TIMEOUT).await {
            return Outcome::DatabaseAway(error.to_string());
        }
        let records: Vec<&Arc<Record>> = jobs.iter().filter_map(|job| job.work.record()).collect();
        let mut keys: Vec<_> = records.iter().map(|record| inbox_key(record)).collect();
        keys.sort_unstable();
        let processed = match self.seem_new(&keys).await {
            Ok(true) => self.process_all(jobs, &records, &keys).await,
            Ok(false) => return Outcome::BatchRefused,
            Err(failure) => Err(failure),
        };
        let outcome = match processed {
            Ok(true) => Outcome::Handled,
            Ok(false) => {
                if !self.roll_back().await {
                    self.link.discard();
                }
                Outcome::BatchFailed
            }
            Err(failure) => self.fail(failure).await,
        };
        // Of the handler that failed, if one did.
        self.end_span(&outcome);
        match outcome {
            Outcome::Handled | Outcome::DatabaseAway(_) | Outcome::OffsetMoved => outcome,
            outcome => {
                tracing::debug!(
                    records = jobs.len(),
                    ?outcome,
                    "a batch was rolled back: each of its records runs alone"
                );
                Outcome::BatchFailed
            }
        }
    }

    /// Returns `false` if one of the records is not new.
    ///
    /// Progress is written last. **Rejected:** first, as for a single record. A handler that breaks the rules and commits would keep the
    /// claims of records that have not run yet, and these would be lost.
    async fn process_all(
        &mut self,
        jobs: &[Job],
        records: &[&Arc<Record>],
        keys: &[InboxKey],
    ) -> Result<bool, Failure> {
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
        self.move_offset_past(jobs).await?;
        // Another process may have processed one of them meanwhile: the claim waits for it.
        if !self.link.claim_all(keys).await? {
            return Ok(false);
        }
        crash_point!(CONSUMER_CLAIMED);
        crash_point!(CONSUMER_COMMITTING);
        self.link.commit().await.map_err(Failure::Commit)?;
        crash_point!(CONSUMER_COMMITTED);
        Ok(true)
    }

    /// Whether the inbox knows none of these messages, and they are far from being too old: no handler is to see a copy.
    async fn seem_new(&mut self, keys: &[InboxKey]) -> Result<bool, Failure> {
        let Some(inbox) = self.link.inbox() else { return Ok(true) };
        let kept = DAY * inbox.keep_days() / CONSUMER_BATCH_AGE_DIVISOR;
        let is_old = |made_at: SystemTime| system_now().duration_since(made_at).is_ok_and(|age| age > kept);
        let has_twins = keys.windows(2).any(|two| two[0] == two[1]);
        if has_twins || keys.iter().filter_map(|key| key.created_at()).any(is_old) {
            return Ok(false);
        }
        // Outside of the transaction: on MariaDB its first read decides what later ones see.
        Ok(self.link.find(keys).await?.is_empty())
    }

    /// Moves the partition's stored offset behind the last of these records, if there is one.
    async fn move_offset_past(&mut self, jobs: &[Job]) -> Result<(), Failure> {
        let (Some(first), Some(last)) = (jobs.first(), jobs.last().and_then(|job| job.work.offset())) else {
            return Ok(());
        };
        if !self.options.progress.has_offsets() {
            return Ok(());
        }
        let steps = [first.expected_next, last + 1].map(Bind::Number);
        let binds = self.binds(&first.token.partition, steps);
        match self.link.execute(Statement::new(&self.sql.move_offset, binds)).await? {
            0 => Err(Failure::OffsetMoved),
            _ => Ok(()),
        }
    }
}
