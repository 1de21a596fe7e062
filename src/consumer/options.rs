use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::error::HandlerError;
use super::record::Record;
use crate::inbox::{Inbox, InboxBuildError};
use crate::limits::{
    CONSUMER_ATTEMPTS_MAX, CONSUMER_BYTES_MAX, CONSUMER_COMMIT_INTERVAL, CONSUMER_CRASHES_MAX, CONSUMER_REBALANCE_WAIT,
    CONSUMER_ROWS_MAX, CONSUMER_WORKERS,
};
use crate::naming::TableNames;
use crate::retry::{Exponential, RetryPolicy};

/// What keeps a record from being processed twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// The inbox: the handler's transaction begins with the claim of the message id. Keys run in parallel. It also
    /// recognises what a producer sent twice.
    Inbox,
    /// Offsets in the database: the handler's transaction begins with moving the partition's offset on. A process that has
    /// lost the partition moves nothing, and rolls back. The records of a partition run one after the other. What a producer
    /// sent twice is processed twice.
    Offsets,
    /// Both. The records of a partition run one after the other.
    InboxAndOffsets,
}

impl Progress {
    pub(crate) fn has_inbox(self) -> bool {
        self != Self::Offsets
    }

    pub(crate) fn has_offsets(self) -> bool {
        self != Self::Inbox
    }
}

/// What becomes of a record that failed for good: its attempts are spent, its error is
/// [permanent](HandlerError::permanent), or it killed the process repeatedly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFailure {
    /// It is tried again for ever, with the longest wait of the policy, and what follows of its key waits. Other keys go on until
    /// the partition's bound of rows is reached.
    HoldKey,
    /// It moves to the table `outbox_parked`, and what follows of its key moves after it. Other keys go on.
    Park,
    /// It moves to the table `outbox_parked` alone; what follows of its key is processed.
    DeadLetter,
}

/// Where a partition begins that the consumer has never read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartFrom {
    /// At its oldest record.
    Earliest,
    /// At its end.
    Latest,
}

/// Called with each failed attempt of a record.
#[derive(Clone)]
pub(crate) struct ErrorHook(pub(crate) Arc<dyn Fn(&Record, &HandlerError) + Send + Sync>);

impl fmt::Debug for ErrorHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ErrorHook")
    }
}

/// What the user chose, whatever the broker.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The name under which progress is kept: of Kafka the group.
    pub(crate) consumer: Arc<str>,
    pub(crate) tables: TableNames,
    /// Unless it is the default one.
    pub(crate) inbox: Option<Inbox>,
    pub(crate) progress: Progress,
    pub(crate) on_failure: OnFailure,
    pub(crate) start_from: StartFrom,
    pub(crate) retry: Arc<dyn RetryPolicy>,
    pub(crate) attempts_max: u32,
    pub(crate) crashes_max: u32,
    pub(crate) workers: usize,
    pub(crate) rows_max: usize,
    pub(crate) bytes_max: usize,
    pub(crate) keyless_in_parallel: bool,
    pub(crate) rebalance_wait: Duration,
    pub(crate) commit_interval: Duration,
    pub(crate) on_error: Option<ErrorHook>,
}

impl Options {
    pub(crate) fn new(consumer: Arc<str>) -> Self {
        Self {
            consumer,
            tables: TableNames::default(),
            inbox: None,
            progress: Progress::Inbox,
            on_failure: OnFailure::Park,
            start_from: StartFrom::Earliest,
            retry: Arc::new(Exponential::default()),
            attempts_max: CONSUMER_ATTEMPTS_MAX,
            crashes_max: CONSUMER_CRASHES_MAX,
            workers: CONSUMER_WORKERS,
            rows_max: CONSUMER_ROWS_MAX,
            bytes_max: CONSUMER_BYTES_MAX,
            keyless_in_parallel: false,
            rebalance_wait: CONSUMER_REBALANCE_WAIT,
            commit_interval: CONSUMER_COMMIT_INTERVAL,
            on_error: None,
        }
    }
}

impl Options {
    /// The inbox that records are claimed in; `None` without one.
    pub(crate) fn build_inbox(&self) -> Result<Option<Inbox>, InboxBuildError> {
        match &self.inbox {
            _ if !self.progress.has_inbox() => Ok(None),
            Some(inbox) => Ok(Some(inbox.clone())),
            None => Inbox::builder(&*self.consumer).tables(self.tables.clone()).build().map(Some),
        }
    }
}

