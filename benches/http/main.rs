//! HTTP: messages with 64 requests in flight, against plain reqwest with as many to the same server.
//!
//! `cargo xtask bench --only http` starts PostgreSQL and runs this program. The server is an axum server in its own
//! process, which is this program again.

#![expect(clippy::print_stdout, reason = "a bench reports on its standard output")]

#[path = "../outbox/cpu.rs"]
mod cpu;
#[path = "../outbox/database.rs"]
#[allow(dead_code, reason = "the other program uses all of it")]
mod database;
mod raw;
mod receiver;
#[path = "../outbox/report.rs"]
mod report;

#[path = "../transports/mod.rs"]
mod transports;

use anyhow::Result;
use diesel_outbox::transport::{HttpTarget, HttpTransport};

use crate::cpu::CpuMeter;
use crate::raw::Headers;
use crate::receiver::Receiver;
use crate::report::{Figure, LegLog, Target};
use crate::transports::{PAYLOAD_BYTES, TOPIC, drain, fill, relays_in_flight_max, send_many};

const MESSAGES: usize = 60_000;
const IN_FLIGHT: usize = 64;
const ROUNDS: usize = 5;

fn main() -> Result<()> {
    if std::env::var_os(receiver::SERVES).is_some() {
        return receiver::serve();
    }
    let variables = ["OUTBOX_BENCH_POSTGRES_URL", "OUTBOX_BENCH_ROOT", "OUTBOX_BENCH_RESULTS"];
    let [Ok(postgres), Ok(root), Ok(results)] = variables.map(std::env::var) else {
        println!("run by `cargo xtask bench --only http`, which starts the servers");
        return Ok(());
    };
    let mut leg_log = LegLog::start();
    let figures = tokio::runtime::Runtime::new()?.block_on(measure(&postgres, root.parse()?, &mut leg_log))?;
    leg_log.close("http", std::path::Path::new(&results), figures)
}

async fn measure(postgres: &str, root: u32, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    let receiver = Receiver::start()?;
    let url = receiver.url();
    database::make_tables(postgres).await?;
    let bare_of = |headers| raw::send(&url, MESSAGES, PAYLOAD_BYTES, IN_FLIGHT, headers);
    bare_of(Headers::Few).await?;
    let (mut bare_with_ours, mut shares_with_ours) = (Vec::new(), Vec::new());
    let (mut bare, mut sent, mut shares, mut drains) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let cpu = CpuMeter::start(root)?;
        let before = bare_of(Headers::Few).await?;
        let with = tokio::spawn(send_many(transport(&url)?, MESSAGES, relays_in_flight_max())).await??;
        let with_ours = bare_of(Headers::Ours).await?;
        let after = bare_of(Headers::Few).await?;
        fill(postgres, MESSAGES).await?;
        let drained = drain(postgres, MESSAGES, transport(&url)?).await?;
        let leg = serde_json::json!({ "with": with, "drained": drained, "bare_before": before,
            "bare_with_our_headers": with_ours, "bare_after": after });
        leg_log.leg("messages a second", cpu.stop()?, leg)?;
        let baseline = f64::midpoint(before, after);
        bare.push(baseline);
        bare_with_ours.push(with_ours);
        shares_with_ours.push(with / with_ours);
        shares.push(with / baseline);
        sent.push(with);
        drains.push(drained);
    }
    Ok(vec![
        Figure::new("bare reqwest, 64 in flight", "msg/s", bare, Target::None),
        Figure::new("the same, with our headers", "msg/s", bare_with_ours, Target::None),
        Figure::new("HTTP transport, 64 in flight", "msg/s", sent, Target::None),
        Figure::new("HTTP transport, share of bare reqwest", "", shares, Target::AtLeast(0.8)),
        Figure::new("HTTP transport, share of bare reqwest with our headers", "", shares_with_ours, Target::None),
        Figure::new("drain of 60,000 x 500 B by HTTP", "msg/s", drains, Target::None),
    ])
}

fn transport(url: &str) -> Result<HttpTransport> {
    Ok(HttpTransport::builder().topic(TOPIC, HttpTarget::new(url)).in_flight_per_host_max(IN_FLIGHT).build()?)
}
