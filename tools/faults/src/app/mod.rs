//! An application: an outbox, its relay, and endless transactions, until it is told to stop or killed.

mod admin_actions;
mod clock;
mod consuming;
mod counters;
mod crashing;
mod panicking_policy;
mod transactions;
mod transport;
mod workers;

pub(crate) use admin_actions::ADMIN_ACTIONS;
pub(crate) use panicking_policy::POLICIES;
pub(crate) use transactions::TRANSACTIONS;
pub(crate) use transport::SENT_BY;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{panic, process, thread};

use anyhow::{Context, Result};
use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_outbox::relay::Relay;
use diesel_outbox::store::PostgresStore;
use diesel_outbox::transport::{KafkaConfig, KafkaTopic, KafkaTransport};
use diesel_outbox::{Limits, Outbox, Topic};
use rustix::process::{Signal, set_parent_process_death_signal};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use self::admin_actions::{AdminAction, AdminActions};
use self::clock::JumpingClock;
use self::counters::Counters;
use self::crashing::crash_at;
use self::panicking_policy::PanickingPolicy;
use self::transport::{FaultyKafka, TransportFault};
use self::workers::Work;
use crate::kinds::RELAY_STEPS;
use crate::wire::{AGED, AGED_RETENTION_MS, Command, Config, RELAY_CONNECTIONS, RELAY_NAME, Report, Role};

/// The longest orderly shutdown.
const GRACE: Duration = Duration::from_secs(20);
/// How often stalls are checked for, and how long a stall is: well below every lease.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
const STALL: Duration = Duration::from_millis(700);
/// The lanes of the ordered topic.
const LANES: u16 = 8;
/// The lanes of the fenced topic, which is exactly once: each has its own client.
const FENCED_LANES: u16 = 4;

/// Runs an application until it is told to end, or until the driver is gone.
pub(crate) async fn run(config: Config) -> Result<()> {
    // The application must not outlive the driver, however that ends.
    set_parent_process_death_signal(Some(Signal::KILL)).context("end with the driver")?;
    inject_bug(config.bug.as_deref())?;
    end_with_the_first_panic();
    let counters = Counters::install()?;
    if config.role == Role::Consumer {
        return consuming::run(config, counters).await;
    }
    let policies = PanickingPolicy::default();
    let outbox = outbox(&config, &policies)?;
    let transport = FaultyKafka::new(kafka(&config)?, config.process);
    let clock = JumpingClock::default();
    let relay = relay(&config, &outbox, transport.clone(), clock.clone()).await?;
    let admin_actions = AdminActions::start(&config, &outbox)?;
    let work = Arc::new(Work::new(config, outbox, admin_actions, counters, policies.clone()));
    let load = workers::start(&work);
    print_report(&Report::Running);
    thread::Builder::new().name("stalls".to_owned()).spawn(report_stalls).context("start a thread")?;
    tokio::spawn(report_failures(transport.clone()));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match serde_json::from_str(&line)? {
            Command::StopLoad => work.stop(),
            Command::Jump { by_ms } => clock.jump(Duration::from_millis(by_ms)),
            Command::Burst { messages } => work.burst(messages),
            Command::LoseAcks { for_ms } => transport.inject(TransportFault::LoseAcks, for_ms),
            Command::LateAcks { for_ms, by_ms } => transport.inject(TransportFault::LateAcks { by_ms }, for_ms),
            Command::FailSends { for_ms } => transport.inject(TransportFault::FailSends, for_ms),
            Command::PanicPolicies { for_ms } => {
                policies.panic(for_ms);
                transport.inject(TransportFault::FailSends, for_ms);
            }
            Command::Redrive => work.admin_actions.submit(AdminAction::Redrive),
            Command::PauseTopic { topic } => work.admin_actions.submit(AdminAction::Pause(topic)),
            Command::ResumeTopics => work.admin_actions.submit(AdminAction::Resume),
            Command::CrashAt { step } => crash_at(&RELAY_STEPS, step)?,
            // That of consumers.
            Command::FailHandlers { .. } => {}
            Command::End => break,
        }
    }
    work.stop();
    load.ended().await;
    relay.shutdown(GRACE).await;
    print_report(&work.report());
    Ok(())
}

