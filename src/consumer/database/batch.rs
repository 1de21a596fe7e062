//! A batch: several records in one transaction, with one claim and one COMMIT for all of them.
//!
//! It commits only where each record is new and each handler succeeds. Everything else is left to the transaction that a record has for
//! itself.

use std::sync::Arc;

use tracing::Span;

use super::failure::Failure;
use super::link::Link;
use super::transaction::Transactions;
use crate::consumer::engine::{Job, Outcome};
use crate::consumer::identity::inbox_key;
use crate::consumer::record::Record;
use crate::consumer::span;
use crate::crash_points::crash_point;
use crate::limits::CONSUMER_CONNECTION_TIMEOUT;
use crate::store::sql::dialect::{Bind, Dialect, Statement};
use crate::store::sql::read_value::Columns;

impl<DB: Columns + Dialect, L: Link<DB>> Transactions<DB, L> {
    pub(super) async fn batch(&mut self, jobs: &[Job]) -> Outcome {
        if let Err(error) = self.link.connect(CONSUMER_CONNECTION_TIMEOUT).await {
            return Outcome::DatabaseAway(error.to_string());
        }
        let mut spans = Vec::with_capacity(jobs.len());
        let outcome = match self.process_all(jobs, &mut spans).await {
            Ok(true) => Outcome::Handled,
            Ok(false) => {
                if !self.roll_back().await {
                    self.link.discard();
                }
                Outcome::BatchFailed("one of its records is a copy, or too old".to_owned())
            }
            Err(failure) => match self.fail(failure).await {
                outcome @ (Outcome::DatabaseAway(_) | Outcome::OffsetMoved) => outcome,
                outcome => Outcome::BatchFailed(format!("{outcome:?}")),
            },
        };
        if let Outcome::BatchFailed(reason) = &outcome {
            tracing::debug!(records = jobs.len(), reason, "a batch was rolled back: each of its records runs alone");
        }
        spans.iter().for_each(|span| span::end(span, &outcome));
        outcome
    }

    /// Returns `false` if one of the records is not new.
    ///
    /// Progress is written last. **Rejected:** first, as for a single record. A handler that breaks the rules and commits would keep the
    /// claims of records that have not run yet, and these would be lost.
    async fn process_all(&mut self, jobs: &[Job], spans: &mut Vec<Span>) -> Result<bool, Failure> {
        let records: Vec<&Arc<Record>> = jobs.iter().filter_map(|job| job.work.record()).collect();
        let mut keys: Vec<_> = records.iter().map(|record| inbox_key(record)).collect();
        keys.sort_unstable();
        // Before the handlers see a copy. Outside of the transaction, whose handlers may be the first to read on MariaDB.
        if self.options.progress.has_inbox() && !self.link.find(&keys).await?.is_empty() {
            return Ok(false);
        }
        self.begin().await?;
        for record in records {
            let handled = self.handle(record, Some(1)).await;
            spans.push(self.take_span());
            handled?;
        }
        self.move_offset_past(jobs).await?;
        // Another process may have processed one of them meanwhile: the claim waits for it.
        if self.options.progress.has_inbox() && !self.link.claim_all(&keys).await? {
            return Ok(false);
        }
        crash_point!(CONSUMER_CLAIMED);
        crash_point!(CONSUMER_COMMITTING);
        self.link.commit().await.map_err(Failure::Commit)?;
        crash_point!(CONSUMER_COMMITTED);
        Ok(true)
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
