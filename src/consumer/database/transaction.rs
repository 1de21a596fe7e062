//! The transactions of records.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use diesel::QueryResult;
use diesel::result::Error;
use tracing::{Instrument as _, Span};

use super::claim::Claimed;
use super::failure::{Failure, outcome};
use super::link::Link;
use super::rows::ParkedRow;
use super::statements::ConsumerSql;
use crate::clock::millis;
use crate::consumer::engine::{Copies, Job, Outcome, QueueKey, Replay, Step, Work};
use crate::consumer::error::HandlerError;
use crate::consumer::identity::{asks_application, inbox_key, key_of_application};
use crate::consumer::options::{OnFailure, Options};
use crate::consumer::record::{PartitionId, Record};
use crate::consumer::source::Position;
use crate::consumer::span;
use crate::consumer::worker::{Opened, Worker};
use crate::crash_points::crash_point;
use crate::inbox::InboxKey;
use crate::injected_bugs::{InjectedBug, is_injected};
use crate::limits::CONSUMER_CONNECTION_TIMEOUT;
use crate::panic_guard::catch_panic_async;
use crate::store::StoreError;
use crate::store::sql::dialect::{Bind, BindOf, Dialect, Statement};
use crate::store::sql::read_value::Columns;
use crate::store::sql::text::SqlRenderer;
use crate::store::stored::truncated_text;

/// One worker's connection and statements.
pub(super) struct Transactions<DB: Dialect, L: Link<DB>> {
    pub(super) link: L,
    pub(super) sql: Arc<ConsumerSql>,
    pub(super) options: Arc<Options>,
    runtime: L::Runtime,
    /// Of the handler that runs, until its transaction has ended.
    span: Span,
    database: PhantomData<fn() -> DB>,
}

/// The statements of a database.
pub(super) fn sql<DB: Dialect>(options: &Options) -> Arc<ConsumerSql> {
    let renderer = SqlRenderer { syntax: DB::SYNTAX, names: &options.tables, fragments: Vec::new() };
    Arc::new(ConsumerSql::new(&renderer))
}

impl<DB: Columns + Dialect, L: Link<DB>> Transactions<DB, L> {
    pub(super) fn new(link: L, sql: Arc<ConsumerSql>, options: Arc<Options>, runtime: L::Runtime) -> Self {
        Self { link, sql, options, runtime, span: Span::none(), database: PhantomData }
    }

    /// Consumer, topic and partition, and more.
    pub(super) fn binds(&self, id: &PartitionId, more: impl IntoIterator<Item = BindOf<DB>>) -> Vec<BindOf<DB>> {
        binds::<DB>(&self.options, id, more)
    }

    async fn jobs(&mut self, jobs: &[Job]) -> Outcome {
        if let Err(error) = self.link.connect(CONSUMER_CONNECTION_TIMEOUT).await {
            return Outcome::DatabaseAway(error.to_string());
        }
        match jobs {
            [job] => self.job(job).await,
            jobs => self.batch(jobs).await,
        }
    }

