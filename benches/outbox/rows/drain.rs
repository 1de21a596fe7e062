//! The drain of a backlog into Kafka, as a share of a plain producer's rate with the same broker: with records of key
//! and payload alone, and with the records that the relay sends.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use diesel_outbox::transport::KafkaTransport;
use diesel_outbox::{MessageId, Outbox};
use serde::Serialize;
use xtask::bench_results::short;

use crate::application::{self, PAYLOAD_BYTES};
use crate::arguments::{BenchEnv, Plan};
use crate::broker::{self, BareProducer};
use crate::cpu::{CpuMeter, CpuShare};
use crate::database;
use crate::recorder::Recorder;
use crate::report::{Figure, LegLog, Target};

/// How many messages are drained, and how often, by default.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backlog {
    rows: usize,
    rounds: usize,
}

pub(crate) const USUAL: Backlog = Backlog { rows: 300_000, rounds: 5 };
/// Shows whether the rate lasts. A round takes about a minute, most of it to write the backlog.
pub(crate) const MILLION: Backlog = Backlog { rows: 1_000_000, rounds: 3 };
const TIMEOUT: Duration = Duration::from_secs(300);

/// One drain.
#[derive(Debug, Serialize)]
pub(super) struct Drain {
    /// Until the last row had left the table.
    pub(super) messages_per_second: f64,
    seconds_to_last_ack: f64,
    /// CPU time of all processes, including database and broker.
    cpu_us_per_message: f64,
    counters: std::collections::BTreeMap<String, u64>,
}

/// The records of a plain producer.
#[derive(Debug, Clone, Copy)]
enum Records {
    /// Key and payload alone.
    Plain,
    /// Those of a relay.
    AsRelayed,
}

impl Records {
    const ALL: [Self; 2] = [Self::Plain, Self::AsRelayed];

    fn leg(self) -> &'static str {
        match self {
            Self::Plain => "bare rdkafka",
            Self::AsRelayed => "bare rdkafka, records as the relay's",
        }
    }
}

/// The settings of the relay's client.
#[derive(Debug, Clone, Copy)]
enum Client {
    Defaults,
    /// One request in flight to each broker.
    OneByOne,
}

impl Client {
    const ALL: [Self; 2] = [Self::Defaults, Self::OneByOne];

    fn leg(self) -> &'static str {
        match self {
            Self::Defaults => "drain",
            Self::OneByOne => "drain, one request at a time",
        }
    }

    fn transport(self, bootstrap: &str) -> Result<KafkaTransport> {
        match self {
            Self::Defaults => application::kafka(bootstrap),
            Self::OneByOne => application::kafka_one_by_one(bootstrap),
        }
    }
}

pub(crate) async fn run(
    backlog: Backlog,
    plan: &Plan,
    env: &BenchEnv,
    recorder: &Recorder,
    leg_log: &mut LegLog,
) -> Result<Vec<Figure>> {
    let rows = plan.messages(backlog.rows);
    let (mut drains, mut ratios) = (Client::ALL.map(|_| Vec::new()), Vec::new());
    let (mut shares, mut bares) = (Records::ALL.map(|_| Vec::new()), Records::ALL.map(|_| Vec::new()));
    for round in 0..plan.rounds(backlog.rounds) {
        let topic = format!("drain-{rows}-{round}");
        broker::make_topics(&env.kafka, &[&topic]).await?;
        let before = baselines(env, leg_log, &topic, rows)?;
        let mut rates = Client::ALL.map(|_| 0.0);
        // Each comes first as often as the other: the second one finds a warmer broker.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for number in order {
            let client = Client::ALL[number];
            database::reset(&env.postgres).await?;
            // One row in a transaction, as in the row `debezium`.
            database::fill_by_transactions(&env.postgres, "outbox_messages", &topic, rows, PAYLOAD_BYTES, 1).await?;
            let (outbox, transport) = (application::outbox(&[&topic])?, client.transport(&env.kafka)?);
            let (drain, cpu) = drained(env, recorder, outbox, transport, rows).await?;
            leg_log.leg(client.leg(), cpu, &drain)?;
            rates[number] = drain.messages_per_second;
            drains[number].push(drain.messages_per_second);
        }
        ratios.push(rates[0] / rates[1]);
        let after = baselines(env, leg_log, &topic, rows)?;
        for (number, (before, after)) in before.into_iter().zip(after).enumerate() {
            let bare = f64::midpoint(before, after);
            shares[number].push(rates[0] / bare);
            bares[number].push(bare);
        }
        broker::delete_topic(&env.kafka, &topic).await?;
    }
    let ([plain, as_relayed], [share, share_alike], [drains, one_by_one]) = (bares, shares, drains);
    let drain = format!("drain of {} x 500 B into Kafka", short(rows as f64));
    Ok(vec![
        Figure::new("bare rdkafka, linger 0", "msg/s", plain, Target::None),
        Figure::new("bare rdkafka, linger 0, records as the relay's", "msg/s", as_relayed, Target::None),
        Figure::new(drain.clone(), "msg/s", drains, Target::None),
        Figure::new(format!("{drain}, one request at a time"), "msg/s", one_by_one, Target::None),
        Figure::new("drain by defaults, of the same with one request at a time", "", ratios, Target::AtLeast(0.97)),
        // The target does not say which records, so both are compared with it. The first share includes the cost of
        // headers in librdkafka and the broker, which is not the relay's.
        Figure::new("drain, share of bare rdkafka", "", share, Target::AtLeast(0.3)),
        Figure::new("drain, share of bare rdkafka, records as the relay's", "", share_alike, Target::AtLeast(0.3)),
    ])
}

