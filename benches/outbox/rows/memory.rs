//! The memory of a relay process while it drains a backlog, beyond what it uses after its start and one message.

use anyhow::{Result, ensure};
use diesel_async::AsyncConnection as _;
use serde::Serialize;

use crate::application::{self, OrderPlaced};
use crate::arguments::{BenchEnv, Plan};
use crate::broker;
use crate::cpu::{CpuMeter, CpuShare};
use crate::database;
use crate::relay_process::{RelayProcess, Role};
use crate::report::{Figure, LegLog, Target};

const MIB: f64 = 1024.0;

/// A backlog, and the minimum time until it is due: it must be written first, even on a busy machine.
struct Backlog {
    what: &'static str,
    rows: i64,
    bytes: usize,
    due_in_seconds: i64,
}

const BACKLOGS: [Backlog; 2] = [
    Backlog { what: "300,000 x 500 B", rows: 300_000, bytes: 500, due_in_seconds: 20 },
    Backlog { what: "30,000 x 50 kB", rows: 30_000, bytes: 50_000, due_in_seconds: 90 },
];

#[derive(Serialize)]
struct Leg {
    growth_mib: f64,
    after_start_mib: f64,
    peak_mib: f64,
    after_drain_mib: f64,
}

pub(crate) async fn run(plan: &Plan, env: &BenchEnv, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    let mut growths = BACKLOGS.map(|_| Vec::new());
    for round in 0..plan.rounds(3) {
        for (number, backlog) in BACKLOGS.iter().enumerate() {
            let topic = format!("memory-{round}-{number}");
            broker::make_topics(&env.kafka, &[&topic]).await?;
            let (leg, cpu) = leg(env, &topic, backlog).await?;
            leg_log.leg(backlog.what, cpu, &leg)?;
            growths[number].push(leg.growth_mib);
            broker::delete_topic(&env.kafka, &topic).await?;
        }
    }
    let figures = BACKLOGS.iter().zip(growths).map(|(backlog, growths)| {
        let what = format!("relay's memory, drain of {}, peak less start", backlog.what);
        Figure::new(what, "MiB", growths, Target::AtMost(100.0))
    });
    Ok(figures.collect())
}

async fn leg(env: &BenchEnv, topic: &str, backlog: &Backlog) -> Result<(Leg, CpuShare)> {
    database::reset(&env.postgres).await?;
    let mut relay = RelayProcess::start(topic, Role::Plain)?;
    // One message from an outbox without a relay: it is due at once for the other process.
    let mut conn = database::connect(&env.postgres).await?;
    let event = OrderPlaced { order_id: 1, topic: topic.to_owned().leak() };
    let outbox = application::outbox(&[topic])?;
    conn.transaction(async |conn| outbox.enqueue_async(conn, &event).await).await?;
    let after_start = relay.delivered(1).await?.rss;
    let Backlog { rows, bytes, due_in_seconds, .. } = *backlog;
    database::fill(&env.postgres, topic, rows, bytes, due_in_seconds).await?;
    let early = relay.memory().await?;
    ensure!(early.delivered == 1, "the backlog took longer to write than the {due_in_seconds} s until it was due");
    let cpu = CpuMeter::start(env.root)?;
    let drained = relay.delivered(rows as u64 + 1).await?;
    let cpu = cpu.stop()?;
    relay.end().await?;
    ensure!(database::rows_left(&env.postgres).await? == 0, "rows are left after the drain");
    let leg = Leg {
        growth_mib: (drained.peak - after_start) / MIB,
        after_start_mib: after_start / MIB,
        peak_mib: drained.peak / MIB,
        after_drain_mib: drained.rss / MIB,
    };
    Ok((leg, cpu))
}
