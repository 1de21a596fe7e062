//! The application processes: starts, commands, stops, kills and ends them by their process ids.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin};
use tokio::time::{Instant, sleep};

use crate::fault_log::FaultLog;
use crate::wire::{CONFIG, Command, Config, Report};
use xtask::stop::Stop;

/// The longest orderly shutdown of an application: its transactions, its relay's grace period, and a margin.
pub(crate) const END_MAX: Duration = Duration::from_secs(60);

/// How often to check whether everything still runs.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Counts by name, from each process's last report.
type Counts = HashMap<u32, Vec<(String, u64)>>;

/// The reports of processes.
#[derive(Debug, Default)]
struct ReceivedReports {
    /// Those that reported that they run, and when.
    running: HashMap<u32, Instant>,
    /// Those that killed themselves at a step, and when, in milliseconds since 1970.
    died_at: HashMap<u32, u64>,
    /// Those that can report nothing more.
    ended: HashSet<u32>,
    transactions: Counts,
    metrics: Counts,
}

/// How a process ended that was told to die at a step.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Death {
    /// By itself, at this time in milliseconds since 1970.
    AtStep { at_ms: u64 },
    /// It was told to end, and did not come to the step.
    InOrder,
}

#[derive(Debug)]
struct Running {
    process: u32,
    child: Child,
    orders: ChildStdin,
    /// It was told to end, or to die at a step.
    ends: bool,
}

/// The applications of a run; they are killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Fleet {
    configs: Vec<Config>,
    running: Vec<Option<Running>>,
    lives: u32,
    /// The application that each process belonged to.
    pub(crate) applications: HashMap<u32, usize>,
    received: Arc<Mutex<ReceivedReports>>,
    fault_log: FaultLog,
    log: File,
}

impl Fleet {
    /// Applications with these configurations, not started yet. Their logs go to `log`.
    pub(crate) fn new(configs: Vec<Config>, fault_log: FaultLog, log: &Path) -> Result<Self> {
        let running = configs.iter().map(|_| None).collect();
        let log = File::create(log).with_context(|| format!("create {}", log.display()))?;
        let (applications, received) = (HashMap::new(), Arc::default());
        Ok(Self { configs, running, lives: 0, applications, received, fault_log, log })
    }

    /// Starts an application as a new process. Call it on the driver's first thread: the kernel kills a child when the
    /// thread that started it ends.
    pub(crate) fn start(&mut self, application: usize) -> Result<()> {
        if self.running[application].is_some() {
            return Ok(());
        }
        self.lives += 1;
        self.applications.insert(self.lives, application);
        let config = Config { process: self.lives, ..self.configs[application].clone() };
        let mut command = tokio::process::Command::new(std::env::current_exe()?);
        command.env(CONFIG, serde_json::to_string(&config)?).kill_on_drop(true);
        // Its own process group keeps a Ctrl-C for the driver from it.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(self.log.try_clone()?);
        let mut child = command.spawn().context("start an application")?;
        let orders = child.stdin.take().context("its input is piped")?;
        let lines = BufReader::new(child.stdout.take().context("its output is piped")?).lines();
        let (received, fault_log, process) = (Arc::clone(&self.received), self.fault_log.clone(), self.lives);
        tokio::spawn(async move {
            let mut lines = lines;
            while let Ok(Some(line)) = lines.next_line().await {
                if let Ok(report) = serde_json::from_str(&line) {
                    receive(&received, &fault_log, process, application, report);
                }
            }
            lock(&received).ended.insert(process);
        });
        self.running[application] = Some(Running { process: self.lives, child, orders, ends: false });
        Ok(())
    }

    pub(crate) async fn send(&mut self, application: usize, command: Command) -> Result<()> {
        let Some(running) = &mut self.running[application] else { return Ok(()) };
        let line = format!("{}\n", serde_json::to_string(&command)?);
        // If it has just died by itself, `check` reports that.
        let _ = running.orders.write_all(line.as_bytes()).await;
        Ok(())
    }

    /// SIGKILL; returns when it is gone.
    pub(crate) async fn kill(&mut self, application: usize) -> Result<()> {
        let Some(mut running) = self.running[application].take() else { return Ok(()) };
        // One that has just died by itself cannot be killed again.
        match running.child.try_wait()? {
            Some(_) => Ok(()),
            None => running.child.kill().await.context("kill an application"),
        }
    }

    /// SIGSTOP or SIGCONT.
    pub(crate) fn signal(&self, application: usize, signal: Signal) -> Result<()> {
        let Some(running) = &self.running[application] else { return Ok(()) };
        let Some(pid) = running.child.id().and_then(|id| Pid::from_raw(id.cast_signed())) else { return Ok(()) };
        kill_process(pid, signal).context("signal an application")
    }

    /// Whether an application's current process has reported that it runs.
    pub(crate) fn runs(&self, application: usize) -> bool {
        self.has_run_for(application).is_some()
    }

    /// The time since its current process reported that it runs.
    pub(crate) fn has_run_for(&self, application: usize) -> Option<Duration> {
        let running = self.running[application].as_ref()?;
        lock(&self.received).running.get(&running.process).map(Instant::elapsed)
    }

    /// Tells an application to end.
    pub(crate) async fn request_end(&mut self, application: usize) -> Result<()> {
        self.send(application, Command::End).await?;
        if let Some(running) = &mut self.running[application] {
            running.ends = true;
        }
        Ok(())
    }

