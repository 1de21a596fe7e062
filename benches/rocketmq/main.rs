//! RocketMQ: the drain of a backlog, and single messages, each against the client library alone and into the same broker.
//!
//! `cargo xtask bench --only rocketmq` starts the servers and runs this program. It is a program of its own, so that the
//! others are built without a hundred crates that they do not use.

#![expect(clippy::print_stdout, reason = "a bench reports on its standard output")]

#[path = "../outbox/cpu.rs"]
mod cpu;
#[path = "../outbox/database.rs"]
#[allow(dead_code, reason = "the other program uses all of it")]
mod database;
mod raw;
#[path = "../outbox/report.rs"]
mod report;
#[path = "../outbox/stats.rs"]
#[allow(dead_code, reason = "the other program uses all of it")]
mod stats;

#[path = "../transports/mod.rs"]
mod transports;

use std::time::Instant;

use anyhow::{Context, Result};
use diesel_outbox::Topic;
use diesel_outbox::transport::{RocketMqConfig, RocketMqTransport, Transport as _};
use tracing_subscriber::EnvFilter;

use crate::cpu::CpuMeter;
use crate::raw::Raw;
use crate::report::{Figure, Floor, Journal};
use crate::stats::Waits;
use crate::transports::{Hands, PAYLOAD_BYTES, TOPIC, drain, send_many};

const ROWS: usize = 200_000;
const SINGLES: usize = 3_000;
const SINGLES_BEFORE: usize = 1_000;
const ROUNDS: usize = 3;

#[tokio::main]
async fn main() -> Result<()> {
    let variables = ["OUTBOX_BENCH_POSTGRES_URL", "OUTBOX_BENCH_ROCKETMQ", "OUTBOX_BENCH_ROOT", "OUTBOX_BENCH_RESULTS"];
    let [Ok(postgres), Ok(rocketmq), Ok(root), Ok(results)] = variables.map(std::env::var) else {
        println!("run by `cargo xtask bench --only rocketmq`, which starts the servers");
        return Ok(());
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("error"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    database::make_tables(&postgres).await?;
    let raw = Raw::start(&rocketmq, TOPIC).await?;
    // A JVM that has compiled nothing yet is several times slower.
    raw.drain(ROWS, PAYLOAD_BYTES).await?;
    let (mut journal, root) = (Journal::start(), root.parse()?);
    let mut figures = drains(&postgres, &rocketmq, &raw, root, &mut journal).await?;
    figures.extend(singles(&rocketmq, &raw, root, &mut journal).await?);
    journal.close("rocketmq", std::path::Path::new(&results), figures)
}

async fn drains(postgres: &str, rocketmq: &str, raw: &Raw, root: u32, journal: &mut Journal) -> Result<Vec<Figure>> {
    let (mut drains, mut bare, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    let (mut sent, mut sent_shares) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let cpu = CpuMeter::start(root)?;
        let before = raw.drain(ROWS, PAYLOAD_BYTES).await?;
        let drained = drain(postgres, ROWS, transport(rocketmq)?).await?;
        let after = raw.drain(ROWS, PAYLOAD_BYTES).await?;
        let with = tokio::spawn(send_many(transport(rocketmq)?, ROWS)).await??;
        let leg = serde_json::json!({ "with": with, "drained": drained, "bare_before": before, "bare_after": after });
        journal.leg("messages a second", cpu.stop()?, leg)?;
        let floor = f64::midpoint(before, after);
        sent.push(with);
        sent_shares.push(with / floor);
        shares.push(drained / floor);
        drains.push(drained);
        bare.push(floor);
    }
    Ok(vec![
        Figure::new("bare RocketMQ client, batches of 1,000", "msg/s", bare, Floor::None),
        Figure::new("drain of 200,000 x 500 B into RocketMQ", "msg/s", drains, Floor::None),
        Figure::new("drain, share of the bare client", "", shares, Floor::AtLeast(0.7)),
        Figure::new("transport alone, 200,000 x 500 B", "msg/s", sent, Floor::None),
        Figure::new("transport alone, share of the bare client", "", sent_shares, Floor::None),
    ])
}

async fn singles(rocketmq: &str, raw: &Raw, root: u32, journal: &mut Journal) -> Result<Vec<Figure>> {
    let (mut singles, mut bare_singles, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let cpu = CpuMeter::start(root)?;
        let without = waits(raw.singles(SINGLES_BEFORE + SINGLES, PAYLOAD_BYTES).await?)?;
        let with = waits(tokio::spawn(send_singles(transport(rocketmq)?)).await??)?;
        let leg = serde_json::json!({ "p50_us": with.p50, "bare_p50_us": without.p50, "with": with, "bare": without });
        journal.leg("single messages", cpu.stop()?, leg)?;
        ratios.push(with.p50 / without.p50);
        singles.push(with.p50);
        bare_singles.push(without.p50);
    }
    Ok(vec![
        Figure::new("bare RocketMQ client, single sends, p50", "us", bare_singles, Floor::None),
        Figure::new("transport, single sends, p50", "us", singles, Floor::None),
        Figure::new("p50 of single sends, by the bare client's", "", ratios, Floor::AtMost(1.3)),
    ])
}

fn transport(name_server: &str) -> Result<RocketMqTransport> {
    Ok(RocketMqTransport::new(RocketMqConfig::new(name_server))?)
}

/// One message after the other, by the transport: microseconds each. In a task, as a relay is.
async fn send_singles(transport: RocketMqTransport) -> Result<Vec<f64>> {
    transport.prepare(&[Topic::new(TOPIC)]).await?;
    let mut hands = Hands::new();
    let mut waits = Vec::new();
    for number in 0..SINGLES_BEFORE + SINGLES {
        let started = Instant::now();
        hands.send(&transport, number);
        hands.delivered().await?;
        waits.push(started.elapsed().as_secs_f64() * 1e6);
    }
    Ok(waits)
}

fn waits(all: Vec<f64>) -> Result<Waits> {
    Waits::of(&all[SINGLES_BEFORE..]).context("nothing was measured")
}
