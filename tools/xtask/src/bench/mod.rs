//! `cargo xtask bench`: starts the servers, measures row by row, prints the summary, writes the report.

mod disk;
mod document;
mod plot;
mod row;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use xtask::bench_results::{FAILED, Origin, RowResult};
use xtask::servers::rocketmq::{Flush, create_topic};
use xtask::servers::{Debezium, Kafka, Lifetime, Postgres, Rocketmq, debezium, kafka, rocketmq};
use xtask::stop::Stop;

use self::row::Row;
use crate::commands::{run, watch, workspace};

/// What to measure, and for how long.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// Measure only this row of the table; may be given several times
    #[arg(long, value_enum)]
    only: Vec<Row>,
    /// How long a leg takes, in rows whose legs end by time; by default as long as each needs for a steady figure (6 to 120)
    #[arg(long)]
    seconds: Option<f64>,
    /// How often each leg runs, in turns; by default 7 in traces, cloud-events and receipts, 5 in business, history, network, drain, inbox
    /// and consumer, 1 in verify, and 3 in the others. http and rocketmq ignore it
    #[arg(long)]
    rounds: Option<u32>,
    /// Messages of a backlog; by default 300,000 in drain, debezium and relays, 1,000,000 in drain-million and claim (ten times as
    /// many in its history), 20,000,000 in inbox-large, 10,000,000 in verify, 200,000 in ordered and the consumers, 100,000 in
    /// blocked. Other rows have no backlog, or, like memory, http and rocketmq, a fixed one
    #[arg(long)]
    messages: Option<u64>,
    /// Measure nothing: rewrite docs/internals/performance.md and its plots from the existing results
    #[arg(long, conflicts_with_all = ["only", "seconds", "rounds", "messages"])]
    report: bool,
}

impl Bench {
    /// Whether every row runs as long as it needs, so that the results fit the documentation.
    fn is_whole(&self) -> bool {
        self.only.is_empty() && self.seconds.is_none() && self.rounds.is_none() && self.messages.is_none()
    }

    /// What the row's program does not know about its result.
    fn origin(&self, row: Row, known: Origin) -> Origin {
        // An option that the row ignores does not make the run a different one.
        let seconds = self.seconds.filter(|_| row.is_timed());
        let rounds = self.rounds.filter(|_| row.has_rounds());
        let messages = self.messages.filter(|_| row.has_backlog());
        Origin { seconds, rounds, messages, ..known }
    }

