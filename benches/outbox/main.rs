//! The speed and memory of the outbox: ratios to a baseline that is measured in the same run.
//!
//! `cargo xtask bench` starts the servers, runs this program once for each row of the table, and prints a summary.

#![expect(clippy::print_stdout, reason = "a bench reports on its standard output")]

mod application;
mod arguments;
mod broker;
mod by_hand;
mod clients;
mod consuming;
mod cpu;
mod cpu_breakdown;
mod database;
mod debezium;
mod due;
mod explain;
mod handwritten_hook;
mod load;
mod open_loop;
mod proxy;
mod ratios;
mod reader;
mod receipts;
mod recorder;
mod relay_process;
mod report;
mod rows;
mod stats;
mod timed;
mod traces;
mod turns;

use anyhow::Result;
use tracing_subscriber::EnvFilter;
use xtask::bench_results::FAILED;

use crate::arguments::{BenchEnv, Plan, Row, Task};
use crate::recorder::Recorder;
use crate::report::{Figure, LegLog};

#[tokio::main]
async fn main() -> Result<()> {
    let task = Task::parse(std::env::args().skip(1))?;
    if let Task::Explain = task {
        println!("run by `cargo xtask bench`, which starts the servers");
        return Ok(());
    }
    let env = BenchEnv::of_environment()?;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let recorder = Recorder::install()?;
    match task {
        // Printed where `cargo xtask bench` reads it: it goes on with the other rows, and reports at its end why this
        // one failed.
        Task::Measure(plan) => measure(&plan, &env, &recorder).await.inspect_err(|error| println!("{FAILED}{error:#}")),
        Task::Relay(topic, role) => relay_process::run_relay(&env, &recorder, &topic, role).await,
        Task::Verify(topic) => {
            println!("{}", rows::verify::compare(&env, &topic).await?);
            Ok(())
        }
        Task::Explain => Ok(()),
    }
}

async fn measure(plan: &Plan, env: &BenchEnv, recorder: &Recorder) -> Result<()> {
    let mut leg_log = LegLog::start();
    database::make_tables(&env.postgres).await?;
    if !env.kafka.is_empty() {
        broker::warm_up(&env.kafka).await?;
    }
    let figures = figures(plan, env, recorder, &mut leg_log).await?;
    leg_log.close(plan.row.name(), &env.results, figures)
}

async fn figures(plan: &Plan, env: &BenchEnv, recorder: &Recorder, leg_log: &mut LegLog) -> Result<Vec<Figure>> {
    match plan.row {
        Row::Business => rows::business::run(plan, env, recorder, leg_log).await,
        Row::History => rows::history::run(plan, env, recorder, leg_log).await,
        Row::ByHand => rows::by_hand::run(plan, env, recorder, leg_log).await,
        Row::Network => rows::network::run(plan, env, recorder, leg_log).await,
        Row::Drain => rows::drain::run(rows::drain::USUAL, plan, env, recorder, leg_log).await,
        Row::DrainMillion => rows::drain::run(rows::drain::MILLION, plan, env, recorder, leg_log).await,
        Row::DistantBroker => rows::distant_broker::run(plan, env, leg_log).await,
        Row::Debezium => rows::debezium::run(plan, env, recorder, leg_log).await,
        Row::Ordered => rows::ordered::run(plan, env, recorder, leg_log).await,
        Row::Latency => rows::latency::run(plan, env, recorder, leg_log).await,
        Row::OrderedLatency => rows::ordered_latency::run(plan, env, recorder, leg_log).await,
        Row::Delayed => rows::delayed::run(plan, env, recorder, leg_log).await,
        Row::Blocked => rows::blocked::run(plan, env, recorder, leg_log).await,
        Row::Takeover => rows::takeover::run(plan, env, leg_log).await,
        Row::Recovery => rows::recovery::run(plan, env, recorder, leg_log).await,
        Row::Claim => rows::claim::run(plan, env, recorder, leg_log).await,
        Row::CloudEvents => rows::cloud_events::run(plan, env, recorder, leg_log).await,
        Row::Receipts => rows::receipts::run(plan, env, recorder, leg_log).await,
        Row::Traces => rows::traces::run(plan, env, recorder, leg_log).await,
        Row::Relays => rows::relays::run(plan, env, recorder, leg_log).await,
        Row::Cost => rows::cost::run(plan, env, recorder, leg_log).await,
        Row::Inbox => rows::inbox::run(plan, env, leg_log).await,
        Row::InboxLarge => rows::inbox::run_large(plan, env, leg_log).await,
        Row::Consumer => rows::consumer::run(plan, env, recorder, leg_log).await,
        Row::ConsumerCopies => rows::consumer::run_copies(plan, env, recorder, leg_log).await,
        Row::ConsumerKeys => rows::consumer::run_keys(plan, env, recorder, leg_log).await,
        Row::ConsumerBatches => rows::consumer::run_batches(plan, env, recorder, leg_log).await,
        Row::Verify => rows::verify::run(plan, env, leg_log).await,
        Row::Memory => rows::memory::run(plan, env, leg_log).await,
        Row::Idle => rows::idle::run(plan, env, leg_log).await,
        Row::Mariadb => rows::other_databases::mariadb(plan, env, recorder, leg_log).await,
        Row::Sqlite => rows::other_databases::sqlite(plan, env, recorder, leg_log).await,
    }
}
