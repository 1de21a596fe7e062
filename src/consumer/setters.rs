//! The settings of consumers, as methods of each.

/// The methods that each consumer has, whatever the broker.
macro_rules! consumer_options {
    () => {
        /// What keeps a record from being processed twice; [`Progress::Inbox`](crate::consumer::Progress::Inbox) by default.
        pub fn progress(mut self, progress: crate::consumer::options::Progress) -> Self {
            self.options.progress = progress;
            self
        }

        /// The inbox to claim records in, if it is not the default one: of the group's name, with a retention of 14 days.
        pub fn inbox(mut self, inbox: crate::inbox::Inbox) -> Self {
            self.options.inbox = Some(inbox);
            self
        }

        /// Finds the inbox's key of a record that another producer sent, such as its topic and its order's number: then what that
        /// producer sent twice is processed once. Two topics need two keys: the inbox is the consumer's. `None` leaves the default: the
        /// place in the partition. Not called for what an outbox sent, which has a message id. If it panics, the attempt has failed.
        ///
        /// Each record is claimed by its place, too, which costs a second entry. A record that is parked is claimed by this key when it is
        /// replayed, so of two copies that were parked and released one is processed.
        ///
        /// [`InboxKey`](crate::inbox::InboxKey) says what to make keys of, and what each costs.
        pub fn inbox_key(
            mut self,
            key: impl Fn(&crate::consumer::record::Record) -> Option<crate::inbox::InboxKey> + Send + Sync + 'static,
        ) -> Self {
            self.options.inbox_key = Some(crate::consumer::options::KeyHook(std::sync::Arc::new(key)));
            self
        }

        /// Creates or upgrades the tables of the consumer and of its inbox; returns the names of the
        /// [migrations](crate::migrations) that it ran. Call it at each start of the application. Several processes may call it at
        /// once.
        ///
        /// # Errors
        /// As for [`Outbox::migrate`](crate::Outbox::migrate); and if the group or the inbox has no proper name.
        pub fn migrate<C>(&self, conn: &mut C) -> Result<Vec<String>, crate::consumer::error::ConsumerStartError>
        where
            C: diesel::connection::Connection,
            C::Backend: crate::enqueue::OutboxBackend<C> + crate::migrations::EmbeddedMigrations,
        {
            crate::consumer::migrate::migrate(&self.options, conn)
        }

        /// Like [`migrate`](Self::migrate), over a diesel-async connection.
        ///
        /// # Errors
        /// As for [`migrate`](Self::migrate).
        ///
        /// # Cancel safety
        /// As for [`Outbox::migrate_async`](crate::Outbox::migrate_async).
        #[cfg(feature = "async")]
        pub async fn migrate_async<C>(&self, conn: &mut C) -> Result<Vec<String>, crate::consumer::error::ConsumerStartError>
        where
            C: diesel_async::AsyncConnection,
            C::Backend: crate::enqueue::AsyncOutboxBackend<C> + crate::migrations::EmbeddedMigrations,
        {
            crate::consumer::migrate::migrate_async(&self.options, conn).await
        }

        /// What becomes of a record that failed for good; [`OnFailure::Park`](crate::consumer::OnFailure::Park) by default.
        pub fn on_failure(mut self, on_failure: crate::consumer::options::OnFailure) -> Self {
            self.options.on_failure = on_failure;
            self
        }

        /// Where a partition begins that this consumer has never read; [`StartFrom::Earliest`](crate::consumer::StartFrom::Earliest) by
        /// default.
        pub fn start_from(mut self, start_from: crate::consumer::options::StartFrom) -> Self {
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

        /// Handlers that run at a time; 8 by default. Each has a thread and a connection.
        pub fn workers(mut self, workers: usize) -> Self {
            self.options.workers = workers.max(1);
            self
        }

        /// Records in memory; 2,000 by default. Beyond, partitions are paused, each with one record at least.
        pub fn records_max(mut self, rows: usize) -> Self {
            self.options.records_max = rows.max(1);
            self
        }

        /// Bytes of the records in memory; 64 MiB by default. Beyond, partitions are paused.
        pub fn bytes_max(mut self, bytes: usize) -> Self {
            self.options.bytes_max = bytes.max(1);
            self
        }

        /// Records of a batch, which is one transaction; 1 by default, 500 at most. The handler is called for one after the other, then all are
        /// claimed and committed. A batch has only records that wait already, and none that another worker could run.
        ///
        /// This is for short handlers. If one fails, all are rolled back, and each runs again alone: what handlers do outside of the
        /// database may happen twice. The handlers share the transaction: its locks, its snapshot, `now()`, and what `SET LOCAL` sets. If
        /// one ends it, by a COMMIT or a statement that commits, the others of its batch may have their effects twice. Records older than
        /// half of what the inbox keeps run alone.
        pub fn batch_records_max(mut self, rows: usize) -> Self {
            self.options.batch_records_max = rows.clamp(1, crate::limits::CONSUMER_BATCH_RECORDS_MAX);
            self
        }

        /// Lets records without a key run in parallel. By default those of a partition run one after the other.
        pub fn keyless_in_parallel(mut self) -> Self {
            self.options.keyless_in_parallel = true;
            self
        }

        /// Leaves old entries of the inbox to somebody else. By default the consumer removes them every five minutes, which on PostgreSQL
        /// needs a role that owns the tables.
        pub fn without_pruning(mut self) -> Self {
            self.options.prunes = false;
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
        pub fn tables(mut self, tables: crate::naming::TableNames) -> Self {
            self.options.tables = tables;
            self
        }

        /// Calls this with each failed attempt, on the worker's thread.
        pub fn on_error(mut self, hook: impl Fn(&crate::consumer::record::Record, &crate::consumer::error::HandlerError) + Send + Sync + 'static) -> Self {
            self.options.on_error = Some(crate::consumer::options::ErrorHook(std::sync::Arc::new(hook)));
            self
        }

        /// Calls this with the span of each call of the handler, before it runs, so that it can set the span's parent:
        /// [tracing](crate::guide::tracing). Not called if no subscriber of `tracing` wants the span, which is at level INFO.
        pub fn on_span(mut self, hook: impl Fn(&tracing::Span, &crate::consumer::record::Record) + Send + Sync + 'static) -> Self {
            self.options.on_span = Some(crate::consumer::options::SpanHook(std::sync::Arc::new(hook)));
            self
        }
    };
}

pub(crate) use consumer_options;

/// How each consumer is started, whatever the broker: its `run` makes the source.
macro_rules! consumer_start {
    () => {
        /// Starts it with a pool of Diesel's connections. The handler runs in the transaction; it must neither commit nor roll back.
        ///
        /// Each worker is a thread with a connection, and the loop has one more: the pool needs one more than
        /// [`workers`](Self::workers).
        ///
        /// # Errors
        /// Returns an error if a setting is refused, or if there is no topic. An unreachable cluster or database is no error.
        #[cfg(feature = "r2d2")]
        pub fn start<C, F, E>(
            self,
            pool: diesel::r2d2::Pool<diesel::r2d2::ConnectionManager<C>>,
            handler: F,
        ) -> Result<crate::consumer::running::RunningConsumer, crate::consumer::error::ConsumerStartError>
        where
            C: diesel::r2d2::R2D2Connection + diesel::connection::LoadConnection + Send + 'static,
            C::Backend: crate::consumer::database::ConsumerBackend + crate::enqueue::OutboxBackend<C>,
            F: Fn(&mut C, &crate::consumer::record::Record) -> Result<(), E> + Send + Sync + 'static,
            E: Into<crate::consumer::error::HandlerError> + 'static,
        {
            let inbox = self.options.build_inbox()?;
            let workers = crate::consumer::database::sync_workers(pool, handler, inbox, &self.options);
            self.run(&workers)
        }

        /// Starts it with a pool of diesel-async's connections, as [`start`](Self::start) does. Call it on tokio's
        /// multi-thread runtime: the connections live there, and the handlers' futures run on the workers' threads.
        ///
        /// # Errors
        /// As for [`start`](Self::start); and without such a runtime.
        #[cfg(any(feature = "deadpool", feature = "bb8", feature = "mobc"))]
        pub fn start_async<P, F, E>(
            self,
            pool: P,
            handler: F,
        ) -> Result<crate::consumer::running::RunningConsumer, crate::consumer::error::ConsumerStartError>
        where
            P: crate::consumer::database::AsyncPool,
            crate::consumer::database::AsyncBackendOf<P>: crate::consumer::database::ConsumerBackend
                + crate::enqueue::AsyncOutboxBackend<crate::consumer::database::AsyncConnectionOf<P>>,
            F: AsyncFn(
                    &mut crate::consumer::database::AsyncConnectionOf<P>,
                    &crate::consumer::record::Record,
                ) -> Result<(), E>
                + Send
                + Sync
                + 'static,
            E: Into<crate::consumer::error::HandlerError> + 'static,
        {
            use crate::consumer::error::ConsumerStartError;
            let runtime = tokio::runtime::Handle::try_current().map_err(|_| ConsumerStartError::NoRuntime)?;
            // Whoever blocks its only thread, as a shutdown does, would stop the connections.
            if runtime.runtime_flavor() == tokio::runtime::RuntimeFlavor::CurrentThread {
                return Err(ConsumerStartError::NoRuntime);
            }
            let inbox = self.options.build_inbox()?;
            let workers = crate::consumer::database::async_workers(pool, handler, inbox, &self.options, runtime);
            self.run(&workers)
        }
    };
}

pub(crate) use consumer_start;