    /// The arguments of the bench's program.
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

/// Measures, prints the table, and leaves everything in `target/bench`. The exit code reports failed rows; a figure that misses its
/// target is no failure.
///
/// # Errors
///
/// The bench does not build, Kafka is unavailable, the servers' data would not be on a disk, the report cannot be written, or a
/// signal asked us to stop.
pub(crate) fn bench(bench: &Bench, stop: &Stop) -> Result<ExitCode> {
    let results = workspace().join("target/bench");
    if bench.report {
        report(&results, commit().as_deref())?;
        return Ok(ExitCode::SUCCESS);
    }
    // Before the build: a later commit was not measured.
    let commit = commit();
    let rows = if bench.only.is_empty() { Row::value_variants() } else { &bench.only };
    fs::create_dir_all(&results).context("create the folder of the results")?;
    disk::ensure_below(&std::env::temp_dir(), "set TMPDIR to a folder on a disk")?;
    if rows.contains(&Row::Sqlite) {
        disk::ensure_below(&results, "the row sqlite has its database there, so use a checkout on a disk")?;
    }
    for &row in rows {
        ensure!(run(&mut row.program(&["--no-run"]), stop)?, "the bench does not build");
    }
    let started = Instant::now();
    let needs_kafka = rows.iter().any(|row| row.needs_kafka());
    let kafka = needs_kafka.then(start_kafka).transpose()?;
    let (mut table, mut failures) = (String::new(), Vec::new());
    for &row in rows {
        let measured = measure(bench, row, kafka.as_ref(), &results, stop);
        match measured.and_then(|result| noted(bench, row, result, commit.clone(), &results)) {
            Ok(result) => table += &result.to_string(),
            Err(error) if stop.requested() => return Err(error),
            // The other rows take more than an hour: one failed row must not lose their results.
            Err(error) => {
                let failure = format!("{}: {error:#}", row.name());
                eprintln!("error: {failure}");
                failures.push(failure);
            }
        }
    }
    println!("\n{:<66} {:<34} {:<10}", "what", "measured: median (min..max)", "target");
    print!("{table}");
    println!("{:.1} minutes in all; every leg is in {}", started.elapsed().as_secs_f64() / 60.0, results.display());
    if bench.is_whole() {
        report(&results, commit.as_deref())?;
    }
    if !failures.is_empty() {
        println!("\n{} of {} rows failed:\n  {}", failures.len(), rows.len(), failures.join("\n  "));
    }
    Ok(ExitCode::from(u8::from(!failures.is_empty())))
}

/// Adds what the row's program does not know to the result, and to its file.
fn noted(bench: &Bench, row: Row, mut result: RowResult, commit: Option<String>, results: &Path) -> Result<RowResult> {
    result.origin = Origin { commit, date: today(), ..bench.origin(row, result.origin) };
    result.write(results)?;
    Ok(result)
}

/// Measures one row, on its own database server.
fn measure(bench: &Bench, row: Row, kafka: Option<&Kafka>, results: &Path, stop: &Stop) -> Result<RowResult> {
    let database = row.start_database()?;
    let arguments = bench.arguments(row);
    let mut program = row.program(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    program.env("OUTBOX_BENCH_POSTGRES_URL", database.url());
    program.envs(kafka.filter(|_| row.needs_kafka()).map(|kafka| ("OUTBOX_BENCH_KAFKA", kafka.bootstrap())));
    let rocketmq = (row == Row::Rocketmq).then(start_rocketmq).transpose()?;
    program.envs(rocketmq.iter().map(|rocketmq| ("OUTBOX_BENCH_ROCKETMQ", rocketmq.name_server())));
    let kafka = kafka.filter(|_| row == Row::Debezium);
    let debezium = kafka.map(start_debezium).transpose()?;
    if let (Some(kafka), Some(debezium)) = (kafka, &debezium) {
        program.envs(beside(&database, kafka, debezium));
    }
    program.env("OUTBOX_BENCH_ROOT", std::process::id().to_string()).env("OUTBOX_BENCH_RESULTS", results);
    let mut why = "its program failed; see its output above".to_owned();
    let succeeded = watch(&mut program, stop, |line| {
        if let Some(message) = line.and_then(|line| line.strip_prefix(FAILED)) {
            why = message.to_owned();
        }
        Ok(())
    })?;
    ensure!(succeeded, "{why}");
    RowResult::read(results, &row.name())?.with_context(|| format!("{} wrote no result", row.name()))
}

/// The environment of the Debezium row: where its servers are, and the processes whose CPU time it separates.
fn beside(database: &Postgres, broker: &Kafka, debezium: &Debezium) -> [(&'static str, String); 4] {
    let id = |pid: Option<u32>| pid.unwrap_or_default().to_string();
    [
        ("OUTBOX_BENCH_DEBEZIUM", debezium.address()),
        ("OUTBOX_BENCH_DEBEZIUM_PID", id(debezium.pid())),
        ("OUTBOX_BENCH_POSTGRES_PID", id(database.pid())),
        ("OUTBOX_BENCH_KAFKA_PID", id(broker.pid())),
    ]
}

/// Writes the generated part of the documentation from all existing results.
fn report(results: &Path, commit: Option<&str>) -> Result<()> {
    let folder = workspace().join("docs/internals");
    let (page, plots) = (folder.join("performance.md"), folder.join("performance"));
    let (mut rows, mut measured) = (Vec::new(), Vec::new());
    for row in Row::value_variants() {
        rows.push((row.name(), row.about()));
        measured.extend(RowResult::read(results, &row.name())?);
    }
    let text = fs::read_to_string(&page).context("read docs/internals/performance.md")?;
    let text = document::rewritten(&text, &rows, &measured, commit)?;
    fs::write(&page, text).context("write docs/internals/performance.md")?;
    fs::create_dir_all(&plots).context("create the folder of the plots")?;
    for plot in measured.iter().flat_map(plot::plots) {
        fs::write(plots.join(&plot.file), &plot.svg).with_context(|| format!("write {}", plot.file))?;
    }
    println!("docs/internals/performance.md: {} of {} rows are from target/bench", measured.len(), rows.len());
    Ok(())
}

/// The current commit, with `-dirty` if files differ from it; `None` outside of a repository.
fn commit() -> Option<String> {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty", "--exclude=*", "--abbrev=7"]).current_dir(workspace());
    output_of(&mut git)
}

/// The day in UTC, from `date`: the standard library has no calendar.
fn today() -> Option<String> {
    output_of(Command::new("date").args(["-u", "+%Y-%m-%d"]))
}

/// The output of a program; `None` if it is missing or fails.
fn output_of(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// This program is not optimised, so the default lifetime would be that of a test. The same holds for the servers below.
fn start_kafka() -> Result<Kafka> {
    Kafka::start(&kafka::Options { lifetime: Lifetime::Minutes, ..kafka::Options::default() })
}

fn start_debezium(kafka: &Kafka) -> Result<Debezium> {
    let bootstrap = kafka.bootstrap();
    Debezium::start(&debezium::Options { bootstrap, lifetime: Lifetime::Minutes, ..debezium::Options::default() })
}

/// With its own default, `ASYNC_FLUSH`: the slower the disk, the less a difference between two clients would show.
fn start_rocketmq() -> Result<Rocketmq> {
    let options =
        rocketmq::Options { flush: Flush::Async, lifetime: Lifetime::Minutes, ..rocketmq::Options::default() };
    let rocketmq = Rocketmq::start(&options)?;
    create_topic(&rocketmq.name_server(), "bench")?;
    Ok(rocketmq)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_option_marks_only_rows_that_use_it() {
        let bench = Bench { only: Vec::new(), seconds: Some(2.0), rounds: Some(1), messages: Some(10), report: false };
        let origin_of = |row| {
            let Origin { seconds, rounds, messages, .. } = bench.origin(row, Origin::default());
            (seconds, rounds, messages)
        };
        assert_eq!(origin_of(Row::Business), (Some(2.0), Some(1), None));
        assert_eq!(origin_of(Row::DrainMillion), (None, Some(1), Some(10)));
        assert_eq!(origin_of(Row::Relays), (Some(2.0), Some(1), Some(10)));
        assert_eq!(origin_of(Row::Claim), (Some(2.0), Some(1), Some(10)));
        assert_eq!(origin_of(Row::Consumer), (Some(2.0), Some(1), Some(10)));
        assert_eq!(origin_of(Row::Memory), (None, Some(1), None));
        assert_eq!(origin_of(Row::Http), (None, None, None));
    }

    #[test]
    fn a_day_is_a_date() {
        let today = today().expect("the program `date`");
        let digits = |range: std::ops::Range<usize>| today[range].bytes().all(|byte| byte.is_ascii_digit());
        assert!(today.len() == 10 && digits(0..4) && digits(5..7) && digits(8..10), "{today}");
        assert_eq!((&today[4..5], &today[7..8]), ("-", "-"));
    }
}
