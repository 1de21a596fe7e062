//! How fast the outbox is, and how much memory it takes: ratios against a floor that is measured in the same run.
//!
//! `cargo xtask bench` starts the servers, runs this program once for each row of the table, and sums up.

#![expect(clippy::print_stdout, reason = "a bench reports on its standard output")]

mod application;
mod arguments;
mod broker;
mod by_hand;
mod cpu;
mod database;
mod load;
mod proxy;
mod ratios;
mod recorder;
mod report;
mod rows;
mod stats;
mod timed;

use anyhow::Result;
use tracing_subscriber::EnvFilter;

use crate::arguments::{Place, Plan, Row, Task};
use crate::recorder::Recorder;
use crate::report::Journal;
use crate::rows::{business, drain, idle, latency, memory, network, ordered};

#[tokio::main]
async fn main() -> Result<()> {
    let task = Task::parse(std::env::args().skip(1))?;
    if let Task::Explain = task {
        println!("run by `cargo xtask bench`, which starts the servers");
        return Ok(());
    }
    let place = Place::of_environment()?;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let recorder = Recorder::install()?;
    match task {
        Task::Measure(plan) => measure(&plan, &place, &recorder).await,
        Task::Relay(topic) => memory::be_relay(&place, &recorder, &topic).await,
        Task::Explain => Ok(()),
    }
}

async fn measure(plan: &Plan, place: &Place, recorder: &Recorder) -> Result<()> {
    let mut journal = Journal::default();
    database::make_tables(&place.postgres).await?;
    if plan.row != Row::Idle {
        broker::warm_up(&place.kafka).await?;
    }
    let figures = match plan.row {
        Row::Business => business::run(plan, place, recorder, &mut journal).await,
        Row::History => rows::history::run(plan, place, recorder, &mut journal).await,
        Row::ByHand => rows::by_hand::run(plan, place, recorder, &mut journal).await,
        Row::Network => network::run(plan, place, recorder, &mut journal).await,
        Row::Drain => drain::run(plan, place, recorder, &mut journal).await,
        Row::Ordered => ordered::run(plan, place, recorder, &mut journal).await,
        Row::Latency => latency::run(plan, place, recorder, &mut journal).await,
        Row::Memory => memory::run(plan, place, &mut journal).await,
        Row::Idle => idle::run(plan, place, &mut journal).await,
    };
    journal.close(plan.row, place, &figures?)
}
