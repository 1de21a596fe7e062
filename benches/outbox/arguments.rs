//! The input from `cargo xtask bench`: arguments say what to run, variables say where.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::relay_process::Role;

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Row {
    Business,
    History,
    Traces,
    CloudEvents,
    Receipts,
    ByHand,
    Network,
    Drain,
    DrainMillion,
    DistantBroker,
    Debezium,
    Ordered,
    Latency,
    Memory,
    Idle,
    OrderedLatency,
    Delayed,
    Blocked,
    Takeover,
    Recovery,
    Claim,
    Relays,
    Cost,
    Inbox,
    InboxLarge,
    Consumer,
    ConsumerCopies,
    ConsumerKeys,
    ConsumerBatches,
    Verify,
    Mariadb,
    Sqlite,
}

impl Row {
    const ALL: [(&str, Self); 32] = [
        ("business", Self::Business),
        ("history", Self::History),
        ("traces", Self::Traces),
        ("cloud-events", Self::CloudEvents),
        ("receipts", Self::Receipts),
        ("by-hand", Self::ByHand),
        ("network", Self::Network),
        ("drain", Self::Drain),
        ("drain-million", Self::DrainMillion),
        ("distant-broker", Self::DistantBroker),
        ("debezium", Self::Debezium),
        ("ordered", Self::Ordered),
        ("latency", Self::Latency),
        ("memory", Self::Memory),
        ("idle", Self::Idle),
        ("ordered-latency", Self::OrderedLatency),
        ("delayed", Self::Delayed),
        ("blocked", Self::Blocked),
        ("takeover", Self::Takeover),
        ("recovery", Self::Recovery),
        ("claim", Self::Claim),
        ("relays", Self::Relays),
        ("cost", Self::Cost),
        ("inbox", Self::Inbox),
        ("inbox-large", Self::InboxLarge),
        ("consumer", Self::Consumer),
        ("consumer-copies", Self::ConsumerCopies),
        ("consumer-keys", Self::ConsumerKeys),
        ("consumer-batches", Self::ConsumerBatches),
        ("verify", Self::Verify),
        ("mariadb", Self::Mariadb),
        ("sqlite", Self::Sqlite),
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, row)| *row == self).map_or("", |(name, _)| name)
    }
}

/// The task of this process.
#[derive(Debug)]
pub(crate) enum Task {
    /// Measure one row.
    Measure(Plan),
    /// Be a relay of this topic for a row.
    Relay(String, Role),
    /// Compare this topic with its history for a row.
    Verify(String),
    /// Nothing was asked for: the program was not started by `cargo xtask bench`.
    Explain,
}

/// Which row, for how long and how often. The row chooses what is not given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) row: Row,
    seconds: Option<f64>,
    rounds: Option<usize>,
    messages: Option<usize>,
}

impl Plan {
    /// How long one leg is measured.
    pub(crate) fn duration(&self, seconds: f64) -> Duration {
        Duration::from_secs_f64(self.seconds.unwrap_or(seconds))
    }

    /// How often each leg is run.
    pub(crate) fn rounds(&self, rounds: usize) -> usize {
        self.rounds.unwrap_or(rounds).max(1)
    }

    /// How many messages a backlog has.
    pub(crate) fn messages(&self, messages: usize) -> usize {
        self.messages.unwrap_or(messages).max(1)
    }
}

impl Task {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let (mut row, mut seconds, mut rounds, mut messages, mut role) = (None, None, None, None, Role::Plain);
        while let Some(argument) = arguments.next() {
            if argument == "--bench" || argument == "--test" {
                continue; // cargo's own
            }
            let value = arguments.next().with_context(|| format!("{argument} needs a value"))?;
            match argument.as_str() {
                "--row" => {
                    let known = Row::ALL.into_iter().find(|(name, _)| *name == value);
                    row = Some(known.with_context(|| format!("no row is called {value}"))?.1);
                }
                "--seconds" => seconds = Some(value.parse().context("--seconds is a number")?),
                "--rounds" => rounds = Some(value.parse().context("--rounds is a number")?),
                "--messages" => messages = Some(value.parse().context("--messages is a number")?),
                "--role" => role = Role::parse(&value).with_context(|| format!("no role is called {value}"))?,
                "--relay" => return Ok(Self::Relay(value, role)),
                "--verify" => return Ok(Self::Verify(value)),
                _ => bail!("unknown argument {argument}"),
            }
        }
        Ok(row.map_or(Self::Explain, |row| Self::Measure(Plan { row, seconds, rounds, messages })))
    }
}

/// The servers, and where the results go.
#[derive(Debug, Clone)]
pub(crate) struct BenchEnv {
    pub(crate) postgres: String,
    /// Empty for a row without Kafka.
    pub(crate) kafka: String,
    /// This process and its descendants count as ours when CPU is measured.
    pub(crate) root: u32,
    pub(crate) results: PathBuf,
    /// For the row that also measures Debezium.
    pub(crate) debezium: Option<DebeziumEnv>,
}

/// A Debezium, and the first process of each side.
#[derive(Debug, Clone)]
pub(crate) struct DebeziumEnv {
    pub(crate) address: String,
    pub(crate) pid: u32,
    pub(crate) database_pid: u32,
    pub(crate) broker_pid: u32,
}

impl BenchEnv {
    pub(crate) fn of_environment() -> Result<Self> {
        let variable = |name: &str| std::env::var(name).with_context(|| format!("{name} is not set"));
        let id = |name: &str| variable(name)?.parse().with_context(|| format!("{name} is a process id"));
        let debezium_env = |address: String| {
            let (database_pid, broker_pid) = (id("OUTBOX_BENCH_POSTGRES_PID")?, id("OUTBOX_BENCH_KAFKA_PID")?);
            anyhow::Ok(DebeziumEnv { address, pid: id("OUTBOX_BENCH_DEBEZIUM_PID")?, database_pid, broker_pid })
        };
        Ok(Self {
            postgres: variable("OUTBOX_BENCH_POSTGRES_URL")?,
            kafka: variable("OUTBOX_BENCH_KAFKA").unwrap_or_default(),
            root: id("OUTBOX_BENCH_ROOT")?,
            results: variable("OUTBOX_BENCH_RESULTS")?.into(),
            debezium: variable("OUTBOX_BENCH_DEBEZIUM").ok().map(debezium_env).transpose()?,
        })
    }
}
