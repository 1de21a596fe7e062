//! The drain of a backlog into Kafka, as a share of what a bare producer does into the same broker.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use diesel_outbox::Outbox;
use serde::Serialize;
use xtask::results::short;

use crate::application::{self, PAYLOAD_BYTES};
use crate::arguments::{Place, Plan};
use crate::broker::{self, Raw};
use crate::cpu::{CpuMeter, CpuShare};
use crate::database;
use crate::recorder::Recorder;
use crate::report::{Figure, Floor, Journal};

const ROWS: usize = 300_000;
const WITHIN: Duration = Duration::from_secs(300);

/// One drain.
#[derive(Debug, Serialize)]
pub(super) struct Drain {
    /// Until the last row had left the table.
    pub(super) messages_per_second: f64,
    seconds_to_last_ack: f64,
    /// Processor time of everybody here, database and broker included.
    cpu_us_per_message: f64,
    counters: std::collections::BTreeMap<String, u64>,
}

pub(crate) async fn run(plan: &Plan, place: &Place, recorder: &Recorder, journal: &mut Journal) -> Result<Vec<Figure>> {
    let rows = plan.messages(ROWS);
    let (mut shares, mut drains, mut raws) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..plan.rounds(5) {
        let topic = format!("drain-{round}");
        broker::make_topics(&place.kafka, &[&topic]).await?;
        let floor = |journal: &mut Journal| {
            let (raw, cpu) = raw(place, &topic, rows)?;
            journal.leg(
                "bare rdkafka",
                cpu,
                serde_json::json!({ "messages_per_second": raw, "cpu_us_per_message": cpu.own_us / rows as f64 }),
            )?;
            anyhow::Ok(raw)
        };
        let before = floor(journal)?;
        database::reset(&place.postgres).await?;
        database::fill(&place.postgres, &topic, rows as i64, PAYLOAD_BYTES, 0).await?;
        let (drain, cpu) = drained(place, recorder, application::outbox(&[&topic])?, rows).await?;
        journal.leg("drain", cpu, &drain)?;
        let after = floor(journal)?;
        let raw = f64::midpoint(before, after);
        shares.push(drain.messages_per_second / raw);
        drains.push(drain.messages_per_second);
        raws.push(raw);
        broker::delete_topic(&place.kafka, &topic).await?;
    }
    Ok(vec![
        Figure::new("bare rdkafka, linger 0", "msg/s", raws, Floor::None),
        Figure::new(format!("drain of {} x 500 B into Kafka", short(rows as f64)), "msg/s", drains, Floor::None),
        Figure::new("drain, share of bare rdkafka", "", shares, Floor::AtLeast(0.3)),
    ])
}

/// Drains so many rows that are there: from the relay's start until every one is acknowledged and gone.
pub(super) async fn drained(
    place: &Place,
    recorder: &Recorder,
    outbox: Outbox,
    rows: usize,
) -> Result<(Drain, CpuShare)> {
    recorder.reset();
    let transport = application::kafka(&place.kafka)?;
    let (cpu, started) = (CpuMeter::start(place.root)?, Instant::now());
    let relay = application::start_relay(&outbox, &place.postgres, transport).await?;
    application::delivered(recorder, rows as u64, WITHIN).await?;
    let seconds_to_last_ack = started.elapsed().as_secs_f64();
    ensure!(relay.flush(WITHIN).await, "the relay settled not everything it sent");
    let (elapsed, cpu) = (started.elapsed(), cpu.stop()?);
    application::stop_relay(relay).await;
    ensure!(database::rows_left(&place.postgres).await? == 0, "rows are left after the drain");
    let messages_per_second = rows as f64 / elapsed.as_secs_f64();
    let cpu_us_per_message = cpu.own_us / rows as f64;
    Ok((Drain { messages_per_second, seconds_to_last_ack, cpu_us_per_message, counters: recorder.counts() }, cpu))
}

/// Messages a second from the first send until the last acknowledgement.
fn raw(place: &Place, topic: &str, rows: usize) -> Result<(f64, CpuShare)> {
    let raw = Raw::new(&place.kafka, topic, rows)?;
    let payload = vec![b'x'; PAYLOAD_BYTES];
    let (cpu, started) = (CpuMeter::start(place.root)?, raw.now());
    for number in 0..rows {
        raw.send(topic, number, &number.to_string(), &payload)?;
    }
    let last = raw.wait(rows)?.into_iter().max().context("a message was sent")?;
    let elapsed = Duration::from_nanos((last - started) as u64);
    Ok((rows as f64 / elapsed.as_secs_f64(), cpu.stop()?))
}
