//! Several relay processes on one table: the drain of a backlog, and an application that runs next to them.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::Serialize;
use xtask::bench_results::short;

use crate::application::PAYLOAD_BYTES;
use crate::arguments::{BenchEnv, Plan};
use crate::cpu::{CpuMeter, CpuShare};
use crate::load::{self, Enqueue, Load, RelayTo, TOPIC};
use crate::ratios::Rounds;
use crate::recorder::Recorder;
use crate::relay_process::{RelayProcess, Role};
use crate::report::{Figure, LegLog, Target};
use crate::{broker, database};

const ROWS: usize = 300_000;
const RELAYS: [usize; 3] = [1, 2, 4];
/// When a backlog of [`ROWS`] is due, so that it is written and all relays run by then.
const DUE_IN_SECONDS: usize = 20;
const TIMEOUT: Duration = Duration::from_secs(600);
const BUSINESS: Load = Load { enqueue: Enqueue::Hook, relay_to: RelayTo::Kafka };

#[derive(Serialize)]
struct Drain {
    messages_per_second: f64,
    second_copies: u64,
    /// The share of the busiest one.
    largest_share: f64,
}

pub(crate) async fn run(plan: &Plan, env: &BenchEnv, recorder: &Recorder, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    let rows = plan.messages(ROWS);
    let mut drains = RELAYS.map(|_| Vec::new());
    let (mut business, mut copies) = (RELAYS.map(|_| Rounds::default()), Vec::new());
    for round in 0..plan.rounds(3) {
        for (number, relays) in RELAYS.into_iter().enumerate() {
            let topic = format!("relays-{round}-{relays}");
            broker::make_topics(&env.kafka, &[&topic]).await?;
            let (drain, cpu) = drain(env, &topic, relays, rows).await?;
            leg_log.leg(&format!("drain, relays: {relays}"), cpu, &drain)?;
            drains[number].push(drain.messages_per_second);
            copies.push(drain.second_copies as f64);
            broker::delete_topic(&env.kafka, &topic).await?;
            let second = self::business(plan, env, recorder, leg_log, relays, &mut business[number]).await?;
            copies.push(second as f64);
        }
    }
    let mut figures = Vec::new();
    for (relays, drains) in RELAYS.iter().zip(drains) {
        figures.push(Figure::new(
            format!("drain of {} x 500 B, relays: {relays}", short(rows as f64)),
            "msg/s",
            drains,
            Target::None,
        ));
    }
    for (relays, rounds) in RELAYS.iter().zip(&business) {
        figures.push(rounds.figure(&format!("business tx/s, relays: {relays}"), BUSINESS, Target::None));
        figures.push(rounds.left(&format!("business, relays: {relays}"), BUSINESS));
    }
    figures.push(Figure::new("second copies of a leg", "msg", copies, Target::AtMost(0.0)));
    Ok(figures)
}

async fn drain(env: &BenchEnv, topic: &str, relays: usize, rows: usize) -> Result<(Drain, CpuShare)> {
    database::reset(&env.postgres).await?;
    let mut processes = (0..relays).map(|_| RelayProcess::start(topic, Role::Plain)).collect::<Result<Vec<_>>>()?;
    let due_in_seconds = DUE_IN_SECONDS * rows.div_ceil(ROWS);
    database::fill(&env.postgres, topic, rows as i64, PAYLOAD_BYTES, due_in_seconds as i64).await?;
    ensure!(
        delivered(&mut processes).await?.iter().sum::<u64>() == 0,
        "the backlog of {rows} took longer to write than the {due_in_seconds} s until it was due"
    );
    let cpu = CpuMeter::start(env.root)?;
    let end = Instant::now() + TIMEOUT;
    let (mut first_at, mut counts) = (None, Vec::new());
    while counts.iter().sum::<u64>() < rows as u64 {
        ensure!(Instant::now() < end, "{counts:?} of {rows} delivered after {TIMEOUT:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
        counts = delivered(&mut processes).await?;
        if counts.iter().any(|count| *count > 0) {
            first_at.get_or_insert_with(Instant::now);
        }
    }
    database::wait_until_empty(&env.postgres, TIMEOUT).await?;
    let elapsed = first_at.unwrap_or(end).elapsed().as_secs_f64();
    let cpu = cpu.stop()?;
    for process in processes {
        process.end().await?;
    }
    let second_copies = broker::stored(&env.kafka, topic)?.saturating_sub(rows as u64);
    let largest_share = counts.iter().copied().max().unwrap_or_default() as f64 / rows as f64;
    Ok((Drain { messages_per_second: rows as f64 / elapsed, second_copies, largest_share }, cpu))
}

async fn delivered(processes: &mut [RelayProcess]) -> Result<Vec<u64>> {
    let mut counts = Vec::new();
    for process in processes {
        counts.push(process.memory().await?.delivered);
    }
    Ok(counts)
}

/// An application with its own relay, and the other relays. Returns the number of duplicates.
async fn business(
    plan: &Plan,
    env: &BenchEnv,
    recorder: &Recorder,
    leg_log: &mut LegLog,
    relays: usize,
    rounds: &mut Rounds,
) -> Result<u64> {
    broker::make_topics(&env.kafka, &[TOPIC]).await?;
    let duration = plan.duration(6.0);
    let baseline = async |rounds: &mut Rounds, leg_log: &mut LegLog| {
        let (throughput, cpu) = load::run(Load::BASELINE, &env.postgres, env, recorder, duration).await?;
        leg_log.leg(Load::BASELINE.name(), cpu, &throughput)?;
        rounds.push_leg(Load::BASELINE, &throughput);
        anyhow::Ok(())
    };
    baseline(rounds, leg_log).await?;
    let before = broker::stored(&env.kafka, TOPIC)?;
    // Before the others start, which would lose their nodes and lanes by it.
    database::reset(&env.postgres).await?;
    let mut others = (1..relays).map(|_| RelayProcess::start(TOPIC, Role::Plain)).collect::<Result<Vec<_>>>()?;
    // Each answers when its relay has started, so that none starts in the middle of the leg.
    delivered(&mut others).await?;
    let (throughput, cpu) = load::run_in_emptied(BUSINESS, &env.postgres, env, recorder, duration).await?;
    leg_log.leg(&format!("business, relays: {relays}"), cpu, &throughput)?;
    rounds.push_leg(BUSINESS, &throughput);
    for other in others {
        other.end().await?;
    }
    // Another relay sends what none of them had settled before its end.
    let rest = RelayProcess::start(TOPIC, Role::Plain)?;
    database::wait_until_empty(&env.postgres, TIMEOUT).await?;
    rest.end().await?;
    baseline(rounds, leg_log).await?;
    Ok((broker::stored(&env.kafka, TOPIC)? - before).saturating_sub(throughput.transactions))
}
