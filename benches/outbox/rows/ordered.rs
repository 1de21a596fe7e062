//! The drain of an ordered topic, as a share of the same drain of one that is not.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use diesel_outbox::{Outbox, Topic};
use serde::Serialize;

use crate::application::{self, PAYLOAD_BYTES};
use crate::arguments::{Place, Plan};
use crate::broker;
use crate::cpu::{CpuMeter, CpuShare};
use crate::database;
use crate::recorder::Recorder;
use crate::report::{Figure, Floor, Journal};

const ROWS: usize = 200_000;
const KEYS: usize = 1_000;
const LANES: u16 = 16;
const WITHIN: Duration = Duration::from_secs(300);

/// One drain.
#[derive(Debug, Serialize)]
struct Drain {
    messages_per_second: f64,
    cpu_us_per_message: f64,
    counters: std::collections::BTreeMap<String, u64>,
}

pub(crate) async fn run(plan: &Plan, place: &Place, recorder: &Recorder, journal: &mut Journal) -> Result<Vec<Figure>> {
    let (mut shares, mut ordered, mut unordered) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..plan.rounds(3) {
        let topic = format!("ordered-{round}");
        broker::make_topics(&place.kafka, &[&topic]).await?;
        let (before, cpu) = drain(place, recorder, Topic::new(topic.as_str()), None).await?;
        journal.leg("drain, unordered", cpu, &before)?;
        let in_order = Topic::new(topic.as_str()).ordered_by_key().lanes(LANES);
        let (leg, cpu) = drain(place, recorder, in_order, Some(LANES)).await?;
        journal.leg("drain, ordered", cpu, &leg)?;
        let (after, cpu) = drain(place, recorder, Topic::new(topic.as_str()), None).await?;
        journal.leg("drain, unordered", cpu, &after)?;
        let floor = f64::midpoint(before.messages_per_second, after.messages_per_second);
        shares.push(leg.messages_per_second / floor);
        ordered.push(leg.messages_per_second);
        unordered.push(floor);
        broker::delete_topic(&place.kafka, &topic).await?;
    }
    Ok(vec![
        Figure::new("drain of 200,000 x 500 B, 1,000 keys, unordered", "msg/s", unordered, Floor::None),
        Figure::new("drain of 200,000 x 500 B, 1,000 keys, ordered", "msg/s", ordered, Floor::None),
        Figure::new("ordered drain, share of the unordered", "", shares, Floor::AtLeast(0.6)),
    ])
}

/// From the relay's start, with which it takes its lanes, until every row is acknowledged and gone.
async fn drain(place: &Place, recorder: &Recorder, topic: Topic, lanes: Option<u16>) -> Result<(Drain, CpuShare)> {
    let name = topic.name().to_owned();
    database::reset(&place.postgres).await?;
    database::fill_keyed(&place.postgres, &name, ROWS as i64, PAYLOAD_BYTES, KEYS, lanes).await?;
    recorder.reset();
    let outbox = Outbox::builder().topic(topic).build().context("build the outbox")?;
    let transport = application::kafka(&place.kafka)?;
    let (cpu, started) = (CpuMeter::start(place.root)?, Instant::now());
    let relay = application::start_relay(&outbox, &place.postgres, transport).await?;
    application::delivered(recorder, ROWS as u64, WITHIN).await?;
    ensure!(relay.flush(WITHIN).await, "the relay settled not everything it sent");
    let (elapsed, cpu) = (started.elapsed(), cpu.stop()?);
    application::stop_relay(relay).await;
    ensure!(database::rows_left(&place.postgres).await? == 0, "rows are left after the drain");
    let messages_per_second = ROWS as f64 / elapsed.as_secs_f64();
    let cpu_us_per_message = cpu.own_us / ROWS as f64;
    Ok((Drain { messages_per_second, cpu_us_per_message, counters: recorder.counts() }, cpu))
}
