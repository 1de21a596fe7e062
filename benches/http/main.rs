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

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_outbox::store::{PostgresStore, RowKey};
use diesel_outbox::transport::{HttpTarget, HttpTransport, Outcome, Receipt, ReceiptSink, Transport};
use diesel_outbox::{Envelope, MessageId, Outbox, Topic};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::receiver::Receiver;
use crate::stats::Spread;

/// Bytes of a message of ordinary size.
const PAYLOAD_BYTES: usize = 500;
const MESSAGES: usize = 60_000;
const IN_FLIGHT: usize = 64;
const ROUNDS: usize = 5;
const WITHIN: Duration = Duration::from_secs(300);

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
        let with = send(&url).await?;
        let after = raw::send(&url, MESSAGES, PAYLOAD_BYTES, IN_FLIGHT).await?;
        let drained = drain(postgres, &url).await?;
        println!("  {with:.0} msg/s, drain {drained:.0}, bare reqwest: {before:.0} and {after:.0}");
        let floor = f64::midpoint(before, after);
        bare.push(floor);
        shares.push(with / floor);
        sent.push(with);
        drains.push(drained);
    }
    let mut text = String::new();
    line(&mut text, "bare reqwest, 64 in flight", "msg/s", &bare, None)?;
    line(&mut text, "HTTP transport, 64 in flight", "msg/s", &sent, None)?;
    line(&mut text, "HTTP transport, share of bare reqwest", "", &shares, Some(0.8))?;
    line(&mut text, "drain of 60,000 x 500 B by HTTP", "msg/s", &drains, None)?;
    Ok(text)
}

fn transport(url: &str) -> Result<HttpTransport> {
    Ok(HttpTransport::builder().every_topic(HttpTarget::new(url)).in_flight_per_host_max(IN_FLIGHT).build()?)
}

struct Tell(UnboundedSender<Outcome>);

impl ReceiptSink for Tell {
    fn settle(&self, _row: RowKey, outcome: Outcome) {
        // Whoever waits is there until the last one.
        let _ = self.0.send(outcome);
    }
}

/// Messages a second, by the transport, which is given as many at once as it asks a relay for.
async fn send(url: &str) -> Result<f64> {
    let transport = transport(url)?;
    let (told, mut outcomes) = unbounded_channel();
    let sink = Arc::new(Tell(told));
    let started = Instant::now();
    let (mut sent, mut answered) = (0, 0);
    while answered < MESSAGES {
        while sent < MESSAGES && sent - answered < transport.in_flight_max() {
            let mut envelope = Envelope::new(MessageId::new(), "bench".into(), std::time::UNIX_EPOCH);
            envelope.key = Some(sent.to_string());
            envelope.kind = "order.placed".to_owned();
            envelope.payload = Some(vec![b'x'; PAYLOAD_BYTES]);
            let row = RowKey { id: 0, message_id: envelope.message_id };
            transport.send(envelope, Receipt::new(row, Arc::clone(&sink) as Arc<dyn ReceiptSink>));
            sent += 1;
        }
        match outcomes.recv().await.context("an outcome")? {
            Outcome::Delivered => answered += 1,
            other => bail!("not delivered: {other:?}"),
        }
    }
    Ok(MESSAGES as f64 / started.elapsed().as_secs_f64())
}

/// Until the last row has left the table.
async fn drain(postgres: &str, url: &str) -> Result<f64> {
    database::reset(postgres).await?;
    database::fill(postgres, "bench", i64::try_from(MESSAGES)?, PAYLOAD_BYTES, 0).await?;
    let outbox = Outbox::builder().topic(Topic::new("bench")).build()?;
    let pool = Pool::builder(AsyncDieselConnectionManager::<AsyncPgConnection>::new(postgres)).max_size(6).build()?;
    let started = Instant::now();
    let relay = outbox.relay().store(PostgresStore::new(pool)).transport(transport(url)?).start().await?;
    let mut elapsed = started.elapsed();
    while database::rows_left(postgres).await? > 0 {
        ensure!(elapsed < WITHIN, "not drained after {WITHIN:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
        elapsed = started.elapsed();
    }
    relay.shutdown(Duration::from_secs(30)).await;
    Ok(MESSAGES as f64 / elapsed.as_secs_f64())
}

fn line(text: &mut String, what: &str, unit: &str, samples: &[f64], floor: Option<f64>) -> Result<()> {
    let Spread { median, min, max } = Spread::of(samples).context("nothing was measured")?;
    let digits = if unit.is_empty() { 3 } else { 0 };
    let measured = format!("{median:.digits$} {unit} ({min:.digits$}..{max:.digits$})");
    let (floor, verdict) = floor
        .map_or_else(Default::default, |floor| (format!(">= {floor}"), if median >= floor { "ok" } else { "SHORT" }));
    writeln!(text, "{what:<58} {measured:<34} {floor:<10} {verdict}")?;
    Ok(())
}
