//! Copies that come in a run, as after a rewind: found by one read, where a transaction for each would find one.

use std::collections::HashSet;
use std::sync::Arc;

use diesel::QueryResult;

use super::link::Link;
use super::rows::ParkedKey;
use super::transaction::Transactions;
use crate::consumer::engine::{Copies, Job, Outcome};
use crate::consumer::identity::inbox_key;
use crate::consumer::options::OnFailure;
use crate::store::sql::dialect::{Dialect, Statement};
use crate::store::sql::read_value::Columns;

impl<DB: Columns + Dialect, L: Link<DB>> Transactions<DB, L> {
    /// The outcome, with what follows the job's record and is a copy, too.
    pub(super) async fn with_copies_ahead(&mut self, job: &Job, outcome: Outcome) -> Outcome {
        let Outcome::Duplicate { is_key_parked, .. } = outcome else { return outcome };
        let ahead = match self.copies_ahead(job).await {
            Ok(ahead) => ahead,
            Err(error) => {
                // Each is claimed then, which shows what is wrong.
                tracing::debug!(%error, "copies were not looked up");
                Copies::default()
            }
        };
        Outcome::Duplicate { is_key_parked, ahead }
    }

    /// Outside of a transaction, so that it sees what has committed. That stays true: whoever claims such a record finds its entry.
    async fn copies_ahead(&mut self, job: &Job) -> QueryResult<Copies> {
        if job.ahead.is_empty() {
            return Ok(Copies::default());
        }
        let mut keys: Vec<_> = job.ahead.iter().map(|record| (inbox_key(record), record.offset)).collect();
        keys.sort_unstable();
        let only: Vec<_> = keys.iter().map(|(key, _)| *key).collect();
        let found = self.link.find(&only).await?;
        let offsets = keys.iter().filter(|(key, _)| found.contains(key.as_uuid())).map(|(_, offset)| *offset).collect();
        // Behind the entries: whoever parked a record has written both in one transaction.
        let parked_keys = match self.options.on_failure {
            OnFailure::Park if !found.is_empty() => self.parked_keys(job).await?,
            _ => HashSet::new(),
        };
        Ok(Copies { offsets, parked_keys })
    }

    async fn parked_keys(&mut self, job: &Job) -> QueryResult<HashSet<Arc<[u8]>>> {
        let read = Statement::new(&self.sql.parked_keys, self.binds(&job.token.partition, []));
        let keys = self.link.load::<ParkedKey>(read).await?;
        let looked_up: HashSet<&[u8]> = job.ahead.iter().filter_map(|record| record.key()).collect();
        let keys = keys.into_iter().filter_map(|key| key.0);
        Ok(keys.filter(|key: &Arc<[u8]>| looked_up.contains(&**key)).collect())
    }
}