    /// Whether an application that was told to end has ended.
    ///
    /// # Errors
    /// Returns an error if it ended with a failure, or is still there after `until`.
    pub(crate) fn has_ended(&mut self, application: usize, until: Instant) -> Result<bool> {
        let Some(running) = &mut self.running[application] else { return Ok(true) };
        let Some(status) = running.child.try_wait()? else {
            ensure!(Instant::now() < until, "an application did not end within {END_MAX:?}");
            return Ok(false);
        };
        self.running[application] = None;
        ensure!(status.success(), "an application ended with {status}: see its log");
        Ok(true)
    }

    /// Tells a process to die at a step.
    pub(crate) async fn request_death(&mut self, application: usize, step: usize) -> Result<()> {
        self.send(application, Command::CrashAt { step }).await?;
        if let Some(running) = &mut self.running[application] {
            running.ends = true;
        }
        Ok(())
    }

    /// How a process ended that was told to die at a step; `None` until it has.
    ///
    /// # Errors
    /// Returns an error if something else ended it, like a panic.
    pub(crate) fn death(&mut self, application: usize) -> Result<Option<Death>> {
        let running = self.running[application].as_mut().context("a process that is to die at a step is not there")?;
        let Some(status) = running.child.try_wait()? else { return Ok(None) };
        let received = lock(&self.received);
        let died_at = received.died_at.get(&running.process).copied();
        if died_at.is_none() && !received.ended.contains(&running.process) {
            // Its last report is still to be read.
            return Ok(None);
        }
        let death = match died_at {
            Some(at_ms) if status.signal() == Some(Signal::KILL.as_raw()) => Death::AtStep { at_ms },
            None if status.success() => Death::InOrder,
            _ => bail!("a process that was to die at a step ended elsewhere with {status}: see its log"),
        };
        drop(received);
        self.running[application] = None;
        Ok(Some(death))
    }

    /// Tells an application to end, and waits for it.
    pub(crate) async fn end(&mut self, application: usize) -> Result<()> {
        self.request_end(application).await?;
        let until = Instant::now() + END_MAX;
        while !self.has_ended(application, until)? {
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Fails if an application ended by itself.
    pub(crate) fn check(&mut self) -> Result<()> {
        for running in self.running.iter_mut().flatten().filter(|running| !running.ends) {
            if let Some(status) = running.child.try_wait()? {
                bail!("an application ended by itself with {status}: see its log");
            }
        }
        Ok(())
    }

    /// Waits, and checks meanwhile that everything still runs.
    pub(crate) async fn watch(&mut self, how_long: Duration, stop: &Stop) -> Result<()> {
        let end = Instant::now() + how_long;
        while Instant::now() < end {
            ensure!(!stop.requested(), "stopped by a signal");
            self.check()?;
            sleep(POLL_INTERVAL.min(how_long)).await;
        }
        Ok(())
    }

    /// The applications whose current process has not reported yet that it runs.
    pub(crate) fn starting(&self) -> Vec<usize> {
        let is_starting = |application: &usize| self.running[*application].is_some() && !self.runs(*application);
        (0..self.running.len()).filter(is_starting).collect()
    }

    /// Transactions by kind, as far as the applications reported them.
    pub(crate) fn transactions(&self) -> BTreeMap<String, u64> {
        sums(&lock(&self.received).transactions)
    }

    /// The library's counters over all applications, by metric.
    pub(crate) fn metrics(&self) -> BTreeMap<String, u64> {
        sums(&lock(&self.received).metrics)
    }
}

fn lock(received: &Mutex<ReceivedReports>) -> MutexGuard<'_, ReceivedReports> {
    received.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sums(counts: &Counts) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (name, count) in counts.values().flatten() {
        *sums.entry(name.clone()).or_default() += count;
    }
    sums
}

fn receive(received: &Mutex<ReceivedReports>, fault_log: &FaultLog, process: u32, application: usize, report: Report) {
    match report {
        Report::Running => {
            lock(received).running.insert(process, Instant::now());
        }
        Report::Dies { at_ms } => {
            lock(received).died_at.insert(process, at_ms);
        }
        Report::Counts { transactions, metrics } => {
            let mut received = lock(received);
            received.transactions.insert(process, transactions);
            received.metrics.insert(process, metrics);
        }
        Report::Failed { from_ms, until_ms } => fault_log.failed(application, from_ms, until_ms),
        Report::Stalled { from_ms, until_ms } => fault_log.stalled(application, from_ms, until_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_counts_of_each_process_are_summed_and_each_reports_that_it_runs() {
        let (received, fault_log) = (Mutex::new(ReceivedReports::default()), FaultLog::default());
        for (process, count) in [(1, 3), (1, 5), (2, 7)] {
            let counts = |name: &str, count| vec![(name.to_owned(), count)];
            let report = Report::Counts { transactions: counts("long", count), metrics: counts("late", 2 * count) };
            receive(&received, &fault_log, process, 0, report);
        }
        receive(&received, &fault_log, 2, 0, Report::Running);
        let received = lock(&received);
        assert_eq!(sums(&received.transactions), BTreeMap::from([("long".to_owned(), 12)]));
        assert_eq!(sums(&received.metrics), BTreeMap::from([("late".to_owned(), 24)]));
        assert!(received.running.keys().eq(&[2]));
    }
}
