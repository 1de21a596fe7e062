//! Business transactions on a fixed schedule (an open loop), with a message in each, and when each was committed; and
//! the same schedule for a plain producer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use diesel_async::AsyncConnection;
use diesel_outbox::internals::metrics::COMMIT_TO_ACK;
use diesel_outbox::{Outbox, Topic};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

use crate::application::{self, OrderPlaced, PAYLOAD_BYTES};
use crate::arguments::BenchEnv;
use crate::broker::BareProducer;
use crate::clients::place_order;
use crate::cpu::{CpuMeter, CpuShare};
use crate::database;
use crate::load::{CONNECTIONS, TOPIC};
use crate::recorder::Recorder;
use crate::stats::Waits;
use crate::timed::{CommitTimer, Instants, Timed};

/// How long messages are sent before the measured ones: connections, statements and the producer are warm then.
const WARM_UP: Duration = Duration::from_secs(1);
/// The share of messages that must begin while the schedule lasts.
const BEGUN_MIN: f64 = 0.98;
/// How late the last message may begin.
const LATE_MAX: Duration = Duration::from_secs(1);

/// The rate, duration, number of keys, and the lanes that the relay must own first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenLoop {
    pub(crate) per_second: f64,
    pub(crate) duration: Duration,
    pub(crate) keys: usize,
    pub(crate) lanes: u16,
}

impl OpenLoop {
    pub(crate) fn warm_up(&self) -> usize {
        (WARM_UP.as_secs_f64() * self.per_second) as usize
    }

    pub(crate) fn messages(&self) -> usize {
        self.warm_up() + ((self.duration.as_secs_f64() * self.per_second) as usize).max(1)
    }

    /// How late the measured messages began, in microseconds: the 99th percentile.
    ///
    /// # Errors
    /// Returns an error if the clients could not keep the rate: the loop was not open, and the latencies belong to a
    /// lower load.
    pub(crate) fn late_us_p99(&self, begun: &[Begun]) -> Result<f64> {
        let at = |number: usize| Duration::from_secs_f64(number as f64 / self.per_second);
        let messages = self.messages();
        let in_time = begun.iter().filter(|of| at(of.number) + of.late <= at(messages)).count();
        ensure!(
            in_time as f64 >= BEGUN_MIN * messages as f64,
            "the load could not be kept: {in_time} of {messages} messages were begun by the end of the schedule"
        );
        let last = begun.iter().max_by_key(|of| of.number).context("nothing was begun")?.late;
        ensure!(last <= LATE_MAX, "the load could not be kept: the last message was begun {last:?} late");
        let measured = begun.iter().filter(|of| of.number >= self.warm_up());
        let late: Vec<f64> = measured.map(|of| of.late.as_secs_f64() * 1e6).collect();
        Ok(Waits::of(&late).context("nothing was measured")?.p99)
    }
}

/// The result of one leg.
#[derive(Serialize)]
pub(crate) struct Leg {
    p50_us: f64,
    p99_us: f64,
    /// From a message's scheduled time to its beginning.
    late_us_p99: f64,
    pub(crate) waits_us: Waits,
    /// The relay's own histogram of the same, for comparison.
    histogram_us: Option<Waits>,
    counters: std::collections::BTreeMap<String, u64>,
}

/// The number of a message, and its scheduled time.
pub(crate) struct Tick {
    pub(crate) number: usize,
    at: Instant,
}

impl Tick {
    /// Call it right before the message's transaction, or its send, begins.
    pub(crate) fn begin(&self) -> Begun {
        Begun { number: self.number, late: self.at.elapsed() }
    }
}

/// How late a message began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    number: usize,
    late: Duration,
}

/// The numbers of messages, each handed out at its time.
#[derive(Clone)]
pub(crate) struct Ticks(Arc<Mutex<UnboundedReceiver<Tick>>>);

impl Ticks {
    /// Starts a thread that counts up on the schedule.
    pub(crate) fn start(messages: usize, per_second: f64) -> Self {
        let (sender, ticks) = unbounded_channel();
        std::thread::spawn(move || {
            let started = Instant::now();
            for number in 0..messages {
                let at = started + Duration::from_secs_f64(number as f64 / per_second);
                sleep_until(at);
                if sender.send(Tick { number, at }).is_err() {
                    return;
                }
            }
        });
        Self(Arc::new(Mutex::new(ticks)))
    }