    async fn job(&mut self, job: &Job) -> Outcome {
        let result = match &job.work {
            Work::Record(record) => self.record(job, record).await,
            Work::Replay(replay) => self.replay(&job.token.partition, replay).await,
        };
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(failure) => self.fail(failure).await,
        };
        self.end_span(&outcome);
        self.with_copies_ahead(job, outcome).await
    }

    /// Ends the span of the handler that ran, if one did.
    pub(super) fn end_span(&mut self, outcome: &Outcome) {
        span::end(&std::mem::replace(&mut self.span, Span::none()), outcome);
    }

    /// Rolls back, and says what the failure means.
    pub(super) async fn fail(&mut self, failure: Failure) -> Outcome {
        let is_unknown = matches!(failure, Failure::Panicked | Failure::Depth(_));
        let is_usable = !is_unknown && self.roll_back().await;
        // Closing a connection also ends its transaction.
        if !is_usable {
            self.link.discard();
        }
        outcome(&mut self.link, failure, is_usable).await
    }

    /// Rolls back, unless COMMIT or ROLLBACK has ended the transaction already. Returns whether the connection can be used again.
    pub(super) async fn roll_back(&mut self) -> bool {
        match self.link.depth() {
            Ok(at) if at.depth == at.committed_depth() => true,
            Ok(at) if at.is_outermost() => matches!(self.link.rollback().await, Ok(()) | Err(Error::NotInTransaction)),
            // A savepoint that the handler left: ROLLBACK would end that alone.
            _ => false,
        }
    }

    /// Begins a transaction, not a savepoint in one that somebody left open.
    pub(super) async fn begin(&mut self) -> Result<(), Failure> {
        self.check_free()?;
        Ok(self.link.begin().await?)
    }

    fn check_free(&mut self) -> Result<(), Failure> {
        let at = self.link.depth()?;
        if at.depth != at.committed_depth() {
            return Err(Error::AlreadyInTransaction.into());
        }
        Ok(())
    }

    async fn record(&mut self, job: &Job, record: &Record) -> Result<Outcome, Failure> {
        let claimed = self.begin_and_claim(job, record).await?;
        let settled = match claimed {
            // The application's key decides.
            Claimed::TooOld if asks_application(record, self.options.inbox_key.as_ref()) => None,
            claimed => self.settled(record, claimed).await?,
        };
        if let Some(outcome) = settled {
            return self.end(outcome).await;
        }
        crash_point!(CONSUMER_CLAIMED);
        let done = match &job.step {
            Step::GiveUp { reason } => {
                let holds_key = self.options.on_failure == OnFailure::Park && record.key.is_some();
                self.park(record, holds_key, reason).await?;
                if holds_key { Outcome::Parked } else { Outcome::ParkedAlone }
            }
            Step::Handle if job.is_key_parked && self.is_key_parked(record).await? => {
                self.park(record, true, "an earlier record of its key is parked").await?;
                Outcome::Parked
            }
            Step::Handle => match self.claim_for_application(record, claimed).await? {
                Some(outcome) => outcome,
                None => {
                    self.handle(record, Some(job.attempt)).await?;
                    Outcome::Handled
                }
            },
        };
        self.end(done).await
    }

    /// Begins the transaction: whoever comes second waits here, and finds that it is done.
    async fn begin_and_claim(&mut self, job: &Job, record: &Record) -> Result<Claimed, Failure> {
        let progress = self.options.progress;
        let steps = progress.has_offsets().then_some([job.expected_next, record.offset + 1]);
        let key = progress.has_inbox().then(|| inbox_key(record));
        self.check_free()?;
        #[cfg(all(feature = "postgres", any(feature = "deadpool", feature = "bb8", feature = "mobc")))]
        if let Some(pipeline) = self.link.pipeline() {
            let binds =
                |steps: [i64; 2]| binds::<diesel::pg::Pg>(&self.options, &record.partition, steps.map(Bind::Number));
            let move_offset = steps.map(|steps| Statement::new(&self.sql.move_offset_flagged, binds(steps)));
            return match pipeline.begin(move_offset, key).await {
                Err(_) if key.is_some() && is_injected(InjectedBug::ClaimErrorSwallowed) => {
                    self.begin_unclaimed().await
                }
                begun => begun?.ok_or(Failure::OffsetMoved),
            };
        }
        self.link.begin().await?;
        if let Some(steps) = steps {
            self.move_offset(&record.partition, steps).await?;
        }
        match key {
            Some(key) => self.claim_key(key).await,
            None => Ok(Claimed::New),
        }
    }

    /// Moves the partition's stored offset from the first of these to the second.
    pub(super) async fn move_offset(&mut self, id: &PartitionId, steps: [i64; 2]) -> Result<(), Failure> {
        let binds = self.binds(id, steps.map(Bind::Number));
        match self.link.execute(Statement::new(&self.sql.move_offset, binds)).await? {
            0 => Err(Failure::OffsetMoved),
            _ => Ok(()),
        }
    }

    /// The mistake of whoever takes an error of the claim for a new message.
    async fn begin_unclaimed(&mut self) -> Result<Claimed, Failure> {
        self.link.rollback().await?;
        self.link.begin().await?;
        Ok(Claimed::New)
    }

    /// Claims it under the application's key as well, before it is processed. Not before it is parked: the function may be what fails, or
    /// ends the process, and the replay claims it.
    async fn claim_for_application(&mut self, record: &Record, of_place: Claimed) -> Result<Option<Outcome>, Failure> {
        let Some(key) = key_of_application(record, self.options.inbox_key.as_ref())? else {
            return self.settled(record, of_place).await;
        };
        match self.claim_key(key).await? {
            Claimed::TooOld if !self.options.progress.has_offsets() => self.refuse_as_too_old(record).await,
            claimed => self.settled(record, claimed).await,
        }
    }

    /// Parks a record whose key of the application is too old, under its place alone. The claim may have written the key, and with the key
    /// kept, the record's replay would take it for its own copy.
    async fn refuse_as_too_old(&mut self, record: &Record) -> Result<Option<Outcome>, Failure> {
        self.link.rollback().await?;
        self.link.begin().await?;
        match self.claim_key(inbox_key(record)).await? {
            Claimed::New | Claimed::TooOld => self.park_too_old(record).await.map(Some),
            // Another process was faster meanwhile.
            Claimed::Duplicate => self.settled(record, Claimed::Duplicate).await,
        }
    }

    async fn claim_key(&mut self, key: InboxKey) -> Result<Claimed, Failure> {
        let claimed = self.link.claim(key).await;
        if claimed.is_err() && is_injected(InjectedBug::ClaimErrorSwallowed) {
            return self.begin_unclaimed().await;
        }
        Ok(claimed?)
    }

    /// The outcome of a record that is not to be processed.
    async fn settled(&mut self, record: &Record, claimed: Claimed) -> Result<Option<Outcome>, Failure> {
        match claimed {
            Claimed::New => Ok(None),
            // The offset says that nobody has processed it.
            Claimed::TooOld if self.options.progress.has_offsets() => Ok(None),
            Claimed::TooOld => self.park_too_old(record).await.map(Some),
            // Another process may have parked it, which this one does not know yet.
            Claimed::Duplicate => {
                let is_key_parked = self.options.on_failure == OnFailure::Park && self.is_key_parked(record).await?;
                Ok(Some(Outcome::Duplicate { is_key_parked, ahead: Copies::default() }))
            }
        }
    }

    /// Nothing says whether it was processed, so a person has to. No claim says whether it was parked: the row does.
    async fn park_too_old(&mut self, record: &Record) -> Result<Outcome, Failure> {
        let place = [record.offset, sent_at_ms(record)].map(Bind::Number);
        let count = Statement::new(&self.sql.is_parked, self.binds(&record.partition, place));
        if self.link.load::<i64>(count).await?.pop().is_some_and(|rows| rows > 0) {
            return Ok(Outcome::Duplicate { is_key_parked: false, ahead: Copies::default() });
        }
        self.park(record, false, "it is older than what the inbox keeps: it may have been processed").await?;
        Ok(Outcome::TooOld)
    }

    async fn end(&mut self, outcome: Outcome) -> Result<Outcome, Failure> {
        crash_point!(CONSUMER_COMMITTING);
        self.link.commit().await.map_err(Failure::Commit)?;
        match outcome {
            Outcome::Parked | Outcome::ParkedAlone => {
                crash_point!(CONSUMER_PARKED);
            }
            _ => {
                crash_point!(CONSUMER_COMMITTED);
            }
        }
        Ok(outcome)
    }

    pub(super) async fn handle(&mut self, record: &Record, attempt: Option<u32>) -> Result<(), Failure> {
        self.span = span::begin(&self.options, record, attempt);
        let handling = self.link.handle(record).instrument(self.span.clone());
        let handled = catch_panic_async("consumer_handler", record.topic(), handling).await;
        handled.ok_or(Failure::Panicked)?.map_err(Failure::Handler)?;
        crash_point!(CONSUMER_HANDLED);
        match self.link.depth() {
            Ok(at) if at.is_outermost() => Ok(()),
            Ok(at) => Err(Failure::Depth(at.depth)),
            Err(error) => Err(Failure::Handler(HandlerError::retriable(error))),
        }
    }

    async fn is_key_parked(&mut self, record: &Record) -> QueryResult<bool> {
        let Some(key) = &record.key else { return Ok(false) };
        let key = Bind::OptionalBytes(Some(key.to_vec()));
        let statement = Statement::new(&self.sql.lock_key, self.binds(&record.partition, [key]));
        Ok(!self.link.load::<ParkedRow>(statement).await?.is_empty())
    }

    async fn park(&mut self, record: &Record, holds_key: bool, error: &str) -> QueryResult<()> {
        let binds = [
            Bind::Number(record.offset),
            Bind::OptionalBytes(record.key.as_ref().map(|key| key.to_vec())),
            Bind::Text(record.headers.to_json().into()),
            Bind::OptionalBytes(record.payload.clone()),
            Bind::Number(sent_at_ms(record)),
            Bind::Number(i64::from(holds_key)),
            Bind::Text(truncated_text(error).into()),
        ];
        let statement = Statement::new(&self.sql.park, self.binds(&record.partition, binds));
        self.link.execute(statement).await.map(drop)
    }
}

