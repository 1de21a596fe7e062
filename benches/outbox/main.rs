//! How fast the outbox is, and how much memory it takes: ratios against a floor that is measured in the same run.
//!
//! `cargo xtask bench` starts the servers, runs this program once for each row of the table, and sums up.

#![expect(clippy::print_stdout, reason = "a bench reports on its standard output")]

mod application;
mod arguments;
mod broker;
mod by_hand;
mod clients;
mod cpu;
mod database;
mod debezium;
mod due;
mod explain;
mod hook_by_hand;
mod load;
mod open_loop;
mod proxy;
mod ratios;
mod reader;
mod recorder;
mod relay_process;
mod report;
mod rows;
mod sides;
mod stats;
mod timed;

use anyhow::Result;
use tracing_subscriber::EnvFilter;
use xtask::results::FAILED;

use crate::arguments::{Place, Plan, Row, Task};
use crate::recorder::Recorder;
use crate::report::{Figure, Journal};

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
        // Also where `cargo xtask bench` reads: it goes on with the other rows, and says at its end why this one failed.
        Task::Measure(plan) => {
            measure(&plan, &place, &recorder).await.inspect_err(|error| println!("{FAILED}{error:#}"))
        }
        Task::Relay(topic, role) => relay_process::be_relay(&place, &recorder, &topic, role).await,
        Task::Explain => Ok(()),
    }
}

async fn measure(plan: &Plan, place: &Place, recorder: &Recorder) -> Result<()> {
    let mut journal = Journal::start();
    database::make_tables(&place.postgres).await?;
    if !place.kafka.is_empty() {
        broker::warm_up(&place.kafka).await?;
    }
    let figures = figures(plan, place, recorder, &mut journal).await?;
    journal.close(plan.row.name(), &place.results, figures)
}

async fn figures(plan: &Plan, place: &Place, recorder: &Recorder, journal: &mut Journal) -> Result<Vec<Figure>> {
    match plan.row {
        Row::Business => rows::business::run(plan, place, recorder, journal).await,
        Row::History => rows::history::run(plan, place, recorder, journal).await,
        Row::ByHand => rows::by_hand::run(plan, place, recorder, journal).await,
        Row::Network => rows::network::run(plan, place, recorder, journal).await,
        Row::Drain => rows::drain::run(rows::drain::USUAL, plan, place, recorder, journal).await,
        Row::DrainMillion => rows::drain::run(rows::drain::MILLION, plan, place, recorder, journal).await,
        Row::Debezium => rows::debezium::run(plan, place, recorder, journal).await,
        Row::Ordered => rows::ordered::run(plan, place, recorder, journal).await,
        Row::Latency => rows::latency::run(plan, place, recorder, journal).await,
        Row::OrderedLatency => rows::ordered_latency::run(plan, place, recorder, journal).await,
        Row::Delayed => rows::delayed::run(plan, place, recorder, journal).await,
        Row::Blocked => rows::blocked::run(plan, place, recorder, journal).await,
        Row::Takeover => rows::takeover::run(plan, place, journal).await,
        Row::Recovery => rows::recovery::run(plan, place, recorder, journal).await,
        Row::Claim => rows::claim::run(plan, place, recorder, journal).await,
        Row::Relays => rows::relays::run(plan, place, recorder, journal).await,
        Row::Cost => rows::cost::run(plan, place, recorder, journal).await,
        Row::Memory => rows::memory::run(plan, place, journal).await,
        Row::Idle => rows::idle::run(plan, place, journal).await,
        Row::Mariadb => rows::elsewhere::mariadb(plan, place, recorder, journal).await,
        Row::Sqlite => rows::elsewhere::sqlite(plan, place, recorder, journal).await,
    }
}