    pub(crate) async fn next(&self) -> Option<Tick> {
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

/// Clients that place an order with a message at each tick, and note when messages from number `from` on were
/// committed. At its end each reports how late its messages began.
pub(crate) async fn clients(
    url: &str,
    outbox: &Outbox,
    (topic, keys, from): (&'static str, usize, usize),
    ticks: &Ticks,
    committed: &Instants,
) -> Result<Vec<JoinHandle<Result<Vec<Begun>>>>> {
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut conn = database::connect(url).await?;
        let (outbox, ticks, committed, end) =
            (outbox.clone(), ticks.clone(), committed.clone(), CommitTimer::default());
        conn.set_instrumentation(outbox.commit_hook().chain(end.instrumentation()));
        clients.push(tokio::spawn(async move {
            let mut begun = Vec::new();
            while let Some(tick) = ticks.next().await {
                let number = tick.number;
                begun.push(tick.begin());
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
            anyhow::Ok(begun)
        }));
    }
    Ok(clients)
}

/// Business transactions with a message in each, relayed to Kafka.
pub(crate) async fn outbox(env: &BenchEnv, recorder: &Recorder, of: OpenLoop, topic: Topic) -> Result<(Leg, CpuShare)> {
    database::reset(&env.postgres).await?;
    let outbox = Outbox::builder().topic(topic).build().context("build the outbox")?;
    let (committed, delivered) = (Instants::default(), Instants::default());
    let transport = Timed { inner: application::kafka(&env.kafka)?, delivered: delivered.clone() };
    let relay = application::start_relay(&outbox, &env.postgres, transport).await?;
    application::wait_for_lanes(&relay, of.lanes).await?;
    let ticks = Ticks::start(of.messages(), of.per_second);
    recorder.reset();
    let (cpu, mut begun) = (CpuMeter::start(env.root)?, Vec::new());
    for client in clients(&env.postgres, &outbox, (TOPIC, of.keys, of.warm_up()), &ticks, &committed).await? {
        begun.extend(client.await??);
    }
    let late_us_p99 = of.late_us_p99(&begun)?;
    application::delivered(recorder, of.messages() as u64, Duration::from_secs(60)).await?;
    let cpu = cpu.stop()?;
    application::stop_relay(relay).await;
    let waits = committed.until(&delivered);
    ensure!(waits.len() == committed.len(), "{} of {} messages delivered", waits.len(), committed.len());
    let histogram: Vec<f64> = recorder.values(COMMIT_TO_ACK).into_iter().map(|seconds| seconds * 1e6).collect();
    Ok((leg(&waits, late_us_p99, Waits::of(&histogram), recorder.counts())?, cpu))
}

/// A plain producer, called from the same kind of tasks.
pub(crate) async fn bare(env: &BenchEnv, producer: BareProducer, of: OpenLoop) -> Result<(Leg, CpuShare)> {
    let bare = Arc::new(producer);
    let ticks = Ticks::start(of.messages(), of.per_second);
    let cpu = CpuMeter::start(env.root)?;
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let (bare, ticks) = (Arc::clone(&bare), ticks.clone());
        clients.push(tokio::spawn(async move {
            let (mut sent, mut begun) = (Vec::new(), Vec::new());
            while let Some(tick) = ticks.next().await {
                let (number, payload) = (tick.number, vec![b'x'; PAYLOAD_BYTES]);
                begun.push(tick.begin());
                sent.push((number, bare.now()));
                bare.send(TOPIC, number, &number.to_string(), &payload)?;
            }
            anyhow::Ok((sent, begun))
        }));
    }
    let (mut sent, mut begun) = (Vec::new(), Vec::new());
    for client in clients {
        let (of_client, begun_by_it) = client.await??;
        sent.extend(of_client);
        begun.extend(begun_by_it);
    }
    let late_us_p99 = of.late_us_p99(&begun)?;
    let delivered = bare.wait(of.messages())?;
    let measured = sent.iter().filter(|(number, _)| *number >= of.warm_up());
    let waits: Vec<f64> = measured.map(|(number, at)| (delivered[*number] - at) as f64 / 1e3).collect();
    Ok((leg(&waits, late_us_p99, None, Default::default())?, cpu.stop()?))
}

pub(crate) fn leg(
    waits: &[f64],
    late_us_p99: f64,
    histogram_us: Option<Waits>,
    counters: std::collections::BTreeMap<String, u64>,
) -> Result<Leg> {
    let waits_us = Waits::of(waits).context("nothing was measured")?;
    Ok(Leg { p50_us: waits_us.p50, p99_us: waits_us.p99, late_us_p99, waits_us, histogram_us, counters })
}