/// Messages a second of a plain producer, for each kind of [`Records`].
fn baselines(env: &BenchEnv, leg_log: &mut LegLog, topic: &str, rows: usize) -> Result<[f64; 2]> {
    let mut rates = [0.0; 2];
    for (rate, records) in rates.iter_mut().zip(Records::ALL) {
        let (bare, cpu) = bare(env, topic, rows, records)?;
        leg_log.leg(
            records.leg(),
            cpu,
            serde_json::json!({ "messages_per_second": bare, "cpu_us_per_message": cpu.own_us / rows as f64 }),
        )?;
        *rate = bare;
    }
    Ok(rates)
}

/// Drains the existing rows: from the relay's start until each is acknowledged and removed.
pub(super) async fn drained(
    env: &BenchEnv,
    recorder: &Recorder,
    outbox: Outbox,
    transport: KafkaTransport,
    rows: usize,
) -> Result<(Drain, CpuShare)> {
    recorder.reset();
    let (cpu, started) = (CpuMeter::start(env.root)?, Instant::now());
    let relay = application::start_relay(&outbox, &env.postgres, transport).await?;
    application::delivered(recorder, rows as u64, TIMEOUT).await?;
    let seconds_to_last_ack = started.elapsed().as_secs_f64();
    ensure!(relay.flush(TIMEOUT).await.is_settled(), "the relay did not settle everything it sent");
    let (elapsed, cpu) = (started.elapsed(), cpu.stop()?);
    application::stop_relay(relay).await;
    ensure!(database::rows_left(&env.postgres).await? == 0, "rows are left after the drain");
    let messages_per_second = rows as f64 / elapsed.as_secs_f64();
    let cpu_us_per_message = cpu.own_us / rows as f64;
    Ok((Drain { messages_per_second, seconds_to_last_ack, cpu_us_per_message, counters: recorder.counts() }, cpu))
}

/// Messages a second from the first send until the last acknowledgement.
fn bare(env: &BenchEnv, topic: &str, rows: usize, records: Records) -> Result<(f64, CpuShare)> {
    let bare = BareProducer::new(&env.kafka, topic, rows, &[])?;
    let (payload, mut envelope) = (vec![b'x'; PAYLOAD_BYTES], application::envelope(topic));
    // A row has its id before a drain begins.
    let ids: Vec<MessageId> = (0..rows).map(|_| MessageId::new()).collect();
    let (cpu, started) = (CpuMeter::start(env.root)?, bare.now());
    for (number, id) in ids.into_iter().enumerate() {
        let key = number.to_string();
        match records {
            Records::Plain => bare.send(topic, number, &key, &payload)?,
            Records::AsRelayed => {
                (envelope.message_id, envelope.key) = (id, Some(key));
                bare.send_as_relayed(number, &envelope)?;
            }
        }
    }
    let last = bare.wait(rows)?.into_iter().max().context("a message was sent")?;
    let elapsed = Duration::from_nanos((last - started) as u64);
    Ok((rows as f64 / elapsed.as_secs_f64(), cpu.stop()?))
}
