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

        /// Creates or upgrades the tables of the consumer and of its inbox; returns the names of the
        /// [migrations](crate::migrations) that it ran. Call it at each start of the application. Several processes may call it at
        /// once.
        ///
        /// # Errors
        /// As for [`Outbox::migrate`](crate::Outbox::migrate); and if the inbox has no proper name.
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
    };
}

pub(crate) use consumer_options;