fn outbox(config: &Config, policies: &PanickingPolicy) -> Result<Outbox> {
    let retry = || policies.clone();
    let staleness = Duration::from_millis(config.times.staleness_ms);
    let plain = Topic::new(config.topics.plain.as_str()).staleness(staleness).attempts_max(1).retry(retry());
    let ordered = Topic::new(config.topics.ordered.as_str()).ordered_by_key().serialize_by_key().lanes(LANES);
    let ordered = ordered.staleness(staleness).retry(retry());
    if !config.load.all_features {
        return Outbox::builder().topic(plain).topic(ordered).build().context("build the outbox");
    }
    let fenced = Topic::new(config.topics.fenced.as_str()).ordered_by_key().serialize_by_key().lanes(FENCED_LANES);
    let fenced = fenced.fenced().exactly_once().staleness(staleness).retry(retry());
    let aged = Topic::new(config.topics.aged.as_str()).staleness(staleness).retry(retry());
    let outbox =
        Outbox::builder().topic(plain.keep_sent_days(1)).topic(ordered.keep_sent_days(1)).topic(fenced).topic(aged);
    outbox.build().context("build the outbox")
}

fn kafka(config: &Config) -> Result<KafkaTransport> {
    let settings = KafkaConfig::new(&config.bootstrap).set("message.timeout.ms", config.times.delivery_ms.to_string());
    let topics = config.topics.all().map(|(place, name)| {
        let topic = KafkaTopic::new(name).partitions(3).replication(1);
        match place {
            AGED => topic.config("message.timestamp.type", "CreateTime").config("retention.ms", AGED_RETENTION_MS),
            _ => topic,
        }
    });
    let builder =
        topics.into_iter().fold(KafkaTransport::builder(settings), |builder, topic| builder.create_topic(topic));
    builder.build().context("build the Kafka transport")
}

async fn relay(config: &Config, outbox: &Outbox, transport: FaultyKafka, clock: JumpingClock) -> Result<Relay> {
    let limits = Limits::default()
        .lease_duration(Duration::from_millis(config.times.lease_ms))
        .lane_lease_duration(Duration::from_millis(config.times.lane_lease_ms))
        .topic_back_off_duration(Duration::from_secs(1))
        // Small, so that a burst exceeds it.
        .queue_rows_max(256)
        .prune_interval(Duration::from_secs(2));
    let url = format!("{}?application_name={RELAY_NAME}{}", config.database_url, config.process);
    let pool = Pool::builder(AsyncDieselConnectionManager::<AsyncPgConnection>::new(url));
    let pool = pool.max_size(usize::try_from(RELAY_CONNECTIONS)?).build().context("create the relay's pool")?;
    let relay = outbox.relay().store(PostgresStore::new(pool)).transport(transport).limits(limits).clock(clock);
    relay.start().await.context("start the relay")
}

/// A relay that restarts after its own panic, or lacks a worker, would go unnoticed: nothing here may panic but
/// policies that were told to.
fn end_with_the_first_panic() {
    let default_hook = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        if panicking_policy::is_deliberate(panicked) {
            return;
        }
        default_hook(panicked);
        process::abort();
    }));
}

/// Reports when this process did not run although nobody stopped it: what another holder did meanwhile is no bug. It
/// runs on its own thread, because blocking the library's threads would be a bug of the library.
fn report_stalls() {
    let mut before = now_ms();
    loop {
        thread::park_timeout(CHECK_INTERVAL);
        let now = now_ms();
        if now.saturating_sub(before) > u64::try_from((CHECK_INTERVAL + STALL).as_millis()).unwrap_or(u64::MAX) {
            print_report(&Report::Stalled { from_ms: before, until_ms: now });
        }
        before = now;
    }
}

/// Reports when the client reported failures.
async fn report_failures(transport: FaultyKafka) {
    let mut from_ms = now_ms();
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let until_ms = now_ms();
        if transport.take_failures() > 0 {
            print_report(&Report::Failed { from_ms, until_ms });
        }
        from_ms = until_ms;
    }
}

/// Milliseconds since 1970, like the broker's timestamps.
#[expect(clippy::disallowed_methods, reason = "it is compared with the broker's own, on the same machine")]
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[expect(clippy::print_stdout, reason = "the driver reads it")]
fn print_report(report: &Report) {
    if let Ok(line) = serde_json::to_string(report) {
        println!("{line}");
    }
}

#[cfg(feature = "_injected_bugs")]
fn inject_bug(bug: Option<&str>) -> Result<()> {
    use diesel_outbox::injected_bugs::{InjectedBug, inject};
    let Some(name) = bug else { return Ok(()) };
    let known = InjectedBug::ALL.iter().find(|bug| bug.name() == name);
    inject(*known.with_context(|| format!("no bug is called {name}"))?);
    Ok(())
}

#[cfg(not(feature = "_injected_bugs"))]
fn inject_bug(bug: Option<&str>) -> Result<()> {
    anyhow::ensure!(bug.is_none(), "injected bugs need the feature _injected_bugs");
    Ok(())
}
