//! HTTP: messages with 64 requests under way, against reqwest alone with as many into the same server.
//!
//! `cargo xtask bench --only http` starts PostgreSQL and runs this program. The server is one of axum in a process of its own,
//! which is this program once more.

#![expect(clippy::print_stdout, reason = "a bench reports on its standard output")]

#[path = "../outbox/database.rs"]
#[allow(dead_code, reason = "the other program uses all of it")]
mod database;
mod raw;
mod receiver;
#[path = "../outbox/stats.rs"]
#[allow(dead_code, reason = "the other program uses all of it")]
mod stats;

#[path = "../transports/mod.rs"]
mod transports;

use anyhow::{Context, Result};
use diesel_outbox::transport::{HttpTarget, HttpTransport};

use crate::receiver::Receiver;
use crate::transports::{Bound, PAYLOAD_BYTES, drain, line, send_many};

const MESSAGES: usize = 60_000;
const IN_FLIGHT: usize = 64;
const ROUNDS: usize = 5;

fn main() -> Result<()> {
    if std::env::var_os(receiver::SERVES).is_some() {
        return receiver::serve();
    }
    let variables = ["OUTBOX_BENCH_POSTGRES_URL", "OUTBOX_BENCH_RESULTS"];
    let [Ok(postgres), Ok(results)] = variables.map(std::env::var) else {
        println!("run by `cargo xtask bench --only http`, which starts the servers");
        return Ok(());
    };
    let text = tokio::runtime::Runtime::new()?.block_on(measure(&postgres))?;
    print!("{text}");
    std::fs::write(std::path::Path::new(&results).join("http.txt"), text).context("write the results")
}

async fn measure(postgres: &str) -> Result<String> {
    let receiver = Receiver::start()?;
    let url = receiver.url();
    database::make_tables(postgres).await?;
    raw::send(&url, MESSAGES, PAYLOAD_BYTES, IN_FLIGHT).await?;
    let (mut bare, mut sent, mut shares, mut drains) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let before = raw::send(&url, MESSAGES, PAYLOAD_BYTES, IN_FLIGHT).await?;
        let with = tokio::spawn(send_many(transport(&url)?, MESSAGES)).await??;
        let after = raw::send(&url, MESSAGES, PAYLOAD_BYTES, IN_FLIGHT).await?;
        let drained = drain(postgres, MESSAGES, transport(&url)?).await?;
        println!("  {with:.0} msg/s, drain {drained:.0}, bare reqwest: {before:.0} and {after:.0}");
        let floor = f64::midpoint(before, after);
        bare.push(floor);
        shares.push(with / floor);
        sent.push(with);
        drains.push(drained);
    }
    let mut text = String::new();
    line(&mut text, "bare reqwest, 64 in flight", "msg/s", &bare, Bound::None)?;
    line(&mut text, "HTTP transport, 64 in flight", "msg/s", &sent, Bound::None)?;
    line(&mut text, "HTTP transport, share of bare reqwest", "", &shares, Bound::AtLeast(0.8))?;
    line(&mut text, "drain of 60,000 x 500 B by HTTP", "msg/s", &drains, Bound::None)?;
    Ok(text)
}

fn transport(url: &str) -> Result<HttpTransport> {
    Ok(HttpTransport::builder().every_topic(HttpTarget::new(url)).in_flight_per_host_max(IN_FLIGHT).build()?)
}
