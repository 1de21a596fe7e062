//! The transactions of records.

use std::collections::HashSet;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use diesel::QueryResult;
use diesel::result::Error;

use super::claim::Claimed;
use super::failure::{Failure, outcome};
use super::link::Link;
use super::rows::{ParkedKey, ParkedRow, Released};
use super::statements::ConsumerSql;
use crate::clock::millis;
use crate::consumer::engine::{Job, LaneKey, Outcome, Replay, Step, Work};
use crate::consumer::identity::inbox_key;
use crate::consumer::options::{OnFailure, Options};
use crate::consumer::record::{PartitionId, Record};
use crate::consumer::worker::{Opened, Worker};
use crate::crash_points::crash_point;
use crate::limits::cut_error_text;
use crate::panic_guard::catch_panic_async;
use crate::store::StoreError;
use crate::store::sql::columns::Columns;
use crate::store::sql::dialect::{Bind, BindOf, Dialect, Statement};
use crate::store::sql::text::SqlRenderer;

/// One worker's connection and statements.
pub(super) struct Transactions<DB: Dialect, L: Link<DB>> {
    pub(super) link: L,
    pub(super) sql: Arc<ConsumerSql>,
    pub(super) options: Arc<Options>,
    runtime: L::Runtime,
    database: PhantomData<fn() -> DB>,
}

/// The statements of a database.
pub(super) fn sql<DB: Dialect>(options: &Options) -> Arc<ConsumerSql> {
    let renderer = SqlRenderer { syntax: DB::SYNTAX, names: &options.tables, fragments: Vec::new() };
    Arc::new(ConsumerSql::new(&renderer))
}

impl<DB: Columns + Dialect, L: Link<DB>> Transactions<DB, L> {
    pub(super) fn new(link: L, sql: Arc<ConsumerSql>, options: Arc<Options>, runtime: L::Runtime) -> Self {
        Self { link, sql, options, runtime, database: PhantomData }
    }

    /// Consumer, topic and partition, and more.
    pub(super) fn binds(&self, id: &PartitionId, more: impl IntoIterator<Item = BindOf<DB>>) -> Vec<BindOf<DB>> {
        let texts = [&self.options.consumer, &id.topic, &id.name];
        texts.into_iter().map(Bind::text).chain(more).collect()
    }

    async fn job(&mut self, job: &Job) -> Outcome {
        if let Err(error) = self.link.connect().await {
            return Outcome::DatabaseAway(error.to_string());
        }
        let result = match &job.work {
            Work::Record(record) => self.record(job, record).await,
            Work::Replay(replay) => self.replay(&job.token.partition, replay).await,
        };
        match result {
            Ok(outcome) => outcome,
            Err(failure) => self.fail(failure).await,
        }
    }

    /// Rolls back, and says what the failure means.
    pub(super) async fn fail(&mut self, failure: Failure) -> Outcome {
        let is_panic = matches!(failure, Failure::Panicked);
        // A COMMIT that failed has ended the transaction already.
        let rolled_back = matches!(self.link.rollback().await, Ok(()) | Err(Error::NotInTransaction));
        let outcome = outcome(&mut self.link, failure, rolled_back).await;
        // A connection that may be in an unknown state is not used again.
        if is_panic || !rolled_back || matches!(outcome, Outcome::DatabaseAway(_)) {
            self.link.discard();
        }
        outcome
    }

    async fn record(&mut self, job: &Job, record: &Record) -> Result<Outcome, Failure> {
        self.link.begin().await?;
        if let Some(outcome) = self.claim(job, record).await? {
            return self.end(outcome).await;
        }
        crash_point!(CONSUMER_CLAIMED);
        let done = match &job.step {
            Step::GiveUp { reason } => {
                let holds_key = self.options.on_failure == OnFailure::Park && record.key.is_some();
                self.park(record, holds_key, reason).await?;
                if holds_key { Outcome::Parked } else { Outcome::DeadLettered }
            }
            Step::Handle if job.is_key_parked && self.is_key_parked(record).await? => {
                self.park(record, true, "an earlier record of its key is parked").await?;
                Outcome::Parked
            }
            Step::Handle => {
                self.handle(record).await?;
                Outcome::Handled
            }
        };
        self.end(done).await
    }

    /// Begins the transaction: whoever comes second waits here, and finds that it is done.
    async fn claim(&mut self, job: &Job, record: &Record) -> Result<Option<Outcome>, Failure> {
        let progress = self.options.progress;
        if progress.has_offsets() {
            let steps = [job.expected_next, record.offset + 1].map(Bind::Number);
            let statement = Statement::new(&self.sql.move_offset, self.binds(&record.partition, steps));
            if self.link.execute(statement).await? == 0 {
                return Err(Failure::OffsetMoved);
            }
        }
        if !progress.has_inbox() {
            return Ok(None);
        }
        match self.link.claim(inbox_key(record)).await? {
            Claimed::New => Ok(None),
            Claimed::TooOld => Ok(Some(Outcome::TooOld)),
            // Another process may have parked it, which this one does not know yet.
            Claimed::Duplicate => {
                let is_key_parked = self.options.on_failure == OnFailure::Park && self.is_key_parked(record).await?;
                Ok(Some(Outcome::Duplicate { is_key_parked }))
            }
        }
    }

