//! A minute without a broker while the application goes on: how soon the backlog is drained after the broker's
//! recovery, and that no message becomes a dead letter.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use diesel_outbox::internals::metrics;
use serde::Serialize;
use xtask::servers::{Kafka, kafka};

use crate::application;
use crate::arguments::{BenchEnv, Plan};
use crate::cpu::{CpuMeter, CpuShare};
use crate::load::TOPIC;
use crate::open_loop::{self, Ticks};
use crate::recorder::Recorder;
use crate::report::{Figure, LegLog, Target};
use crate::timed::{Instants, Timed};
use crate::{broker, database};

const PER_SECOND: f64 = 1_000.0;
/// Before the outage, and at most after it.
const BEFORE: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(180);

#[derive(Serialize)]
struct Leg {
    seconds_to_drain: f64,
    backlog: i64,
    dead: i64,
    second_copies: u64,
    counters: std::collections::BTreeMap<String, u64>,
}

pub(crate) async fn run(plan: &Plan, env: &BenchEnv, recorder: &Recorder, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    let outage = plan.duration(60.0);
    let mut legs = Vec::new();
    for _ in 0..plan.rounds(3) {
        let (leg, cpu) = leg(env, recorder, outage).await?;
        leg_log.leg("outage", cpu, &leg)?;
        legs.push(leg);
    }
    let all = |of: fn(&Leg) -> f64| legs.iter().map(of).collect::<Vec<f64>>();
    let seconds = outage.as_secs_f64();
    Ok(vec![
        Figure::new(
            format!("backlog at the end of {seconds:.0} s without a broker, 1,000 a second"),
            "msg",
            all(|leg| leg.backlog as f64),
            Target::None,
        ),
        Figure::new(
            "drained after the first leader was seen",
            "s",
            all(|leg| leg.seconds_to_drain),
            Target::AtMost(10.0),
        ),
        Figure::new("dead letters", "msg", all(|leg| leg.dead as f64), Target::AtMost(0.0)),
        Figure::new("second copies", "msg", all(|leg| leg.second_copies as f64), Target::None),
    ])
}

async fn leg(env: &BenchEnv, recorder: &Recorder, outage: Duration) -> Result<(Leg, CpuShare)> {
    database::reset(&env.postgres).await?;
    // Its own broker: it is killed.
    let mut kafka = tokio::task::block_in_place(|| Kafka::start(&kafka::Options::default()))?;
    let bootstrap = kafka.bootstrap();
    broker::make_topics(&bootstrap, &[TOPIC]).await?;
    recorder.reset();
    let outbox = application::outbox(&[TOPIC])?;
    let (committed, delivered) = (Instants::default(), Instants::default());
    let transport = Timed { inner: application::kafka(&bootstrap)?, delivered: delivered.clone() };
    let relay = application::start_relay(&outbox, &env.postgres, transport).await?;
    let ticks = Ticks::start(((BEFORE + outage + TIMEOUT).as_secs_f64() * PER_SECOND) as usize, PER_SECOND);
    let cpu = CpuMeter::start(env.root)?;
    let clients = open_loop::clients(&env.postgres, &outbox, (TOPIC, usize::MAX, 0), &ticks, &committed).await?;
    tokio::time::sleep(BEFORE).await;
    tokio::task::block_in_place(|| kafka.kill9())?;
    tokio::time::sleep(outage).await;
    let leader = LeaderSeen::watch(&bootstrap);
    tokio::task::block_in_place(|| kafka.start_again())?;
    let back_at = application::until(|| leader.at(), TIMEOUT).await.context("the broker is back")?;
    let backlog = database::rows_left(&env.postgres).await?;
    let drained_at = drained(&committed, &delivered, back_at).await?;
    ticks.close().await;
    for client in clients {
        client.await??;
    }
    application::delivered(recorder, committed.len() as u64, TIMEOUT).await?;
    let cpu = cpu.stop()?;
    application::stop_relay(relay).await;
    let stored = broker::stored(&bootstrap, TOPIC)?;
    ensure!(stored >= committed.len() as u64, "{stored} of {} messages are in the topic", committed.len());
    let leg = Leg {
        seconds_to_drain: drained_at.saturating_duration_since(back_at).as_secs_f64(),
        backlog,
        dead: database::dead_letters(&env.postgres).await? + recorder.count(metrics::DEAD_LETTERED) as i64,
        second_copies: stored - committed.len() as u64,
        counters: recorder.counts(),
    };
    Ok((leg, cpu))
}

/// When the last message that was committed before `back_at` was acknowledged.
async fn drained(committed: &Instants, delivered: &Instants, back_at: Instant) -> Result<Instant> {
    let end = Instant::now() + TIMEOUT;
    loop {
        // Rarely: it checks every message, and the relay waits for its locks.
        if let Some(at) = committed.last_until(delivered, back_at) {
            return Ok(at);
        }
        ensure!(Instant::now() < end, "the backlog is not drained after {TIMEOUT:?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// When a client independent of the relay first saw a leader for every partition.
struct LeaderSeen {
    at: Arc<OnceLock<Instant>>,
    stop: Arc<AtomicBool>,
}

impl LeaderSeen {
    fn watch(bootstrap: &str) -> Self {
        let (at, stop) = (Arc::new(OnceLock::new()), Arc::new(AtomicBool::new(false)));
        let (seen, stopped, bootstrap) = (Arc::clone(&at), Arc::clone(&stop), bootstrap.to_owned());
        std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                if broker::has_leaders(&bootstrap, TOPIC) {
                    let _ = seen.set(Instant::now()); // it was unset until now
                    return;
                }
            }
        });
        Self { at, stop }
    }

    fn at(&self) -> Option<Instant> {
        self.at.get().copied()
    }
}

impl Drop for LeaderSeen {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
