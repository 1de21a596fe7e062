//! Consumers of a topic that is full: the library's, and a loop written by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};
use diesel_outbox::consumer::{HandlerError, KafkaConsumer, Progress, Record};
use diesel_outbox::inbox::Inbox;
use diesel_outbox::internals::metrics;
use diesel_outbox::transport::KafkaConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::{ClientConfig, Message as _, Offset, TopicPartitionList};
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::task::{JoinSet, block_in_place};

use crate::application;
use crate::arguments::BenchEnv;
use crate::clients::place_order;
use crate::cpu::{CpuMeter, CpuShare};
use crate::database;
use crate::recorder::Recorder;

/// Until the first record: a new group waits for members for some seconds.
const START_MAX: Duration = Duration::from_secs(60);
const GRACE: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const ORDERS: &str = "SELECT count(*) AS count FROM orders";

/// What is done with a record in its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handler {
    /// One INSERT.
    Order,
    /// Waits for 5 ms, as for a slow call. The database waits, because tokio's timer would round up to the next millisecond.
    Wait,
}

impl Handler {
    async fn run(self, conn: &mut AsyncPgConnection, record: &Record) -> Result<(), HandlerError> {
        match self {
            Self::Order => Ok(place_order(conn, record.offset()).await?),
            Self::Wait => Ok(conn.batch_execute("SELECT pg_sleep(0.005)").await?),
        }
    }
}

/// What reads the topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// A loop written by hand, on a thread for each partition: BEGIN, an INSERT for each record of a batch, COMMIT.
    ByHand { batch: usize },
    /// The library's consumer.
    Consumer { progress: Progress, workers: usize, batch: usize, handler: Handler },
}

#[derive(Debug, Serialize)]
pub(crate) struct Leg {
    pub(crate) records_per_second: f64,
    cpu_us_per_record: f64,
    records: u64,
}

/// A full topic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FullTopic<'a> {
    pub(crate) name: &'a str,
    pub(crate) partitions: i32,
    pub(crate) records: usize,
    pub(crate) duration: Duration,
    pub(crate) env: &'a BenchEnv,
    pub(crate) recorder: &'a Recorder,
}

