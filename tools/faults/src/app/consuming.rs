//! A consumer: it processes the records of the run's topics, until it is told to stop or killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result};
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_outbox::consumer::{HandlerError, KafkaConsumer, Progress, Record, RunningConsumer};
use diesel_outbox::transport::KafkaConfig;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::counters::Counters;
use super::crashing::crash_at;
use super::workers::REPORT_INTERVAL;
use super::{GRACE, now_ms, print_report, report_stalls};
use crate::kinds::STEPS;
use crate::ledger;
use crate::truth::MessageName;
use crate::wire::{Command, Config, Group, Report, SESSION_MS, TWICE, Topics};

/// Records that are processed at once, by each group's consumer.
const WORKERS: usize = 4;
/// Records in memory: as many run one by one after kills.
const ROWS_MAX: usize = 400;
/// Records of a batch in every second process; the others have none.
const BATCH: usize = 8;
/// How long a claim waits for another node that has the same id: less than its handler takes, so that some waits fail.
const CLAIM_WAIT_MS: u64 = 200;
/// How long the handler of some of the driver's messages takes.
const SLOW_MS: u64 = 600;

/// Runs consumers of both groups.
pub(super) async fn run(config: Config, counters: Counters) -> Result<()> {
    let failing = Failing::default();
    let consumers = Group::ALL.map(|group| start(&config, group, &failing));
    let consumers: Vec<RunningConsumer> = consumers.into_iter().collect::<Result<_>>()?;
    print_report(&Report::Running);
    thread::Builder::new().name("stalls".to_owned()).spawn(report_stalls).context("start a thread")?;
    let counts = move || Report::Counts { transactions: Vec::new(), metrics: counters.counts() };
    let reports = tokio::spawn(async move {
        loop {
            print_report(&counts());
            sleep(REPORT_INTERVAL).await;
        }
    });
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match serde_json::from_str(&line)? {
            Command::CrashAt { step } => crash_at(&STEPS, step)?,
            Command::FailHandlers { for_ms } => failing.0.store(now_ms() + for_ms, Ordering::Relaxed),
            Command::End => break,
            // Those of applications.
            _ => {}
        }
    }
    let ended = spawn_blocking(move || {
        for consumer in consumers {
            let report = consumer.shutdown_blocking(GRACE);
            // In an outage of the broker, its offsets are not committed: what it has done is read again, and recognised.
            if !report.is_clean() {
                eprintln!("a consumer has ended: {report:?}");
            }
        }
    });
    ended.await.context("end the consumers")?;
    reports.abort();
    Ok(())
}

/// Until when records fail, in milliseconds since 1970.
#[derive(Debug, Clone, Default)]
struct Failing(Arc<AtomicU64>);

impl Failing {
    /// Whether this message fails now.
    fn fails(&self, name: MessageName) -> bool {
        name.sequence.is_multiple_of(5) && now_ms() < self.0.load(Ordering::Relaxed)
    }
}

fn start(config: &Config, group: Group, failing: &Failing) -> Result<RunningConsumer> {
    let settings = KafkaConfig::new(&config.bootstrap)
        .set("session.timeout.ms", SESSION_MS.to_string())
        .set("heartbeat.interval.ms", "500");
    let consumer = KafkaConsumer::new(settings, group.name(&config.run))
        .workers(WORKERS)
        .records_max(ROWS_MAX)
        .batch_records_max(if config.process.is_multiple_of(2) { BATCH } else { 1 })
        .progress(match group {
            Group::Inbox => Progress::Inbox,
            Group::Offsets => Progress::Offsets,
        });
    let consumer = config.topics.consumed(group).fold(consumer, |consumer, (_, name)| consumer.topic(name));
    let options = format!("application_name=consumer-{}&options=-c%20lock_timeout%3D{CLAIM_WAIT_MS}", config.process);
    let url = format!("{}?{options}", config.database_url);
    let pool = Pool::builder(AsyncDieselConnectionManager::<AsyncPgConnection>::new(url)).max_size(WORKERS + 2);
    let handling =
        Handling { group, topics: config.topics.clone(), handler_ms: config.load.handler_ms, failing: failing.clone() };
    let handler = async move |conn: &mut AsyncPgConnection, record: &Record| handling.process(conn, record).await;
    consumer.start_async(pool.build().context("create the consumer's pool")?, handler).context("start a consumer")
}

/// What the handler of a group knows.
struct Handling {
    group: Group,
    topics: Topics,
    handler_ms: u64,
    failing: Failing,
}

impl Handling {
    async fn process(&self, conn: &mut AsyncPgConnection, record: &Record) -> Result<(), HandlerError> {
        let name = record.payload().and_then(MessageName::of_payload);
        let name = name.ok_or_else(|| HandlerError::permanent("it has no name"))?;
        let topic = self.topics.place(record.topic()).ok_or_else(|| HandlerError::permanent("an unknown topic"))?;
        if self.failing.fails(name) {
            return Err(HandlerError::permanent("it fails for a while"));
        }
        let key = record.key().map(String::from_utf8_lossy);
        ledger::note(conn, self.group, topic, name, key.as_deref()).await?;
        let is_slow = topic == TWICE && name.sequence.is_multiple_of(4);
        let takes_ms = if is_slow { SLOW_MS } else { self.handler_ms };
        if takes_ms > 0 {
            conn.batch_execute(&format!("SELECT pg_sleep({takes_ms} / 1000.0)")).await?;
        }
        Ok(())
    }
}
