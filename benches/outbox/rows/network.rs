//! The same with a distant database: a proxy between all clients and the server delays each direction by half a
//! millisecond.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use diesel::dsl::select;
use diesel::prelude::*;
use diesel::sql_types::Integer;
use diesel_async::RunQueryDsl;
use serde::Serialize;

use crate::arguments::{BenchEnv, Plan};
use crate::cpu::CpuShare;
use crate::load::{self, Enqueue, Load, RelayTo, TOPIC, Throughput};
use crate::proxy::Proxy;
use crate::ratios::Rounds;
use crate::recorder::Recorder;
use crate::report::{Figure, LegLog, Target};
use crate::stats::Waits;
use crate::{broker, database};

/// In each direction.
const DELAY: Duration = Duration::from_micros(500);
/// The accepted distance for a leg, in microseconds.
const DISTANCE: std::ops::RangeInclusive<f64> = 1_000.0..=1_300.0;
/// How often a leg is tried: on a shared host the proxy wakes up late for a minute at a time.
const TRIES: usize = 12;
/// The number of pings for one measurement of the distance.
const PINGS: usize = 300;

const LEGS: [(Load, f64); 4] = [
    (Load { enqueue: Enqueue::Hook, relay_to: RelayTo::Memory }, 0.72),
    (Load { enqueue: Enqueue::Hook, relay_to: RelayTo::Kafka }, 0.72),
    (Load { enqueue: Enqueue::Transaction, relay_to: RelayTo::Memory }, 0.93),
    (Load { enqueue: Enqueue::Transaction, relay_to: RelayTo::Kafka }, 0.93),
];

#[derive(Serialize)]
struct Leg {
    #[serde(flatten)]
    throughput: Throughput,
    distance_before_us: f64,
    distance_after_us: f64,
    /// How late the proxy forwarded chunks, under load.
    late_us: Option<Waits>,
}

pub(crate) async fn run(plan: &Plan, env: &BenchEnv, recorder: &Recorder, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    broker::make_topics(&env.kafka, &[TOPIC]).await?;
    load::warm_up(env, recorder).await?;
    let proxy = Proxy::start(database::address_of(&env.postgres)?, DELAY)?;
    let mut rounds = Rounds::default();
    let measure = async |load: Load, leg_log: &mut LegLog| {
        let (leg, cpu) = at_a_distance(load, &proxy, env, recorder, plan.duration(10.0)).await?;
        leg_log.leg(load.name(), cpu, &leg)?;
        anyhow::Ok(leg.throughput)
    };
    for round in 0..plan.rounds(5) {
        for step in 0..LEGS.len() {
            for load in [Load::BASELINE, LEGS[(round + step) % LEGS.len()].0] {
                rounds.push_leg(load, &measure(load, leg_log).await?);
            }
        }
    }
    // The last leg needs a baseline after it, too.
    rounds.push_leg(Load::BASELINE, &measure(Load::BASELINE, leg_log).await?);
    let mut figures = vec![rounds.absolute("1 ms away, tx/s", Load::BASELINE)];
    figures.extend(LEGS.map(|(load, target)| rounds.figure("1 ms away, tx/s", load, Target::AtLeast(target))));
    figures.extend(LEGS.map(|(load, _)| rounds.left("1 ms away", load)));
    Ok(figures)
}

/// One leg with the right distance before and after it.
async fn at_a_distance(
    load: Load,
    proxy: &Proxy,
    env: &BenchEnv,
    recorder: &Recorder,
    duration: Duration,
) -> Result<(Leg, CpuShare)> {
    let away = database::with_address(&env.postgres, proxy.address())?;
    let mut seen = Vec::new();
    for _ in 0..TRIES {
        let distance_before_us = distance(&env.postgres, &away).await?;
        if !DISTANCE.contains(&distance_before_us) {
            seen.push((distance_before_us, None));
            continue;
        }
        proxy.take_lateness();
        let (throughput, cpu) = load::run(load, &away, env, recorder, duration).await?;
        let late_us = Waits::of(&proxy.take_lateness());
        let distance_after_us = distance(&env.postgres, &away).await?;
        if DISTANCE.contains(&distance_after_us) {
            return Ok((Leg { throughput, distance_before_us, distance_after_us, late_us }, cpu));
        }
        seen.push((distance_before_us, Some(distance_after_us)));
    }
    bail!("the distance was never {DISTANCE:?} microseconds before and after a leg, but {seen:?}")
}

/// How much longer a `SELECT 1` takes through the proxy, in microseconds; medians of alternating pairs.
async fn distance(direct: &str, away: &str) -> Result<f64> {
    let mut conns = [database::connect(direct).await?, database::connect(away).await?];
    let mut waits = [Vec::new(), Vec::new()];
    for _ in 0..PINGS {
        for (conn, waits) in conns.iter_mut().zip(&mut waits) {
            let sent_at = Instant::now();
            // Prepared the first time, and one round trip from then on.
            select(1.into_sql::<Integer>()).get_result::<i32>(conn).await?;
            waits.push(sent_at.elapsed().as_secs_f64() * 1e6);
        }
    }
    let [direct, away] = waits.map(|waits| Waits::of(&waits).map_or(f64::NAN, |waits| waits.p50));
    Ok(away - direct)
}
