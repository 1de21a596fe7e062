//! Parked records that somebody released, each in a transaction of its own.

use diesel::result::Error;

use super::claim::Claimed;
use super::failure::Failure;
use super::link::Link;
use super::rows::ParkedRow;
use super::transaction::Transactions;
use crate::consumer::engine::{Outcome, Replay};
use crate::consumer::error::HandlerError;
use crate::consumer::identity::key_of_application;
use crate::consumer::record::{PartitionId, Record};
use crate::limits::CONSUMER_CONNECTION_TIMEOUT;
use crate::store::sql::dialect::{Bind, Dialect, Statement};
use crate::store::sql::read_value::Columns;
use crate::store::stored::truncated_text;

impl<DB: Columns + Dialect, L: Link<DB>> Transactions<DB, L> {
    /// Processes released records. Those of a key go in order, until none is left or one fails.
    pub(super) async fn replay(&mut self, id: &PartitionId, replay: &Replay) -> Result<Outcome, Failure> {
        // By itself, before a handler runs: a record that ends the process is not replayed again and again.
        let take = match replay {
            Replay::Key(key) => Statement::new(&self.sql.take_key, self.binds(id, [key_bind(key)])),
            Replay::Row(row) => Statement::new(&self.sql.take_row, [Bind::Number(*row)]),
        };
        self.link.execute(take).await?;
        loop {
            self.begin().await?;
            let lock = match replay {
                Replay::Key(key) => Statement::new(&self.sql.lock_key, self.binds(id, [key_bind(key)])),
                Replay::Row(row) => Statement::new(&self.sql.lock_row, self.binds(id, [Bind::Number(*row)])),
            };
            let Some(row) = self.link.load::<ParkedRow>(lock).await?.pop() else {
                self.link.commit().await.map_err(Failure::Commit)?;
                return Ok(Outcome::Replayed { is_key_free: true });
            };
            if let Err(outcome) = self.replay_row(id, row).await? {
                return Ok(outcome);
            }
        }
    }

    /// Processes one. If it fails, it stays where it is, with its error.
    async fn replay_row(&mut self, id: &PartitionId, row: ParkedRow) -> Result<Result<(), Outcome>, Failure> {
        let row_id = row.id;
        self.link.execute(Statement::new(&self.sql.unpark, [Bind::Number(row_id)])).await?;
        let handled = match row.into_record(id.clone()) {
            Ok(record) => self.replay_record(&record).await,
            Err(error) => Err(Failure::Handler(HandlerError::permanent(error))),
        };
        let done = match handled {
            Ok(()) => self.link.commit().await.map_err(Failure::Commit),
            Err(failure) => Err(failure),
        };
        let Err(failure) = done else {
            self.end_span(&Outcome::Handled);
            return Ok(Ok(()));
        };
        let outcome = self.fail(failure).await;
        self.end_span(&outcome);
        if let Outcome::Failed(error) | Outcome::ConnectionLost(error) = &outcome {
            let connected = self.link.connect(CONSUMER_CONNECTION_TIMEOUT).await;
            connected.map_err(|_| Error::BrokenTransactionManager)?;
            let error = Bind::Text(truncated_text(&error.to_string()).into());
            self.link.execute(Statement::new(&self.sql.not_replayed, [Bind::Number(row_id), error])).await?;
        }
        Ok(Err(outcome))
    }

    /// Claims it under the application's key first: another copy of it may have been processed. One that the inbox would no longer know is
    /// processed, as somebody asked for.
    async fn replay_record(&mut self, record: &Record) -> Result<(), Failure> {
        let hook = self.options.inbox_key.as_ref().filter(|_| self.options.progress.has_inbox());
        if let Some(key) = key_of_application(record, hook)?
            && self.link.claim(key).await? == Claimed::Duplicate
        {
            return Ok(());
        }
        self.handle(record, None).await
    }
}

fn key_bind<Native>(key: &[u8]) -> Bind<Native> {
    Bind::OptionalBytes(Some(key.to_vec()))
}
