//! What the loop reads of the database. Locks of others delay it for a bounded time only.

use std::collections::HashSet;

use diesel::result::Error;

use super::link::{Link, store_error};
use super::rows::{ParkedKey, Released};
use super::transaction::Transactions;
use crate::consumer::engine::{QueueKey, Replay};
use crate::consumer::record::PartitionId;
use crate::consumer::source::Position;
use crate::consumer::worker::Opened;
use crate::limits::{CONSUMER_CONNECTION_TIMEOUT, CONSUMER_LOCK_TIMEOUT};
use crate::outbox::transaction::CommitError;
use crate::store::sql::dialect::{Bind, Dialect, Statement};
use crate::store::sql::read_value::Columns;
use crate::store::{SchemaProblem, StoreError};

/// Gives a MySQL session back the bounds that it had.
const RESTORE_MYSQL: &str =
    "SET SESSION lock_wait_timeout = @outbox_lock_wait, SESSION innodb_lock_wait_timeout = @outbox_row_wait";

impl<DB: Columns + Dialect, L: Link<DB>> Transactions<DB, L> {
    pub(super) async fn open_bounded(&mut self, id: &PartitionId, position: &Position) -> Result<Opened, StoreError> {
        self.begin_bounded().await?;
        let opened = self.open_partition(id, position).await;
        self.end_bounded(opened).await
    }

    pub(super) async fn released_bounded(&mut self, id: &PartitionId) -> Result<Vec<(QueueKey, Replay)>, StoreError> {
        self.begin_bounded().await?;
        let read = Statement::new(&self.sql.released, self.binds(id, []));
        let released = self.link.load::<Released>(read).await;
        let released = released.map(|rows| rows.into_iter().map(|Released(queue, replay)| (queue, replay)).collect());
        self.end_bounded(released.map_err(store_error)).await
    }

    /// Not bounded: its statements bound themselves, and it runs outside of a transaction.
    pub(super) async fn prune_inbox(&mut self) -> Result<bool, StoreError> {
        self.link.connect(CONSUMER_CONNECTION_TIMEOUT).await.map_err(StoreError::Unreachable)?;
        let pruned = self.link.prune().await;
        pruned.map_err(|error| self.discarded(store_error(error)))
    }

    async fn begin_bounded(&mut self) -> Result<(), StoreError> {
        self.link.connect(CONSUMER_CONNECTION_TIMEOUT).await.map_err(StoreError::Unreachable)?;
        let begun = self.bound().await;
        begun.map_err(|error| self.discarded(store_error(error)))
    }

    async fn bound(&mut self) -> Result<(), Error> {
        let (ms, seconds) = (CONSUMER_LOCK_TIMEOUT.as_millis(), CONSUMER_LOCK_TIMEOUT.as_secs());
        match DB::SYNTAX.database {
            "postgres" => {
                self.link.begin().await?;
                self.link
                    .batch(&format!("SET LOCAL lock_timeout = {ms}; SET LOCAL statement_timeout = {}", 2 * ms))
                    .await
            }
            "mysql" => {
                let keep = "SET @outbox_lock_wait = @@lock_wait_timeout, @outbox_row_wait = @@innodb_lock_wait_timeout";
                self.link.batch(keep).await?;
                let bound =
                    format!("SET SESSION lock_wait_timeout = {seconds}, SESSION innodb_lock_wait_timeout = {seconds}");
                self.link.batch(&bound).await
            }
            // SQLite waits for as long as its `busy_timeout` says.
            _ => Ok(()),
        }
    }

    /// Ends what [`begin_bounded`](Self::begin_bounded) began. A connection that failed is not used again.
    async fn end_bounded<T>(&mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        let value = result.map_err(|error| self.discarded(error))?;
        let ended = match DB::SYNTAX.database {
            "postgres" => self.link.commit().await,
            "mysql" => self.link.batch(RESTORE_MYSQL).await.map_err(CommitError::Database),
            _ => Ok(()),
        };
        match ended {
            Ok(()) => Ok(value),
            Err(CommitError::Database(error)) => Err(self.discarded(store_error(error))),
            Err(CommitError::Aborted | CommitError::Lost) => {
                Err(self.discarded(store_error(Error::BrokenTransactionManager)))
            }
        }
    }

    fn discarded(&mut self, error: StoreError) -> StoreError {
        self.link.discard();
        error
    }

    async fn open_partition(&mut self, id: &PartitionId, position: &Position) -> Result<Opened, StoreError> {
        let mut opened =
            Opened { start: position.start, gone: None, parked_keys: HashSet::new(), has_parked_alone: false };
        if self.options.progress.has_offsets() {
            opened.start = self.stored_offset(id, position.start).await.map_err(store_error)?;
        }
        if !position.has(opened.start) {
            self.check_range(id, position, opened.start)?;
            opened.gone = Some(opened.start);
            if self.options.progress.has_offsets() {
                let steps = [opened.start, position.first].map(Bind::Number);
                let moved = Statement::new(&self.sql.move_offset, self.binds(id, steps));
                // If another process moves it meanwhile, the first record finds that.
                self.link.execute(moved).await.map_err(store_error)?;
            }
            opened.start = position.first;
        }
        let read = Statement::new(&self.sql.parked_keys, self.binds(id, []));
        let keys = self.link.load::<ParkedKey>(read).await.map_err(store_error)?;
        opened.has_parked_alone = keys.iter().any(|key| key.0.is_none());
        opened.parked_keys = keys.into_iter().filter_map(|key| key.0).collect();
        Ok(opened)
    }

    /// The partition's offset, which is `start` if it has none. Read first: to insert waits for whoever holds the row, which may be a
    /// process that has lost the partition.
    async fn stored_offset(&mut self, id: &PartitionId, start: i64) -> Result<i64, Error> {
        let stored = Statement::new(&self.sql.read_offset, self.binds(id, []));
        if let Some(stored) = self.link.load::<i64>(stored).await?.pop() {
            return Ok(stored);
        }
        let add = Statement::new(&self.sql.add_offset, self.binds(id, [Bind::Number(start)]));
        self.link.execute(add).await?;
        let stored = Statement::new(&self.sql.read_offset, self.binds(id, []));
        self.link.load::<i64>(stored).await?.pop().ok_or(Error::NotFound)
    }

    /// Whether going on from the oldest record repeats nothing. Below that the records are gone. Beyond the end it is another topic of
    /// the same name, or one that lost records, or a transaction is open before it: only the inbox tells what was processed.
    fn check_range(&self, id: &PartitionId, position: &Position, stored: i64) -> Result<(), StoreError> {
        if stored < position.first || self.options.progress.has_inbox() {
            return Ok(());
        }
        let found = format!(
            "the stored offset {stored} of {id} is beyond the partition's end {}: the topic was made anew, lost records, or has an open transaction",
            position.end
        );
        let remedy = "set next_offset in outbox_consumer_offsets to where to go on: 0 for a new topic, the end for one that lost records";
        Err(StoreError::Schema(SchemaProblem::Setting { found, remedy }))
    }
}