/// The methods that each consumer has, whatever the broker.
macro_rules! consumer_options {
    () => {
        /// What keeps a record from being processed twice; [`Progress::Inbox`](super::Progress::Inbox) by default.
        pub fn progress(mut self, progress: super::Progress) -> Self {
            self.options.progress = progress;
            self
        }

        /// The inbox to claim records in, if it is not the default one: of the group's name, with a retention of 14 days.
        pub fn inbox(mut self, inbox: crate::inbox::Inbox) -> Self {
            self.options.inbox = Some(inbox);
            self
        }

        /// Creates or upgrades the tables of the consumer and of its inbox; returns the names of the
        /// [migrations](crate::migrations) that it ran. Call it at each start of the application. Several processes may call it at
        /// once.
        ///
        /// # Errors
        /// As for [`Outbox::migrate`](crate::Outbox::migrate); and if the inbox has no proper name.
        pub fn migrate<C>(&self, conn: &mut C) -> Result<Vec<String>, super::ConsumerStartError>
        where
            C: diesel::connection::Connection,
            C::Backend: crate::OutboxBackend<C> + crate::migrations::EmbeddedMigrations,
        {
            super::migrate::migrate(&self.options, conn)
        }

        /// Like [`migrate`](Self::migrate), over a diesel-async connection.
        ///
        /// # Errors
        /// As for [`migrate`](Self::migrate).
        ///
        /// # Cancel safety
        /// As for [`Outbox::migrate_async`](crate::Outbox::migrate_async).
        #[cfg(feature = "async")]
        pub async fn migrate_async<C>(&self, conn: &mut C) -> Result<Vec<String>, super::ConsumerStartError>
        where
            C: diesel_async::AsyncConnection,
            C::Backend: crate::AsyncOutboxBackend<C> + crate::migrations::EmbeddedMigrations,
        {
            super::migrate::migrate_async(&self.options, conn).await
        }

        /// What becomes of a record that failed for good; [`OnFailure::Park`](super::OnFailure::Park) by default.
        pub fn on_failure(mut self, on_failure: super::OnFailure) -> Self {
            self.options.on_failure = on_failure;
            self
        }

        /// Where a partition begins that this consumer has never read; [`StartFrom::Earliest`](super::StartFrom::Earliest) by
        /// default.
        pub fn start_from(mut self, start_from: super::StartFrom) -> Self {
            self.options.start_from = start_from;
            self
        }

        /// How long a failed record waits for its next attempt;
        /// [`Exponential::default`](crate::retry::Exponential) by default. Other keys go on meanwhile.
        pub fn retry(mut self, policy: impl crate::retry::RetryPolicy) -> Self {
            self.options.retry = std::sync::Arc::new(policy);
            self
        }

        /// Attempts before a record has failed for good; 10 by default.
        pub fn attempts_max(mut self, attempts: u32) -> Self {
            self.options.attempts_max = attempts.max(1);
            self
        }

        /// How often a record may end the process before it has failed for good; 2 by default.
        pub fn crashes_max(mut self, crashes: u32) -> Self {
            self.options.crashes_max = crashes.max(1);
            self
        }

        /// Handlers that run at a time; 8 by default. Each has a thread and a connection.
        pub fn workers(mut self, workers: usize) -> Self {
            self.options.workers = workers.max(1);
            self
        }

        /// Records in memory; 2,000 by default. Beyond, partitions are paused.
        pub fn rows_max(mut self, rows: usize) -> Self {
            self.options.rows_max = rows.max(1);
            self
        }

        /// Bytes of the records in memory; 64 MiB by default. Beyond, partitions are paused.
        pub fn bytes_max(mut self, bytes: usize) -> Self {
            self.options.bytes_max = bytes.max(1);
            self
        }

        /// Lets records without a key run in parallel. By default those of a partition run one after the other.
        pub fn keyless_in_parallel(mut self) -> Self {
            self.options.keyless_in_parallel = true;
            self
        }

        /// How long a rebalance waits for running handlers; 10 s by default. The whole group waits.
        pub fn rebalance_wait(mut self, wait: std::time::Duration) -> Self {
            self.options.rebalance_wait = wait;
            self
        }

        /// How often offsets are committed; every second by default. After a crash, what was processed since is read again, and
        /// recognised.
        pub fn commit_interval(mut self, interval: std::time::Duration) -> Self {
            self.options.commit_interval = interval;
            self
        }

        /// The names of the tables, if they are not the default ones.
        pub fn tables(mut self, tables: crate::TableNames) -> Self {
            self.options.tables = tables;
            self
        }

        /// Calls this with each failed attempt, on the worker's thread.
        pub fn on_error(mut self, hook: impl Fn(&super::Record, &super::HandlerError) + Send + Sync + 'static) -> Self {
            self.options.on_error = Some(super::options::ErrorHook(std::sync::Arc::new(hook)));
            self
        }
    };
}

pub(crate) use consumer_options;
