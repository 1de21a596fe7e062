//! How long after its due time a delayed message is acknowledged, beyond what a plain one takes from its COMMIT.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use diesel_async::AsyncConnection as _;
use diesel_outbox::{Outbox, OutboxMessage as _};
use serde::Serialize;

use crate::application::{self, OrderPlaced};
use crate::arguments::{BenchEnv, Plan};
use crate::cpu::{CpuMeter, CpuShare};
use crate::load::TOPIC;
use crate::open_loop::{self, Ticks};
use crate::recorder::Recorder;
use crate::report::{Figure, LegLog, Target};
use crate::stats::Waits;
use crate::timed::{Instants, Timed};
use crate::{broker, database, due};

const DELAYED: usize = 1_000;
/// The delay of the first one; all are written, and read back, before it is due.
const DELAY_MIN: Duration = Duration::from_secs(5);
/// Sent at the same time, in the same run.
const PLAIN_PER_SECOND: f64 = 20.0;

#[derive(Serialize)]
struct Leg {
    late_p50_us: f64,
    late_p99_us: f64,
    plain_p50_us: f64,
    late_us: Waits,
    plain_us: Waits,
}

pub(crate) async fn run(plan: &Plan, env: &BenchEnv, recorder: &Recorder, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    broker::make_topics(&env.kafka, &[TOPIC]).await?;
    let mut legs = Vec::new();
    for _ in 0..plan.rounds(3) {
        let (leg, cpu) = leg(env, recorder, plan.duration(60.0)).await?;
        leg_log.leg("1,000 delayed messages", cpu, &leg)?;
        legs.push(leg);
    }
    let all = |of: fn(&Leg) -> f64| legs.iter().map(|leg| of(leg) / 1e3).collect::<Vec<f64>>();
    Ok(vec![
        Figure::new("plain, COMMIT to ack, p50", "ms", all(|leg| leg.plain_us.p50), Target::None),
        Figure::new("plain, COMMIT to ack, p99", "ms", all(|leg| leg.plain_us.p99), Target::None),
        Figure::new("delayed, due to ack, p50", "ms", all(|leg| leg.late_us.p50), Target::None),
        Figure::new("delayed, due to ack, p99", "ms", all(|leg| leg.late_us.p99), Target::None),
        Figure::new("delayed, due to ack, max", "ms", all(|leg| leg.late_us.max), Target::None),
        // The stricter reading of "beyond": the tail of one minus the median of the other.
        Figure::new(
            "p99 of delayed, less p50 of plain",
            "ms",
            all(|leg| leg.late_us.p99 - leg.plain_us.p50),
            Target::AtMost(20.0),
        ),
    ])
}

async fn leg(env: &BenchEnv, recorder: &Recorder, duration: Duration) -> Result<(Leg, CpuShare)> {
    database::reset(&env.postgres).await?;
    recorder.reset();
    let outbox = application::outbox(&[TOPIC])?;
    let (committed, delivered) = (Instants::default(), Instants::default());
    let transport = Timed { inner: application::kafka(&env.kafka)?, delivered: delivered.clone() };
    let relay = application::start_relay(&outbox, &env.postgres, transport).await?;
    let due = enqueue(env, &outbox, duration).await?;
    let cpu = CpuMeter::start(env.root)?;
    let plain = (PLAIN_PER_SECOND * (DELAY_MIN + duration).as_secs_f64()) as usize;
    let ticks = Ticks::start(plain, PLAIN_PER_SECOND);
    let orders = (TOPIC, usize::MAX, PLAIN_PER_SECOND as usize);
    for client in open_loop::clients(&env.postgres, &outbox, orders, &ticks, &committed).await? {
        client.await??;
    }
    application::delivered(recorder, (plain + DELAYED) as u64, Duration::from_secs(60)).await?;
    let cpu = cpu.stop()?;
    application::stop_relay(relay).await;
    let late = due.until(&delivered);
    ensure!(late.len() == DELAYED, "{} of {DELAYED} delayed messages delivered", late.len());
    let late_us = Waits::of(&late).context("nothing was measured")?;
    let plain_us = Waits::of(&committed.until(&delivered)).context("nothing was measured")?;
    let (late_p50_us, late_p99_us, plain_p50_us) = (late_us.p50, late_us.p99, plain_us.p50);
    Ok((Leg { late_p50_us, late_p99_us, plain_p50_us, late_us, plain_us }, cpu))
}

/// Writes all of them. Returns when each is due.
async fn enqueue(env: &BenchEnv, outbox: &Outbox, duration: Duration) -> Result<Instants> {
    let mut conn = database::connect(&env.postgres).await?;
    let step = duration / DELAYED as u32;
    let events = (0..DELAYED as u32)
        .map(|number| OrderPlaced { order_id: i64::from(number), topic: TOPIC }.delay(DELAY_MIN + step * number));
    conn.transaction(async |conn| outbox.enqueue_all_async(conn, events).await).await?;
    let due = due::instants(&mut conn).await?;
    ensure!(due.len() == DELAYED, "{} of {DELAYED} delayed messages were still there", due.len());
    Ok(due)
}
