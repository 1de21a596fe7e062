//! From the end of COMMIT to the broker's acknowledgement, against a bare producer's from send to acknowledgement, both
//! on one schedule that waits for nobody (an open loop).

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use diesel_async::AsyncConnection;
use diesel_outbox::metrics::COMMIT_TO_ACK;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::application::{self, OrderPlaced, PAYLOAD_BYTES};
use crate::arguments::{Place, Plan};
use crate::broker::{self, Raw};
use crate::cpu::{CpuMeter, CpuShare};
use crate::database;
use crate::load::{CONNECTIONS, TOPIC, place_order};
use crate::recorder::Recorder;
use crate::report::{Figure, Floor, Journal};
use crate::stats::Waits;
use crate::timed::{Committed, Instants, Timed};

const PER_SECOND: f64 = 200.0;
/// Messages before the measured ones: connections, statements and the producer are warm then.
const WARM_UP: usize = 200;

#[derive(Serialize)]
struct Leg {
    p50_us: f64,
    waits_us: Waits,
    /// The relay's own histogram of the same, for comparison.
    histogram_us: Option<Waits>,
    counters: std::collections::BTreeMap<String, u64>,
}

pub(crate) async fn run(plan: &Plan, place: &Place, recorder: &Recorder, journal: &mut Journal) -> Result<Vec<Figure>> {
    broker::make_topics(&place.kafka, &[TOPIC]).await?;
    let messages = WARM_UP + (plan.duration(60.0).as_secs_f64() * PER_SECOND) as usize;
    let (mut ratios, mut bares, mut boxes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..plan.rounds(3) {
        let (bare, cpu) = bare(place, messages).await?;
        journal.leg("bare rdkafka", cpu, &bare)?;
        let (outbox, cpu) = outbox(place, recorder, messages).await?;
        journal.leg("outbox", cpu, &outbox)?;
        ratios.push(outbox.p50_us / bare.p50_us);
        bares.push(bare.waits_us);
        boxes.push(outbox.waits_us);
    }
    let mut figures = Vec::new();
    for (name, legs) in [("bare rdkafka, send to ack", &bares), ("outbox, COMMIT to ack", &boxes)] {
        for percentile in Waits::PERCENTILES {
            let samples = legs.iter().map(|waits| waits.at(percentile)).collect();
            figures.push(Figure::new(format!("{name}, {percentile}"), "us", samples, Floor::None));
        }
    }
    figures.push(Figure::new("p50, COMMIT to ack, by bare send to ack", "", ratios, Floor::AtMost(2.0)));
    Ok(figures)
}

/// A thread that counts up on the schedule.
fn schedule(messages: usize) -> Arc<Mutex<UnboundedReceiver<usize>>> {
    let (sender, ticks) = unbounded_channel();
    std::thread::spawn(move || {
        let started = Instant::now();
        for number in 0..messages {
            sleep_until(started + Duration::from_secs_f64(number as f64 / PER_SECOND));
            if sender.send(number).is_err() {
                return;
            }
        }
    });
    Arc::new(Mutex::new(ticks))
}

#[expect(clippy::disallowed_methods, reason = "a schedule is kept by sleeping; tokio's timer is too coarse for it")]
fn sleep_until(instant: Instant) {
    std::thread::sleep(instant.saturating_duration_since(Instant::now()));
}

/// Business transactions with a message in each, relayed to Kafka.
async fn outbox(place: &Place, recorder: &Recorder, messages: usize) -> Result<(Leg, CpuShare)> {
    database::reset(&place.postgres).await?;
    let outbox = application::outbox(&[TOPIC])?;
    let (committed, delivered) = (Instants::default(), Instants::default());
    let transport = Timed { inner: application::kafka(&place.kafka)?, delivered: delivered.clone() };
    let relay = application::start_relay(&outbox, &place.postgres, transport).await?;
    let ticks = schedule(messages);
    recorder.reset();
    let cpu = CpuMeter::start(place.root)?;
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut conn = database::connect(&place.postgres).await?;
        let (outbox, ticks, committed, end) =
            (outbox.clone(), Arc::clone(&ticks), committed.clone(), Committed::default());
        conn.set_instrumentation(outbox.commit_hook().chain(end.instrumentation()));
        clients.push(tokio::spawn(async move {
            while let Some(number) = next(&ticks).await {
                let event = OrderPlaced { order_id: number as i64, topic: TOPIC };
                let message_id = conn.transaction(async |conn| {
                    place_order(conn, number as i64).await?;
                    outbox.enqueue_async(conn, &event).await
                });
                let message_id = message_id.await?;
                let at = end.take().context("the instrumentation saw no COMMIT")?;
                if number >= WARM_UP {
                    committed.note(message_id, at);
                }
            }
            anyhow::Ok(())
        }));
    }
    for client in clients {
        client.await??;
    }
    application::delivered(recorder, messages as u64, Duration::from_secs(30)).await?;
    let cpu = cpu.stop()?;
    application::stop_relay(relay).await;
    let waits = committed.until(&delivered);
    ensure!(waits.len() == committed.len(), "{} of {} messages delivered", waits.len(), committed.len());
    let histogram: Vec<f64> = recorder.values(COMMIT_TO_ACK).into_iter().map(|seconds| seconds * 1e6).collect();
    Ok((leg(&waits, Waits::of(&histogram), recorder.counts())?, cpu))
}

/// A bare producer, called from the same kind of tasks.
async fn bare(place: &Place, messages: usize) -> Result<(Leg, CpuShare)> {
    let raw = Arc::new(Raw::new(&place.kafka, TOPIC, messages)?);
    let ticks = schedule(messages);
    let cpu = CpuMeter::start(place.root)?;
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let (raw, ticks) = (Arc::clone(&raw), Arc::clone(&ticks));
        clients.push(tokio::spawn(async move {
            let mut sent = Vec::new();
            while let Some(number) = next(&ticks).await {
                let payload = vec![b'x'; PAYLOAD_BYTES];
                sent.push((number, raw.now()));
                raw.send(TOPIC, number, &number.to_string(), &payload)?;
            }
            anyhow::Ok(sent)
        }));
    }
    let mut sent = Vec::new();
    for client in clients {
        sent.extend(client.await??);
    }
    let delivered = raw.wait(messages)?;
    let measured = sent.iter().filter(|(number, _)| *number >= WARM_UP);
    let waits: Vec<f64> = measured.map(|(number, at)| (delivered[*number] - at) as f64 / 1e3).collect();
    Ok((leg(&waits, None, Default::default())?, cpu.stop()?))
}

async fn next(ticks: &Mutex<UnboundedReceiver<usize>>) -> Option<usize> {
    ticks.lock().await.recv().await
}

fn leg(waits: &[f64], histogram_us: Option<Waits>, counters: std::collections::BTreeMap<String, u64>) -> Result<Leg> {
    let waits_us = Waits::of(waits).context("nothing was measured")?;
    Ok(Leg { p50_us: waits_us.p50, waits_us, histogram_us, counters })
}
