//! RocketMQ: many messages through the transport alone, the drain of a backlog, and single messages, each against the
//! plain client library with the same broker.
//!
//! `cargo xtask bench --only rocketmq` starts the servers and runs this program. It is a separate program, so that the
//! others build without two hundred crates that they do not use.

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
use diesel_outbox::Limits;
use diesel_outbox::Topic;
use diesel_outbox::transport::{RocketMqConfig, RocketMqTransport, Transport as _};
use serde::Serialize;
use tracing_subscriber::EnvFilter;

use crate::cpu::CpuMeter;
use crate::raw::{BareClient, Properties};
use crate::report::{Figure, LegLog, Target};
use crate::stats::Waits;
use crate::transports::{PAYLOAD_BYTES, TOPIC, TestSender, drain, fill, relays_in_flight_max, send_many};

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
    let raw = BareClient::start(&rocketmq, TOPIC).await?;
    // A JVM that has compiled nothing yet is several times slower.
    raw.drain(ROWS, PAYLOAD_BYTES, Properties::Few).await?;
    raw.drain(ROWS, PAYLOAD_BYTES, Properties::Ours).await?;
    let (mut leg_log, root) = (LegLog::start(), root.parse()?);
    let mut figures = drains(&postgres, &rocketmq, &raw, root, &mut leg_log).await?;
    figures.extend(singles(&rocketmq, &raw, root, &mut leg_log).await?);
    leg_log.close("rocketmq", std::path::Path::new(&results), figures)
}

/// Messages a second of one round.
#[derive(Debug, Serialize)]
struct Round {
    bare: f64,
    bare_with_our_properties: f64,
    transport: f64,
    transport_by_claims: f64,
    drained: f64,
}

async fn drains(
    postgres: &str,
    rocketmq: &str,
    raw: &BareClient,
    root: u32,
    leg_log: &mut LegLog,
) -> Result<Vec<Figure>> {
    let (mut rounds, mut shares) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let cpu = CpuMeter::start(root)?;
        let before = baselines(raw).await?;
        let sending = send_many(connect(rocketmq)?, ROWS, relays_in_flight_max());
        let transport = tokio::spawn(sending).await??;
        let sending = send_many(connect(rocketmq)?, ROWS, claims_in_flight_max());
        let transport_by_claims = tokio::spawn(sending).await??;
        let between = cpu.stop()?;
        fill(postgres, ROWS).await?;
        let cpu = CpuMeter::start(root)?;
        let drained = drain(postgres, ROWS, connect(rocketmq)?).await?;
        let draining = cpu.stop()?;
        let after = baselines(raw).await?;
        let [bare, bare_with_our_properties] = [0, 1].map(|which| f64::midpoint(before[which], after[which]));
        let round = Round { bare, bare_with_our_properties, transport, transport_by_claims, drained };
        leg_log.leg("messages a second", between, &round)?;
        let [database, broker] = [draining.database, draining.java].map(|of| of / draining.own);
        let of_own = serde_json::json!({ "drained": drained, "database": database, "broker": broker });
        leg_log.leg("drain, shares of its processor time", draining, of_own)?;
        rounds.push(round);
        shares.push([database, broker]);
    }
    let all = |of: fn(&Round) -> f64| rounds.iter().map(of).collect::<Vec<_>>();
    let [database, broker] = [0, 1].map(|which| shares.iter().map(|shares| shares[which]).collect::<Vec<_>>());
    let wanted = Target::AtLeast(0.7);
    Ok(vec![
        Figure::new("bare RocketMQ client, batches of 1,000", "msg/s", all(|of| of.bare), Target::None),
        Figure::new("the same, with our properties", "msg/s", all(|of| of.bare_with_our_properties), Target::None),
        Figure::new("transport alone, 200,000 x 500 B", "msg/s", all(|of| of.transport), Target::None),
        Figure::new("transport alone, share of the bare client", "", all(|of| of.transport / of.bare), wanted),
        Figure::new(
            "transport alone, share of the bare client with our properties",
            "",
            all(|of| of.transport / of.bare_with_our_properties),
            wanted,
        ),
        Figure::new(
            "transport alone, no more in flight than a drain has, share of the bare client",
            "",
            all(|of| of.transport_by_claims / of.bare),
            Target::None,
        ),
        Figure::new("drain from PostgreSQL, 200,000 x 500 B", "msg/s", all(|of| of.drained), Target::None),
        Figure::new("drain, share of the bare client", "", all(|of| of.drained / of.bare), Target::None),
        Figure::new("drain, PostgreSQL's share of its processor time", "", database, Target::None),
        Figure::new("drain, the broker's share of its processor time", "", broker, Target::None),
    ])
}

/// The plain client's rates: with few properties, and with ours.
async fn baselines(raw: &BareClient) -> Result<[f64; 2]> {
    let few = raw.drain(ROWS, PAYLOAD_BYTES, Properties::Few).await?;
    Ok([few, raw.drain(ROWS, PAYLOAD_BYTES, Properties::Ours).await?])
}

async fn singles(rocketmq: &str, raw: &BareClient, root: u32, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    let (mut singles, mut bare_singles, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let cpu = CpuMeter::start(root)?;
        let without = waits(raw.singles(SINGLES_BEFORE + SINGLES, PAYLOAD_BYTES).await?)?;
        let with = waits(tokio::spawn(send_singles(connect(rocketmq)?)).await??)?;
        let leg = serde_json::json!({ "p50_us": with.p50, "bare_p50_us": without.p50, "with": with, "bare": without });
        leg_log.leg("single messages", cpu.stop()?, leg)?;
        ratios.push(with.p50 / without.p50);
        singles.push(with.p50);
        bare_singles.push(without.p50);
    }
    Ok(vec![
        Figure::new("bare RocketMQ client, single sends, p50", "us", bare_singles, Target::None),
        Figure::new("transport, single sends, p50", "us", singles, Target::None),
        Figure::new("p50 of single sends, by the bare client's", "", ratios, Target::AtMost(1.3)),
    ])
}

/// The most messages that a relay has in flight while it drains a backlog: those of all open claims.
fn claims_in_flight_max() -> usize {
    let limits = Limits::default();
    limits.claim_rows_max * limits.claim_workers
}

fn connect(name_server: &str) -> Result<RocketMqTransport> {
    Ok(RocketMqTransport::new(RocketMqConfig::new(name_server))?)
}

/// One message after the other, through the transport: microseconds each. In a task, as a relay is.
async fn send_singles(transport: RocketMqTransport) -> Result<Vec<f64>> {
    transport.prepare(&[Topic::new(TOPIC)]).await?;
    let sender = TestSender::new();
    let mut waits = Vec::new();
    for number in 0..SINGLES_BEFORE + SINGLES {
        let started = Instant::now();
        sender.send(&transport, number);
        sender.delivered(number + 1).await?;
        waits.push(started.elapsed().as_secs_f64() * 1e6);
    }
    Ok(waits)
}

fn waits(all: Vec<f64>) -> Result<Waits> {
    Waits::of(&all[SINGLES_BEFORE..]).context("nothing was measured")
}