    async fn end(&mut self, outcome: Outcome) -> Result<Outcome, Failure> {
        self.check_transaction(&outcome).await?;
        crash_point!(CONSUMER_COMMITTING);
        self.link.commit().await?;
        match outcome {
            Outcome::Parked | Outcome::DeadLettered => {
                crash_point!(CONSUMER_PARKED);
            }
            _ => {
                crash_point!(CONSUMER_COMMITTED);
            }
        }
        Ok(outcome)
    }

    /// PostgreSQL answers the COMMIT of a failed transaction as if it had committed. So a handler that swallowed an error would lose its
    /// record.
    async fn check_transaction(&mut self, outcome: &Outcome) -> QueryResult<()> {
        match outcome {
            Outcome::Handled if DB::SYNTAX.database == "postgres" => self.link.ping().await,
            _ => Ok(()),
        }
    }

    pub(super) async fn handle(&mut self, record: &Record) -> Result<(), Failure> {
        let handled = catch_panic_async("consumer_handler", record.topic(), self.link.handle(record)).await;
        handled.ok_or(Failure::Panicked)?.map_err(Failure::Handler)?;
        crash_point!(CONSUMER_HANDLED);
        Ok(())
    }

    async fn is_key_parked(&mut self, record: &Record) -> QueryResult<bool> {
        let Some(key) = &record.key else { return Ok(false) };
        let key = Bind::OptionalBytes(Some(key.to_vec()));
        let statement = Statement::new(&self.sql.lock_key, self.binds(&record.partition, [key]));
        Ok(!self.link.load::<ParkedRow>(statement).await?.is_empty())
    }

    async fn park(&mut self, record: &Record, holds_key: bool, error: &str) -> QueryResult<()> {
        let sent_at_ms = record.timestamp.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map(millis);
        let binds = [
            Bind::Number(record.offset),
            Bind::OptionalBytes(record.key.as_ref().map(|key| key.to_vec())),
            Bind::Text(record.headers.to_json().into()),
            Bind::OptionalBytes(record.payload.clone()),
            // Minus one stands for none: statements bind no optional number.
            Bind::Number(sent_at_ms.unwrap_or(-1)),
            Bind::Number(i64::from(holds_key)),
            Bind::Text(cut_error_text(error).into()),
        ];
        let statement = Statement::new(&self.sql.park, self.binds(&record.partition, binds));
        self.link.execute(statement).await.map(drop)
    }

    async fn open_partition(&mut self, id: &PartitionId, start: i64) -> Result<Opened, Error> {
        let mut opened = Opened { start, parked_keys: HashSet::new(), has_dead_letters: false };
        if self.options.progress.has_offsets() {
            let add = Statement::new(&self.sql.add_offset, self.binds(id, [Bind::Number(start)]));
            self.link.execute(add).await?;
            let read = Statement::new(&self.sql.read_offset, self.binds(id, []));
            opened.start = self.link.load::<i64>(read).await?.pop().ok_or(Error::NotFound)?;
        }
        let read = Statement::new(&self.sql.parked_keys, self.binds(id, []));
        let keys = self.link.load::<ParkedKey>(read).await?;
        opened.has_dead_letters = keys.iter().any(|key| key.0.is_none());
        opened.parked_keys = keys.into_iter().filter_map(|key| key.0).collect();
        Ok(opened)
    }

    async fn read_released(&mut self, id: &PartitionId) -> Result<Vec<(LaneKey, Replay)>, Error> {
        let read = Statement::new(&self.sql.released, self.binds(id, []));
        let released = self.link.load::<Released>(read).await?;
        Ok(released.into_iter().map(|Released(lane, replay)| (lane, replay)).collect())
    }

    /// Discards the connection after an error: the next call takes another one.
    fn checked<T>(&mut self, result: Result<T, Error>) -> Result<T, StoreError> {
        result.map_err(|error| {
            self.link.discard();
            match crate::store::classify(error, crate::limits::CONSUMER_CONNECTION_TIMEOUT) {
                crate::store::ErrorClass::Known(error) => error,
                crate::store::ErrorClass::Unclear(error) => StoreError::Statement(error.into()),
            }
        })
    }
}

impl<DB, L> Worker for Transactions<DB, L>
where
    DB: Columns + Dialect,
    L: Link<DB> + Send,
{
    fn run(&mut self, job: &Job) -> Outcome {
        let runtime = self.runtime.clone();
        L::block_on(&runtime, self.job(job))
    }

    fn open(&mut self, id: &PartitionId, start: i64) -> Result<Opened, StoreError> {
        let runtime = self.runtime.clone();
        L::block_on(&runtime, async {
            self.link.connect().await.map_err(StoreError::Unreachable)?;
            let opened = self.open_partition(id, start).await;
            self.checked(opened)
        })
    }

    fn released(&mut self, id: &PartitionId) -> Result<Vec<(LaneKey, Replay)>, StoreError> {
        let runtime = self.runtime.clone();
        L::block_on(&runtime, async {
            self.link.connect().await.map_err(StoreError::Unreachable)?;
            let released = self.read_released(id).await;
            self.checked(released)
        })
    }

    fn rest(&mut self) {
        self.link.release();
    }
}
