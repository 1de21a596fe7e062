//! Parked records that somebody released, each in a transaction of its own.

use super::failure::Failure;
use super::link::Link;
use super::rows::ParkedRow;
use super::transaction::Transactions;
use crate::consumer::engine::{Outcome, Replay};
use crate::consumer::error::HandlerError;
use crate::consumer::record::PartitionId;
use crate::limits::cut_error_text;
use crate::store::sql::columns::Columns;
use crate::store::sql::dialect::{Bind, Dialect, Statement};

impl<DB: Columns + Dialect, L: Link<DB>> Transactions<DB, L> {
    /// Processes released records. Those of a key go in order, until none is left or one fails.
    pub(super) async fn replay(&mut self, id: &PartitionId, replay: &Replay) -> Result<Outcome, Failure> {
        loop {
            self.link.begin().await?;
            let lock = match replay {
                Replay::Key(key) => {
                    let key = Bind::OptionalBytes(Some(key.to_vec()));
                    Statement::new(&self.sql.lock_key, self.binds(id, [key]))
                }
                Replay::Row(row) => Statement::new(&self.sql.lock_row, self.binds(id, [Bind::Number(*row)])),
            };
            let Some(row) = self.link.load::<ParkedRow>(lock).await?.pop() else {
                self.link.commit().await?;
                return Ok(Outcome::Replayed { is_key_free: true });
            };
            if let Err(outcome) = self.replay_row(id, row).await? {
                return Ok(outcome);
            }
        }
    }

    /// Processes one. A failure takes its release back.
    async fn replay_row(&mut self, id: &PartitionId, row: ParkedRow) -> Result<Result<(), Outcome>, Failure> {
        let row_id = row.id;
        let handled = match row.into_record(id.clone()) {
            Ok(record) => self.handle(&record).await,
            Err(error) => Err(Failure::Handler(HandlerError::permanent(error))),
        };
        if let Err(failure) = handled {
            let outcome = self.fail(failure).await;
            if let Outcome::Failed(error) = &outcome {
                self.link.connect().await.map_err(|error| Failure::Handler(HandlerError::retriable(error)))?;
                let error = Bind::Text(cut_error_text(&error.to_string()).into());
                let taken_back = Statement::new(&self.sql.not_replayed, [Bind::Number(row_id), error]);
                self.link.execute(taken_back).await?;
            }
            return Ok(Err(outcome));
        }
        // It fails if the handler swallowed an error.
        self.link.execute(Statement::new(&self.sql.unpark, [Bind::Number(row_id)])).await?;
        self.link.commit().await?;
        Ok(Ok(()))
    }
}
