//! This program again, as a plain relay: to measure its memory, to run several on one table, and to be killed.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use diesel_outbox::{Limits, Outbox, Topic};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::application;
use crate::arguments::BenchEnv;
use crate::recorder::Recorder;

/// The lanes of an ordered topic here.
pub(crate) const LANES: u16 = 16;

const TIMEOUT: Duration = Duration::from_secs(600);

/// What the process relays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// An unordered topic, with the default limits.
    Plain,
    /// A topic with [`LANES`] lanes, with [`application::fast_takeover_limits`].
    OrderedFastTakeover,
    /// The same, fenced.
    FencedFastTakeover,
}

impl Role {
    const NAMES: [(&str, Self); 3] = [
        ("plain", Self::Plain),
        ("ordered-fast-takeover", Self::OrderedFastTakeover),
        ("fenced-fast-takeover", Self::FencedFastTakeover),
    ];

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, role)| *role)
    }

    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, role)| *role == self).map_or("", |(name, _)| name)
    }

    /// The topic, the same in every process.
    pub(crate) fn topic(self, name: &str) -> Topic {
        match self {
            Self::Plain => Topic::new(name),
            Self::OrderedFastTakeover => Topic::new(name).ordered_by_key().lanes(LANES),
            Self::FencedFastTakeover => Topic::new(name).ordered_by_key().lanes(LANES).fenced(),
        }
    }
}

/// The memory that a relay process reports, in KiB.
pub(crate) struct Memory {
    pub(crate) delivered: u64,
    pub(crate) rss: f64,
    pub(crate) peak: f64,
}

/// The parent's side. The process answers each line with a line.
pub(crate) struct RelayProcess {
    child: Child,
    requests: ChildStdin,
    responses: Lines<BufReader<ChildStdout>>,
}

impl RelayProcess {
    pub(crate) fn start(topic: &str, role: Role) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--role", role.name(), "--relay", topic]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().context("start the relay process")?;
        let requests = child.stdin.take().context("its input is piped")?;
        let responses = BufReader::new(child.stdout.take().context("its output is piped")?).lines();
        Ok(Self { child, requests, responses })
    }

    pub(crate) async fn memory(&mut self) -> Result<Memory> {
        self.requests.write_all(b"\n").await?;
        let response = self.responses.next_line().await?.context("the relay process ended")?;
        let mut numbers = response.split(' ').map(str::parse::<u64>);
        let mut number = || numbers.next().context("an answer has three numbers")?.context("a number");
        Ok(Memory { delivered: number()?, rss: number()? as f64, peak: number()? as f64 })
    }

    pub(crate) async fn delivered(&mut self, count: u64) -> Result<Memory> {
        let waiting = async {
            loop {
                let memory = self.memory().await?;
                if memory.delivered >= count {
                    return Ok(memory);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, waiting).await.context("the relay process did not deliver in time")?
    }

    /// Closing its input ends the process.
    pub(crate) async fn end(mut self) -> Result<()> {
        drop(self.requests);
        ensure!(self.child.wait().await?.success(), "the relay process failed");
        Ok(())
    }

    /// `kill -9`
    pub(crate) async fn kill(mut self) -> Result<()> {
        self.child.kill().await.context("kill the relay process")
    }
}

/// The relay process's side.
pub(crate) async fn run_relay(env: &BenchEnv, recorder: &Recorder, topic: &str, role: Role) -> Result<()> {
    let (kafka, limits) = match role {
        Role::Plain => (application::kafka(&env.kafka)?, Limits::default()),
        Role::OrderedFastTakeover | Role::FencedFastTakeover => {
            (application::kafka_with_short_timeout(&env.kafka)?, application::fast_takeover_limits())
        }
    };
    let outbox = Outbox::builder().topic(role.topic(topic)).build().context("build the outbox")?;
    let relay = application::start_relay_with(&outbox, &env.postgres, kafka, limits).await?;
    let mut requests = BufReader::new(tokio::io::stdin()).lines();
    while requests.next_line().await?.is_some() {
        let delivered = recorder.count(diesel_outbox::internals::metrics::DELIVERED);
        let status = std::fs::read_to_string("/proc/self/status").context("read /proc/self/status")?;
        println!("{delivered} {} {}", kib(&status, "VmRSS:")?, kib(&status, "VmHWM:")?);
    }
    application::stop_relay(relay).await;
    Ok(())
}

/// A figure of /proc/self/status.
pub(crate) fn kib(status: &str, name: &str) -> Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("no {name}"))?;
    line.trim().trim_end_matches(" kB").parse().with_context(|| format!("{name} is no number"))
}