/// Consumer, topic and partition, and more.
fn binds<DB: Dialect>(
    options: &Options,
    id: &PartitionId,
    more: impl IntoIterator<Item = BindOf<DB>>,
) -> Vec<BindOf<DB>> {
    let texts = [&options.consumer, &id.topic, &id.name];
    texts.into_iter().map(Bind::text).chain(more).collect()
}

/// Minus one stands for none: statements bind no optional number.
fn sent_at_ms(record: &Record) -> i64 {
    record.timestamp.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map_or(-1, millis)
}

impl<DB, L> Worker for Transactions<DB, L>
where
    DB: Columns + Dialect,
    L: Link<DB> + Send,
{
    fn run(&mut self, jobs: &[Job]) -> Outcome {
        let runtime = self.runtime.clone();
        L::block_on(&runtime, self.jobs(jobs))
    }

    fn open(&mut self, id: &PartitionId, position: &Position) -> Result<Opened, StoreError> {
        let runtime = self.runtime.clone();
        L::block_on(&runtime, self.open_bounded(id, position))
    }

    fn released(&mut self, id: &PartitionId) -> Result<Vec<(QueueKey, Replay)>, StoreError> {
        let runtime = self.runtime.clone();
        L::block_on(&runtime, self.released_bounded(id))
    }

    fn ping(&mut self) -> Result<(), StoreError> {
        let runtime = self.runtime.clone();
        L::block_on(&runtime, self.link.ping(CONSUMER_CONNECTION_TIMEOUT))
    }

    fn prune(&mut self) -> Result<bool, StoreError> {
        let runtime = self.runtime.clone();
        L::block_on(&runtime, self.prune_inbox())
    }

    fn rest(&mut self) {
        self.link.release();
    }
}
