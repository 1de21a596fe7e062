//! `cargo xtask bench`: starts the servers, measures row by row, sums up.

use std::fs;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use xtask::servers::rocketmq::{Flush, create_topic};
use xtask::servers::{Kafka, Postgres, Rocketmq, kafka, postgres, rocketmq};
use xtask::stop::Stop;

use crate::tools::{cargo, run, workspace};

/// What to measure, and for how long.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// Measure only this row of the table; may be given several times
    #[arg(long, value_enum)]
    only: Vec<Row>,
    /// How long a leg takes; by default what each row needs for a steady figure (10 to 60)
    #[arg(long)]
    seconds: Option<f64>,
    /// How often each leg is run, in turns; by default 5 or 3, and 1 for idle
    #[arg(long)]
    rounds: Option<u32>,
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Row {
    /// Business transactions a second, with and without outbox
    Business,
    /// The same where what was sent is kept, against where it is deleted
    History,
    /// The same with a message table written by hand, and with a hundred messages in each transaction
    ByHand,
    /// The same with 1 ms more of round trip to the database
    Network,
    /// A backlog into Kafka, against bare rdkafka
    Drain,
    /// A backlog of an ordered topic, against one that is not
    Ordered,
    /// From COMMIT to the broker's acknowledgement, against bare rdkafka
    Latency,
    /// The relay's memory during a drain
    Memory,
    /// Statements of a relay without work
    Idle,
    /// A backlog and single messages into RocketMQ, against its bare client; builds a hundred crates more
    Rocketmq,
    /// Messages by HTTP, 64 at once, against bare reqwest
    Http,
}

impl Row {
    fn name(self) -> &'static str {
        match self {
            Self::Business => "business",
            Self::History => "history",
            Self::ByHand => "by-hand",
            Self::Network => "network",
            Self::Drain => "drain",
            Self::Ordered => "ordered",
            Self::Latency => "latency",
            Self::Memory => "memory",
            Self::Idle => "idle",
            Self::Rocketmq => "rocketmq",
            Self::Http => "http",
        }
    }

    fn program(self, arguments: &[&str]) -> Command {
        let mut command = cargo(&["bench", "--quiet", "--package", "diesel-outbox"]);
        match self {
            Self::Rocketmq => command.args(["--bench", "rocketmq", "--features", "rocketmq"]),
            Self::Http => command.args(["--bench", "http"]),
            _ => command.args(["--bench", "outbox"]),
        };
        command.args(arguments);
        command
    }

    fn database(self) -> postgres::Options {
        let mut settings = vec![
            // One checkpoint before each leg, none of the server's own in the middle of one.
            ("max_wal_size", "16GB"),
            ("checkpoint_timeout", "1d"),
        ];
        if self == Self::Idle {
            settings.push(("shared_preload_libraries", "pg_stat_statements"));
        }
        let settings = settings.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        postgres::Options { fsync: true, folder: None, settings }
    }

    /// A new server for each row: nothing of an earlier one, neither bloat nor full logs, is left to the next.
    fn start_database(self) -> Result<Postgres> {
        let options = self.database();
        match Postgres::start(&options) {
            // Not every distribution has the extension in the server's package; the row then counts transactions.
            Err(_) if self == Self::Idle => Postgres::start(&postgres::Options { settings: Vec::new(), ..options }),
            started => started,
        }
    }
}

/// Measures, prints the table, and leaves everything in `target/bench`.
///
/// # Errors
///
/// A server cannot be had, or a leg failed. A figure below its floor is none.
pub(crate) fn bench(bench: &Bench, stop: &Stop) -> Result<ExitCode> {
    let rows = if bench.only.is_empty() { Row::value_variants() } else { &bench.only };
    for &row in rows {
        ensure!(run(&mut row.program(&["--no-run"]), stop, |_| {})?, "the bench does not build");
    }
    let results = workspace().join("target/bench");
    fs::create_dir_all(&results).context("make the folder of the results")?;
    let needs_kafka = rows.iter().any(|row| !matches!(row, Row::Rocketmq | Row::Http));
    let kafka = needs_kafka.then(|| Kafka::start(&kafka::Options::default())).transpose()?;
    let mut table = String::new();
    for &row in rows {
        let database = row.start_database()?;
        let mut arguments = vec!["--".to_owned(), "--row".to_owned(), row.name().to_owned()];
        arguments.extend(bench.seconds.iter().flat_map(|seconds| ["--seconds".to_owned(), seconds.to_string()]));
        arguments.extend(bench.rounds.iter().flat_map(|rounds| ["--rounds".to_owned(), rounds.to_string()]));
        let mut program = row.program(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        program.env("OUTBOX_BENCH_POSTGRES_URL", database.url());
        program.envs(kafka.iter().map(|kafka| ("OUTBOX_BENCH_KAFKA", kafka.bootstrap())));
        let rocketmq = (row == Row::Rocketmq).then(start_rocketmq).transpose()?;
        program.envs(rocketmq.iter().map(|rocketmq| ("OUTBOX_BENCH_ROCKETMQ", rocketmq.name_server())));
        program.env("OUTBOX_BENCH_ROOT", std::process::id().to_string()).env("OUTBOX_BENCH_RESULTS", &results);
        ensure!(run(&mut program, stop, |_| {})?, "the row {} failed", row.name());
        let text = fs::read_to_string(results.join(row.name()).with_extension("txt")).context("read a row's result")?;
        table += &text;
    }
    println!("\n{:<58} {:<34} {:<10}", "what", "measured: median (min..max)", "floor");
    print!("{table}");
    println!("every leg is in {}", results.display());
    Ok(ExitCode::SUCCESS)
}

/// In its own default, `ASYNC_FLUSH`: the slower the disk, the less would a difference between two clients show.
fn start_rocketmq() -> Result<Rocketmq> {
    let options = rocketmq::Options { flush: Flush::Async, ..rocketmq::Options::default() };
    let rocketmq = Rocketmq::start(&options)?;
    create_topic(&rocketmq.name_server(), "bench")?;
    Ok(rocketmq)
}