impl FullTopic<'_> {
    /// Reads it for a while, from its beginning and into empty tables: no other leg has used this group.
    pub(crate) async fn read(self, reading: Reading, group: &str) -> Result<(Leg, CpuShare)> {
        let inbox = Inbox::builder(group).build()?;
        let kafka = KafkaConfig::new(&self.env.kafka);
        let consumer = KafkaConsumer::new(kafka, group).topic(self.name).inbox(inbox.clone());
        self.empty(&consumer, &inbox).await?;
        match reading {
            Reading::ByHand { batch } => self.by_hand(group, batch).await,
            Reading::Consumer { progress, workers, batch, handler } => {
                let consumer = consumer.progress(progress).workers(workers).batch_records_max(batch);
                self.by_consumer(consumer, workers, (progress, handler)).await
            }
        }
    }

    /// Reads from the beginning with another group what `group` has handled: copies, for its inbox knows them.
    pub(crate) async fn read_again(self, group: &str, workers: usize) -> Result<(Leg, CpuShare)> {
        let mut conn = database::connect(&self.env.postgres).await?;
        let copies = database::count(&mut conn, "SELECT count(*) AS count FROM outbox_inbox").await?.unsigned_abs();
        self.recorder.reset();
        let kafka = KafkaConfig::new(&self.env.kafka);
        let consumer = KafkaConsumer::new(kafka, format!("{group}-again")).topic(self.name).workers(workers);
        let handled = || self.recorder.count(metrics::CONSUMED);
        let consumer = consumer.inbox(Inbox::builder(group).build()?);
        let consumer =
            consumer.start_async(self.pool(workers)?, handle(Handler::Order)).context("start the consumer")?;
        let measured = self.measure_from_the_first(copies, handled).await;
        let report = block_in_place(|| consumer.shutdown_blocking(GRACE));
        ensure!(report.is_clean(), "the consumer did not end in order: {report:?}");
        measured
    }

    /// Counts from the first record on: there are too few for a warm-up.
    async fn measure_from_the_first(self, records: u64, count: impl Fn() -> u64) -> Result<(Leg, CpuShare)> {
        application::until(|| (count() > 0).then_some(()), START_MAX).await.context("wait for the first record")?;
        let (cpu, started, before) = (CpuMeter::start(self.env.root)?, Instant::now(), count());
        while count() < records {
            ensure!(started.elapsed() < START_MAX, "{} of {records} copies were recognised", count());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let (elapsed, cpu) = (started.elapsed(), cpu.stop()?);
        let records = records - before;
        let records_per_second = records as f64 / elapsed.as_secs_f64();
        Ok((Leg { records_per_second, cpu_us_per_record: cpu.own_us / records as f64, records }, cpu))
    }

    /// A connection for each worker, and one for the loop.
    fn pool(self, workers: usize) -> Result<Pool<AsyncPgConnection>> {
        let manager = AsyncDieselConnectionManager::<AsyncPgConnection>::new(self.env.postgres.as_str());
        Ok(Pool::builder(manager).max_size(workers + 1).build()?)
    }

    async fn empty(self, consumer: &KafkaConsumer, inbox: &Inbox) -> Result<()> {
        let mut conn = database::connect(&self.env.postgres).await?;
        consumer.migrate_async(&mut conn).await?;
        conn.batch_execute("TRUNCATE orders, outbox_inbox, outbox_consumer_offsets").await?;
        // It makes the partitions of days, which the consumer would do in the middle of the first leg.
        while inbox.prune_async(&mut conn).await?.has_more {}
        conn.batch_execute("CHECKPOINT").await.context("checkpoint")
    }

    async fn by_hand(self, group: &str, batch: usize) -> Result<(Leg, CpuShare)> {
        let (stop, handled) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (mut clients, mut threads) = (Vec::new(), JoinSet::new());
        for partition in 0..self.partitions {
            let consumer = assigned(&self.env.kafka, group, self.name, partition)?;
            clients.push((consumer, database::connect(&self.env.postgres).await?));
        }
        for (consumer, conn) in clients {
            let (stop, handled) = (Arc::clone(&stop), Arc::clone(&handled));
            threads.spawn_blocking(move || process_by_hand(&consumer, conn, batch, (&stop, &handled)));
        }
        let measured = self.measure(|| AtomicU64::load(&handled, Ordering::Relaxed)).await;
        stop.store(true, Ordering::Relaxed);
        // A thread's error says why nothing was measured.
        while let Some(thread) = threads.join_next().await {
            thread?.context("a loop by hand")?;
        }
        let (leg, cpu) = measured?;
        self.ensure_rows(ORDERS, || AtomicU64::load(&handled, Ordering::Relaxed)).await?;
        Ok((leg, cpu))
    }

    async fn by_consumer(
        self,
        consumer: KafkaConsumer,
        workers: usize,
        (progress, handler): (Progress, Handler),
    ) -> Result<(Leg, CpuShare)> {
        self.recorder.reset();
        let consumer = consumer.start_async(self.pool(workers)?, handle(handler)).context("start the consumer")?;
        let handled = || self.recorder.count(metrics::CONSUMED);
        let measured = self.measure(handled).await;
        let report = block_in_place(|| consumer.shutdown_blocking(GRACE));
        let (leg, cpu) = measured?;
        ensure!(report.is_clean(), "the consumer did not end in order: {report:?}");
        let failed = self.recorder.count(metrics::CONSUME_FAILED);
        ensure!(failed == 0, "{failed} attempts at records failed");
        if handler == Handler::Order {
            self.ensure_rows(ORDERS, handled).await?;
        }
        if progress != Progress::Offsets {
            self.ensure_rows("SELECT count(*) AS count FROM outbox_inbox", handled).await?;
        }
        if progress != Progress::Inbox {
            let offsets = "SELECT coalesce(sum(next_offset), 0)::bigint AS count FROM outbox_consumer_offsets";
            self.ensure_rows(offsets, handled).await?;
        }
        Ok((leg, cpu))
    }

    /// Counts from when it is warm, until the time is over or nothing is left.
    async fn measure(self, count: impl Fn() -> u64) -> Result<(Leg, CpuShare)> {
        application::until(|| (count() > 0).then_some(()), START_MAX).await.context("wait for the first record")?;
        tokio::time::sleep(self.duration / 5).await; // statements are prepared, the pool is full
        let (cpu, started, before) = (CpuMeter::start(self.env.root)?, Instant::now(), count());
        let all = self.records as u64;
        while started.elapsed() < self.duration && count() < all {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let (records, elapsed, cpu) = (count() - before, started.elapsed(), cpu.stop()?);
        ensure!(records > 0, "{before} of {all} records were handled before the leg began, and none since");
        let records_per_second = records as f64 / elapsed.as_secs_f64();
        Ok((Leg { records_per_second, cpu_us_per_record: cpu.own_us / records as f64, records }, cpu))
    }

    /// Compares what was counted with what the database has. The last worker may be about to count its record.
    async fn ensure_rows(self, query: &str, count: impl Fn() -> u64) -> Result<()> {
        let rows = database::count(&mut database::connect(&self.env.postgres).await?, query).await?.unsigned_abs();
        let counted = application::until(|| (count() >= rows).then(&count), GRACE).await;
        let counted = counted.with_context(|| format!("{query}: {rows}; {} records were handled", count()))?;
        ensure!(counted == rows, "{query}: {rows}; {counted} records were handled");
        Ok(())
    }
}

fn handle(handler: Handler) -> impl AsyncFn(&mut AsyncPgConnection, &Record) -> Result<(), HandlerError> + Send + Sync {
    async move |conn: &mut AsyncPgConnection, record: &Record| handler.run(conn, record).await
}

/// A client at the beginning of one partition. It commits what is stored once a second, as the library's consumer does: with a request
/// for each record the broker would have more to do, and the loop would be slower.
fn assigned(bootstrap: &str, group: &str, topic: &str, partition: i32) -> Result<BaseConsumer> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("group.id", group);
    config.set("enable.auto.offset.store", "false").set("auto.commit.interval.ms", "1000");
    let consumer: BaseConsumer = config.create().context("make a consumer")?;
    let mut assignment = TopicPartitionList::new();
    assignment.add_partition_offset(topic, partition, Offset::Beginning)?;
    consumer.assign(&assignment)?;
    Ok(consumer)
}

/// The loop, on a thread that may block.
fn process_by_hand(
    consumer: &BaseConsumer,
    mut conn: AsyncPgConnection,
    batch: usize,
    (stop, handled): (&AtomicBool, &AtomicU64),
) -> Result<()> {
    let runtime = Handle::current();
    while !AtomicBool::load(stop, Ordering::Relaxed) {
        let Some(first) = consumer.poll(POLL_INTERVAL) else { continue };
        let mut records = vec![first.context("read a record")?];
        while let Some(next) = (records.len() < batch).then(|| consumer.poll(Duration::ZERO)).flatten() {
            records.push(next.context("read a record")?);
        }
        runtime.block_on(conn.transaction(async |conn| {
            for record in &records {
                place_order(conn, record.offset()).await?;
            }
            Ok::<_, diesel::result::Error>(())
        }))?;
        for record in &records {
            consumer.store_offset_from_message(record)?;
        }
        handled.fetch_add(records.len() as u64, Ordering::Relaxed);
    }
    Ok(())
}
