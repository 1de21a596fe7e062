//! RocketMQ: the drain of a backlog, and single messages, each against the client library alone and into the same broker.
//!
//! `cargo xtask bench --only rocketmq` starts the servers and runs this program. It is a program of its own, so that the
//! others are built without a hundred crates that they do not use.

#![expect(clippy::print_stdout, reason = "a bench reports on its standard output")]

#[path = "../outbox/database.rs"]
#[allow(dead_code, reason = "the other program uses all of it")]
mod database;
mod raw;
#[path = "../outbox/stats.rs"]
#[allow(dead_code, reason = "the other program uses all of it")]
mod stats;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_outbox::store::{PostgresStore, RowKey};
use diesel_outbox::transport::{Outcome, Receipt, ReceiptSink, RocketMqConfig, RocketMqTransport, Transport};
use diesel_outbox::{Envelope, MessageId, Outbox, Topic};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tracing_subscriber::EnvFilter;

use crate::raw::Raw;
use crate::stats::{Spread, Waits};

/// Bytes of a message of ordinary size.
const PAYLOAD_BYTES: usize = 500;
const ROWS: usize = 200_000;
const SINGLES: usize = 3_000;
const SINGLES_BEFORE: usize = 1_000;
const ROUNDS: usize = 3;
const WITHIN: Duration = Duration::from_secs(300);

#[tokio::main]
async fn main() -> Result<()> {
    let variables = ["OUTBOX_BENCH_POSTGRES_URL", "OUTBOX_BENCH_ROCKETMQ", "OUTBOX_BENCH_RESULTS"];
    let [Ok(postgres), Ok(rocketmq), Ok(results)] = variables.map(std::env::var) else {
        println!("run by `cargo xtask bench --only rocketmq`, which starts the servers");
        return Ok(());
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("error"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    database::make_tables(&postgres).await?;
    let raw = Raw::start(&rocketmq, "bench").await?;
    // A JVM that has compiled nothing yet is several times slower.
    raw.drain(ROWS, PAYLOAD_BYTES).await?;
    let (mut drains, mut bare, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let before = raw.drain(ROWS, PAYLOAD_BYTES).await?;
        let drained = drain(&postgres, &rocketmq).await?;
        let after = raw.drain(ROWS, PAYLOAD_BYTES).await?;
        println!("  drain: {drained:.0} msg/s, bare client in batches: {before:.0} and {after:.0}");
        let floor = f64::midpoint(before, after);
        shares.push(drained / floor);
        drains.push(drained);
        bare.push(floor);
    }
    let (mut singles, mut bare_singles, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let without = waits(raw.singles(SINGLES_BEFORE + SINGLES, PAYLOAD_BYTES).await?)?;
        let with = waits(send_singles(&rocketmq).await?)?;
        println!("  single messages, p50: {:.0} us, bare client: {:.0}", with.p50, without.p50);
        ratios.push(with.p50 / without.p50);
        singles.push(with.p50);
        bare_singles.push(without.p50);
    }
    let mut text = String::new();
    line(&mut text, "bare RocketMQ client, batches of 1,000", "msg/s", &bare, None)?;
    line(&mut text, "drain of 200,000 x 500 B into RocketMQ", "msg/s", &drains, None)?;
    line(&mut text, "drain, share of the bare client", "", &shares, Some((">=", 0.7)))?;
    line(&mut text, "bare RocketMQ client, single sends, p50", "us", &bare_singles, None)?;
    line(&mut text, "transport, single sends, p50", "us", &singles, None)?;
    line(&mut text, "p50 of single sends, by the bare client's", "", &ratios, Some(("<=", 1.3)))?;
    print!("{text}");
    std::fs::write(std::path::Path::new(&results).join("rocketmq.txt"), text).context("write the results")
}

/// Until the last row has left the table.
async fn drain(postgres: &str, rocketmq: &str) -> Result<f64> {
    database::reset(postgres).await?;
    database::fill(postgres, "bench", i64::try_from(ROWS)?, PAYLOAD_BYTES, 0).await?;
    let outbox = Outbox::builder().topic(Topic::new("bench")).build()?;
    let pool = Pool::builder(AsyncDieselConnectionManager::<AsyncPgConnection>::new(postgres)).max_size(6).build()?;
    let transport = RocketMqTransport::new(RocketMqConfig::new(rocketmq))?;
    let started = Instant::now();
    let relay = outbox.relay().store(PostgresStore::new(pool)).transport(transport).start().await?;
    let mut elapsed = started.elapsed();
    while database::rows_left(postgres).await? > 0 {
        ensure!(elapsed < WITHIN, "not drained after {WITHIN:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
        elapsed = started.elapsed();
    }
    relay.shutdown(Duration::from_secs(30)).await;
    Ok(ROWS as f64 / elapsed.as_secs_f64())
}

struct Tell(UnboundedSender<Outcome>);

impl ReceiptSink for Tell {
    fn settle(&self, _row: RowKey, outcome: Outcome) {
        // Whoever waits is there until the last one.
        let _ = self.0.send(outcome);
    }
}

/// One message after the other, by the transport: microseconds each.
async fn send_singles(rocketmq: &str) -> Result<Vec<f64>> {
    let transport = RocketMqTransport::new(RocketMqConfig::new(rocketmq))?;
    transport.prepare(&[Topic::new("bench")]).await?;
    let (told, mut outcomes) = unbounded_channel();
    let sink = Arc::new(Tell(told));
    let mut waits = Vec::new();
    for number in 0..SINGLES_BEFORE + SINGLES {
        let mut envelope = Envelope::new(MessageId::new(), "bench".into(), std::time::UNIX_EPOCH);
        envelope.key = Some(number.to_string());
        envelope.kind = "order.placed".to_owned();
        envelope.payload = Some(vec![b'x'; PAYLOAD_BYTES]);
        let row = RowKey { id: 0, message_id: envelope.message_id };
        let started = Instant::now();
        transport.send(envelope, Receipt::new(row, Arc::clone(&sink) as Arc<dyn ReceiptSink>));
        match outcomes.recv().await.context("an outcome")? {
            Outcome::Delivered => waits.push(started.elapsed().as_secs_f64() * 1e6),
            other => bail!("not delivered: {other:?}"),
        }
    }
    Ok(waits)
}

fn waits(all: Vec<f64>) -> Result<Waits> {
    Waits::of(&all[SINGLES_BEFORE..]).context("nothing was measured")
}

fn line(text: &mut String, what: &str, unit: &str, samples: &[f64], floor: Option<(&str, f64)>) -> Result<()> {
    let Spread { median, min, max } = Spread::of(samples).context("nothing was measured")?;
    let digits = if unit.is_empty() { 3 } else { 0 };
    let measured = format!("{median:.digits$} {unit} ({min:.digits$}..{max:.digits$})");
    let (floor, verdict) = floor.map_or_else(Default::default, |(relation, floor)| {
        let reached = if relation == ">=" { median >= floor } else { median <= floor };
        (format!("{relation} {floor}"), if reached { "ok" } else { "SHORT" })
    });
    writeln!(text, "{what:<58} {measured:<34} {floor:<10} {verdict}")?;
    Ok(())
}
