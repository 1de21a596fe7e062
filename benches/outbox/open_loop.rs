//! Business transactions on a schedule that waits for nobody (an open loop), with a message in each, and when each was
//! committed; and the same schedule for a bare producer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use diesel_async::AsyncConnection;
use diesel_outbox::metrics::COMMIT_TO_ACK;
use diesel_outbox::{Outbox, Topic};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

use crate::application::{self, OrderPlaced, PAYLOAD_BYTES};
use crate::arguments::Place;
use crate::broker::Raw;
use crate::clients::place_order;
use crate::cpu::{CpuMeter, CpuShare};
use crate::database;
use crate::load::{CONNECTIONS, TOPIC};
use crate::recorder::Recorder;
use crate::stats::Waits;
use crate::timed::{Committed, Instants, Timed};

/// For how long messages come before the measured ones: connections, statements and the producer are warm then.
const WARM_UP: Duration = Duration::from_secs(1);

/// How often, how long, over how many keys, and how many lanes the relay has to have first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenLoop {
    pub(crate) per_second: f64,
    pub(crate) duration: Duration,
    pub(crate) keys: usize,
    pub(crate) lanes: u16,
}

impl OpenLoop {
    fn warm_up(&self) -> usize {
        (WARM_UP.as_secs_f64() * self.per_second) as usize
    }

    fn messages(&self) -> usize {
        self.warm_up() + ((self.duration.as_secs_f64() * self.per_second) as usize).max(1)
    }
}

/// What one leg gave.
#[derive(Serialize)]
pub(crate) struct Leg {
    p50_us: f64,
    p99_us: f64,
    pub(crate) waits_us: Waits,
    /// The relay's own histogram of the same, for comparison.
    histogram_us: Option<Waits>,
    counters: std::collections::BTreeMap<String, u64>,
}

/// The numbers of messages, each handed out when its time has come.
#[derive(Clone)]
pub(crate) struct Ticks(Arc<Mutex<UnboundedReceiver<usize>>>);

impl Ticks {
    /// A thread that counts up on the schedule.
    pub(crate) fn start(messages: usize, per_second: f64) -> Self {
        let (sender, ticks) = unbounded_channel();
        std::thread::spawn(move || {
            let started = Instant::now();
            for number in 0..messages {
                sleep_until(started + Duration::from_secs_f64(number as f64 / per_second));
                if sender.send(number).is_err() {
                    return;
                }
            }
        });
        Self(Arc::new(Mutex::new(ticks)))
    }

    async fn next(&self) -> Option<usize> {
        self.0.lock().await.recv().await
    }

    /// Ends the schedule early.
    pub(crate) async fn close(&self) {
        self.0.lock().await.close();
    }
}

#[expect(clippy::disallowed_methods, reason = "a schedule is kept by sleeping; tokio's timer is too coarse for it")]
fn sleep_until(instant: Instant) {
    std::thread::sleep(instant.saturating_duration_since(Instant::now()));
}

/// Clients that place an order with a message at each tick, and note when messages from number `from` on were committed.
pub(crate) async fn clients(
    url: &str,
    outbox: &Outbox,
    (topic, keys, from): (&'static str, usize, usize),
    ticks: &Ticks,
    committed: &Instants,
) -> Result<Vec<JoinHandle<Result<()>>>> {
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut conn = database::connect(url).await?;
        let (outbox, ticks, committed, end) = (outbox.clone(), ticks.clone(), committed.clone(), Committed::default());
        conn.set_instrumentation(outbox.commit_hook().chain(end.instrumentation()));
        clients.push(tokio::spawn(async move {
            while let Some(number) = ticks.next().await {
                let event = OrderPlaced { order_id: (number % keys) as i64, topic };
                let message_id = conn.transaction(async |conn| {
                    place_order(conn, number as i64).await?;
                    outbox.enqueue_async(conn, &event).await
                });
                let message_id = message_id.await?;
                let at = end.take().context("the instrumentation saw no COMMIT")?;
                if number >= from {
                    committed.note(message_id, at);
                }
            }
            anyhow::Ok(())
        }));
    }
    Ok(clients)
}

/// Business transactions with a message in each, relayed to Kafka.
pub(crate) async fn outbox(place: &Place, recorder: &Recorder, of: OpenLoop, topic: Topic) -> Result<(Leg, CpuShare)> {
    database::reset(&place.postgres).await?;
    let outbox = Outbox::builder().topic(topic).build().context("build the outbox")?;
    let (committed, delivered) = (Instants::default(), Instants::default());
    let transport = Timed { inner: application::kafka(&place.kafka)?, delivered: delivered.clone() };
    let relay = application::start_relay(&outbox, &place.postgres, transport).await?;
    application::owns(&relay, of.lanes).await?;
    let ticks = Ticks::start(of.messages(), of.per_second);
    recorder.reset();
    let cpu = CpuMeter::start(place.root)?;
    for client in clients(&place.postgres, &outbox, (TOPIC, of.keys, of.warm_up()), &ticks, &committed).await? {
        client.await??;
    }
    application::delivered(recorder, of.messages() as u64, Duration::from_secs(60)).await?;
    let cpu = cpu.stop()?;
    application::stop_relay(relay).await;
    let waits = committed.until(&delivered);
    ensure!(waits.len() == committed.len(), "{} of {} messages delivered", waits.len(), committed.len());
    let histogram: Vec<f64> = recorder.values(COMMIT_TO_ACK).into_iter().map(|seconds| seconds * 1e6).collect();
    Ok((leg(&waits, Waits::of(&histogram), recorder.counts())?, cpu))
}

/// A bare producer, called from the same kind of tasks.
pub(crate) async fn bare(place: &Place, of: OpenLoop) -> Result<(Leg, CpuShare)> {
    let raw = Arc::new(Raw::new(&place.kafka, TOPIC, of.messages())?);
    let ticks = Ticks::start(of.messages(), of.per_second);
    let cpu = CpuMeter::start(place.root)?;
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let (raw, ticks) = (Arc::clone(&raw), ticks.clone());
        clients.push(tokio::spawn(async move {
            let mut sent = Vec::new();
            while let Some(number) = ticks.next().await {
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
    let delivered = raw.wait(of.messages())?;
    let measured = sent.iter().filter(|(number, _)| *number >= of.warm_up());
    let waits: Vec<f64> = measured.map(|(number, at)| (delivered[*number] - at) as f64 / 1e3).collect();
    Ok((leg(&waits, None, Default::default())?, cpu.stop()?))
}

fn leg(waits: &[f64], histogram_us: Option<Waits>, counters: std::collections::BTreeMap<String, u64>) -> Result<Leg> {
    let waits_us = Waits::of(waits).context("nothing was measured")?;
    Ok(Leg { p50_us: waits_us.p50, p99_us: waits_us.p99, waits_us, histogram_us, counters })
}
