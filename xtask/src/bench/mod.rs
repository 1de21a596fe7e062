//! `cargo xtask bench`: starts the servers, measures row by row, sums up, writes the report.

mod document;
mod plot;
mod row;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use xtask::results::{Origin, RowResult};
use xtask::servers::rocketmq::{Flush, create_topic};
use xtask::servers::{Debezium, Kafka, Postgres, Rocketmq, kafka, rocketmq};
use xtask::stop::Stop;

use self::row::Row;
use crate::tools::{run, workspace};

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
    /// Messages of a backlog, in the rows that drain one; by default 300,000
    #[arg(long)]
    messages: Option<u64>,
    /// Measure nothing: write docs/performance.md and its plots anew, from the results that are there
    #[arg(long, conflicts_with_all = ["only", "seconds", "rounds", "messages"])]
    report: bool,
}

impl Bench {
    /// Every row as long as it needs: fit for the documentation.
    fn is_whole(&self) -> bool {
        self.only.is_empty() && self.seconds.is_none() && self.rounds.is_none() && self.messages.is_none()
    }

    /// What the row's result does not know of itself.
    fn origin(&self, row: Row, known: Origin) -> Origin {
        match row.has_fixed_length() {
            true => known,
            false => Origin { seconds: self.seconds, rounds: self.rounds, messages: self.messages, ..known },
        }
    }

    /// For the bench's program.
    fn arguments(&self, row: Row) -> Vec<String> {
        let mut arguments = vec!["--".to_owned(), "--row".to_owned(), row.name()];
        let mut add = |name: &str, value: Option<String>| {
            arguments.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
        };
        add("--seconds", self.seconds.map(|seconds| seconds.to_string()));
        add("--rounds", self.rounds.map(|rounds| rounds.to_string()));
        add("--messages", self.messages.map(|messages| messages.to_string()));
        arguments
    }
}

/// Measures, prints the table, and leaves everything in `target/bench`.
///
/// # Errors
///
/// A server cannot be had, or a leg failed. A figure below its floor is none.
pub(crate) fn bench(bench: &Bench, stop: &Stop) -> Result<ExitCode> {
    let results = workspace().join("target/bench");
    if bench.report {
        report(&results, commit().as_deref())?;
        return Ok(ExitCode::SUCCESS);
    }
    // Before the build: what is committed meanwhile was not measured.
    let commit = commit();
    let rows = if bench.only.is_empty() { Row::value_variants() } else { &bench.only };
    for &row in rows {
        ensure!(run(&mut row.program(&["--no-run"]), stop, |_| {})?, "the bench does not build");
    }
    fs::create_dir_all(&results).context("make the folder of the results")?;
    let started = Instant::now();
    let needs_kafka = rows.iter().any(|row| row.needs_kafka());
    let kafka = needs_kafka.then(|| Kafka::start(&kafka::Options::default())).transpose()?;
    let mut table = String::new();
    for &row in rows {
        let mut result = measure(bench, row, kafka.as_ref(), &results, stop)?;
        result.origin = Origin { commit: commit.clone(), ..bench.origin(row, result.origin) };
        result.write(&results)?;
        table += &result.to_string();
    }
    println!("\n{:<66} {:<34} {:<10}", "what", "measured: median (min..max)", "floor");
    print!("{table}");
    println!("{:.1} minutes in all; every leg is in {}", started.elapsed().as_secs_f64() / 60.0, results.display());
    if bench.is_whole() {
        report(&results, commit.as_deref())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One row, on a database of its own.
fn measure(bench: &Bench, row: Row, kafka: Option<&Kafka>, results: &Path, stop: &Stop) -> Result<RowResult> {
    let database = row.start_database()?;
    let arguments = bench.arguments(row);
    let mut program = row.program(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    program.env("OUTBOX_BENCH_POSTGRES_URL", database.url());
    program.envs(kafka.filter(|_| row.needs_kafka()).map(|kafka| ("OUTBOX_BENCH_KAFKA", kafka.bootstrap())));
    let rocketmq = (row == Row::Rocketmq).then(start_rocketmq).transpose()?;
    program.envs(rocketmq.iter().map(|rocketmq| ("OUTBOX_BENCH_ROCKETMQ", rocketmq.name_server())));
    let kafka = kafka.filter(|_| row == Row::Debezium);
    let debezium = kafka.map(|kafka| Debezium::start(&kafka.bootstrap())).transpose()?;
    if let (Some(kafka), Some(debezium)) = (kafka, &debezium) {
        program.envs(beside(&database, kafka, debezium));
    }
    program.env("OUTBOX_BENCH_ROOT", std::process::id().to_string()).env("OUTBOX_BENCH_RESULTS", results);
    ensure!(run(&mut program, stop, |_| {})?, "the row {} failed", row.name());
    RowResult::read(results, &row.name())?.with_context(|| format!("{} left no result", row.name()))
}

/// Where Debezium is, and the processes whose time the row tells apart.
fn beside(database: &Postgres, broker: &Kafka, debezium: &Debezium) -> [(&'static str, String); 4] {
    let id = |pid: Option<u32>| pid.unwrap_or_default().to_string();
    [
        ("OUTBOX_BENCH_DEBEZIUM", debezium.address()),
        ("OUTBOX_BENCH_DEBEZIUM_PID", id(debezium.pid())),
        ("OUTBOX_BENCH_POSTGRES_PID", id(database.pid())),
        ("OUTBOX_BENCH_KAFKA_PID", id(broker.pid())),
    ]
}

/// Writes the generated part of the documentation from every result that is there.
fn report(results: &Path, commit: Option<&str>) -> Result<()> {
    let (page, plots) = (workspace().join("docs/performance.md"), workspace().join("docs/performance"));
    let (mut rows, mut measured) = (Vec::new(), Vec::new());
    for row in Row::value_variants() {
        rows.push((row.name(), row.about()));
        measured.extend(RowResult::read(results, &row.name())?);
    }
    let text = fs::read_to_string(&page).context("read docs/performance.md")?;
    fs::write(&page, document::rewritten(&text, &rows, &measured, commit)?).context("write docs/performance.md")?;
    fs::create_dir_all(&plots).context("make the folder of the plots")?;
    for plot in measured.iter().flat_map(plot::plots) {
        fs::write(plots.join(&plot.file), &plot.svg).with_context(|| format!("write {}", plot.file))?;
    }
    println!("docs/performance.md: {} of {} rows are from target/bench", measured.len(), rows.len());
    Ok(())
}

/// The commit at hand, with `-dirty` where files differ from it; `None` outside of a repository.
fn commit() -> Option<String> {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty", "--exclude=*", "--abbrev=7"]).current_dir(workspace());
    let answer = git.output().ok().filter(|answer| answer.status.success())?;
    Some(String::from_utf8(answer.stdout).ok()?.trim().to_owned())
}

/// In its own default, `ASYNC_FLUSH`: the slower the disk, the less would a difference between two clients show.
fn start_rocketmq() -> Result<Rocketmq> {
    let options = rocketmq::Options { flush: Flush::Async, ..rocketmq::Options::default() };
    let rocketmq = Rocketmq::start(&options)?;
    create_topic(&rocketmq.name_server(), "bench")?;
    Ok(rocketmq)
}
