//! The applications as processes: started, told, stopped, killed, and ended by their ids.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin};
use tokio::time::timeout;

use crate::journal::Journal;
use crate::wire::{CONFIG, Command, Config, Report};

/// The longest that an application may take for its orderly end: its transactions, its relay's grace, and some.
const END: Duration = Duration::from_secs(60);

/// Transactions by kind, as each process told them last.
type Heard = HashMap<u32, Vec<(String, u64)>>;

#[derive(Debug)]
struct Running {
    child: Child,
    orders: ChildStdin,
}

/// The applications of a run; killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Fleet {
    configs: Vec<Config>,
    running: Vec<Option<Running>>,
    lives: u32,
    /// Which application a process was a life of.
    pub(crate) applications: HashMap<u32, usize>,
    heard: Arc<Mutex<Heard>>,
    journal: Journal,
    log: File,
}

impl Fleet {
    /// Applications with these configurations, not started yet. Their logs go to `log`.
    pub(crate) fn new(configs: Vec<Config>, journal: Journal, log: &Path) -> Result<Self> {
        let running = configs.iter().map(|_| None).collect();
        let log = File::create(log).with_context(|| format!("make {}", log.display()))?;
        let (applications, heard) = (HashMap::new(), Arc::default());
        Ok(Self { configs, running, lives: 0, applications, heard, journal, log })
    }

    /// Starts an application as a new process. On the driver's first thread: the kernel ends a child with the thread that
    /// started it.
    pub(crate) fn start(&mut self, application: usize) -> Result<()> {
        if self.running[application].is_some() {
            return Ok(());
        }
        self.lives += 1;
        self.applications.insert(self.lives, application);
        let config = Config { process: self.lives, ..self.configs[application].clone() };
        let mut command = tokio::process::Command::new(std::env::current_exe()?);
        command.env(CONFIG, serde_json::to_string(&config)?).kill_on_drop(true);
        // A group of its own keeps a Ctrl-C meant for the driver from it.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(self.log.try_clone()?);
        let mut child = command.spawn().context("start an application")?;
        let orders = child.stdin.take().context("its input is piped")?;
        let lines = BufReader::new(child.stdout.take().context("its output is piped")?).lines();
        let (heard, journal, process) = (Arc::clone(&self.heard), self.journal.clone(), self.lives);
        tokio::spawn(async move {
            let mut lines = lines;
            while let Ok(Some(line)) = lines.next_line().await {
                if let Ok(report) = serde_json::from_str(&line) {
                    hear(&heard, &journal, process, application, report);
                }
            }
        });
        self.running[application] = Some(Running { child, orders });
        Ok(())
    }

    pub(crate) async fn tell(&mut self, application: usize, command: Command) -> Result<()> {
        let Some(running) = &mut self.running[application] else { return Ok(()) };
        let line = format!("{}\n", serde_json::to_string(&command)?);
        // One that has just died by itself is noticed elsewhere.
        let _ = running.orders.write_all(line.as_bytes()).await;
        Ok(())
    }

    /// SIGKILL; returns when it is gone.
    pub(crate) async fn kill(&mut self, application: usize) -> Result<()> {
        let Some(mut running) = self.running[application].take() else { return Ok(()) };
        running.child.kill().await.context("kill an application")
    }

    pub(crate) fn signal(&self, application: usize, signal: Signal) -> Result<()> {
        let id = self.running[application].as_ref().and_then(|running| running.child.id());
        let Some(pid) = id.and_then(|id| Pid::from_raw(id.cast_signed())) else { return Ok(()) };
        kill_process(pid, signal).context("signal an application")
    }

    /// Tells an application to end and waits for it.
    pub(crate) async fn end(&mut self, application: usize) -> Result<()> {
        self.tell(application, Command::End).await?;
        let Some(mut running) = self.running[application].take() else { return Ok(()) };
        let status = timeout(END, running.child.wait()).await.context("an application does not end")??;
        ensure!(status.success(), "an application ended with {status}: see its log");
        Ok(())
    }

    /// Fails where an application ended that nobody had ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        for running in self.running.iter_mut().flatten() {
            if let Some(status) = running.child.try_wait()? {
                anyhow::bail!("an application ended by itself with {status}: see its log");
            }
        }
        Ok(())
    }

    /// Transactions by kind, as far as the applications came to tell.
    pub(crate) fn transactions(&self) -> BTreeMap<String, u64> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sums = BTreeMap::new();
        for (kind, count) in heard.values().flatten() {
            *sums.entry(kind.clone()).or_default() += count;
        }
        sums
    }
}

fn hear(heard: &Mutex<Heard>, journal: &Journal, process: u32, application: usize, report: Report) {
    match report {
        Report::Transactions(counts) => {
            heard.lock().unwrap_or_else(PoisonError::into_inner).insert(process, counts);
        }
        Report::Failed { from_ms, until_ms } => journal.failed(application, from_ms, until_ms),
        Report::Stalled { from_ms, until_ms } => journal.stalled(application, from_ms, until_ms),
    }
}
