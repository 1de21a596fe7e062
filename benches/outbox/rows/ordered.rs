//! The drain of an ordered topic, as a share of the same drain of an unordered one; that of a fenced one, in transactions;
//! and that of an exactly-once one, as a share of the fenced one's.

use anyhow::{Context, Result};
use diesel_outbox::{Outbox, Topic};
use xtask::bench_results::short;

use super::drain::{Drain, drained};
use crate::application::{self, PAYLOAD_BYTES};
use crate::arguments::{BenchEnv, Plan};
use crate::broker;
use crate::cpu::CpuShare;
use crate::database;
use crate::recorder::Recorder;
use crate::report::{Figure, LegLog, Target};

const ROWS: usize = 200_000;
const KEYS: usize = 1_000;
const LANES: u16 = 16;

pub(crate) async fn run(plan: &Plan, env: &BenchEnv, recorder: &Recorder, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    let rows = plan.messages(ROWS);
    let (mut shares, mut ordered, mut unordered) = (Vec::new(), Vec::new(), Vec::new());
    let (mut fenced, mut fenced_shares, mut once_shares) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..plan.rounds(3) {
        let topic = format!("ordered-{round}");
        broker::make_topics(&env.kafka, &[&topic]).await?;
        let (before, cpu) = drain(env, recorder, Topic::new(topic.as_str()), None, rows).await?;
        leg_log.leg("drain, unordered", cpu, &before)?;
        let in_order = Topic::new(topic.as_str()).ordered_by_key().lanes(LANES);
        let (leg, cpu) = drain(env, recorder, in_order, Some(LANES), rows).await?;
        leg_log.leg("drain, ordered", cpu, &leg)?;
        let in_transactions = Topic::new(topic.as_str()).ordered_by_key().lanes(LANES).fenced();
        let (fenced_leg, cpu) = drain(env, recorder, in_transactions, Some(LANES), rows).await?;
        leg_log.leg("drain, fenced", cpu, &fenced_leg)?;
        let once = Topic::new(topic.as_str()).ordered_by_key().lanes(LANES).fenced().exactly_once();
        let (once_leg, cpu) = drain(env, recorder, once, Some(LANES), rows).await?;
        leg_log.leg("drain, exactly once", cpu, &once_leg)?;
        let (after, cpu) = drain(env, recorder, Topic::new(topic.as_str()), None, rows).await?;
        leg_log.leg("drain, unordered", cpu, &after)?;
        let baseline = f64::midpoint(before.messages_per_second, after.messages_per_second);
        shares.push(leg.messages_per_second / baseline);
        ordered.push(leg.messages_per_second);
        fenced_shares.push(fenced_leg.messages_per_second / leg.messages_per_second);
        fenced.push(fenced_leg.messages_per_second);
        once_shares.push(once_leg.messages_per_second / fenced_leg.messages_per_second);
        unordered.push(baseline);
        broker::delete_topic(&env.kafka, &topic).await?;
    }
    let what = format!("drain of {} x 500 B, 1,000 keys", short(rows as f64));
    Ok(vec![
        Figure::new(format!("{what}, unordered"), "msg/s", unordered, Target::None),
        Figure::new(format!("{what}, ordered"), "msg/s", ordered, Target::None),
        Figure::new("ordered drain, share of the unordered", "", shares, Target::AtLeast(0.6)),
        Figure::new(format!("{what}, fenced"), "msg/s", fenced, Target::None),
        Figure::new("fenced drain, share of the ordered", "", fenced_shares, Target::None),
        Figure::new("exactly-once drain, share of the fenced", "", once_shares, Target::AtLeast(0.9)),
    ])
}

/// Drains a backlog of that topic. The relay's start takes the lanes, which counts.
async fn drain(
    env: &BenchEnv,
    recorder: &Recorder,
    topic: Topic,
    lanes: Option<u16>,
    rows: usize,
) -> Result<(Drain, CpuShare)> {
    let name = topic.name().to_owned();
    database::reset(&env.postgres).await?;
    database::fill_keyed(&env.postgres, &name, rows as i64, PAYLOAD_BYTES, KEYS, lanes).await?;
    let outbox = Outbox::builder().topic(topic).build().context("build the outbox")?;
    drained(env, recorder, outbox, application::kafka(&env.kafka)?, rows).await
}
