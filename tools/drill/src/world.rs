//! Everything that a drill breaks and heals: the servers, the application, and what stands in for people and their jobs.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use xtask::servers::{Kafka, Postgres, Prometheus};
use xtask::stop::Stop;

use crate::blocks::Environment;
use crate::receiver::Receiver;
use crate::shop_process::Shop;
use crate::wait::until;
use crate::{alerts, tables};

/// The queue of a healthy application, which is the library's default.
pub(crate) const QUEUE_ROWS_MAX: usize = 16_384;

/// Alerts that may outlast the fault that set them off: those on long windows, and the one on the count of the backlog. A relay pauses
/// for fifty times as long as a count took, also in a drill.
const SLOW_TO_CLEAR: [&str; 3] = ["OutboxBudgetBurnsFast", "OutboxBudgetBurnsSlowly", "OutboxBacklogNotCounted"];

/// Everything that runs. Dropping it stops it and removes its data.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) shop: Mutex<Shop>,
    pub(crate) kafka: Mutex<Kafka>,
    pub(crate) postgres: Mutex<Postgres>,
    pub(crate) prometheus: Prometheus,
    pub(crate) receiver: Receiver,
    pub(crate) cleanup: Mutex<Option<Session>>,
    pub(crate) environment: Environment,
    pub(crate) stop: Stop,
    pub(crate) database_url: String,
    /// With the log and the commands. Last, so that it is dropped after those who use it.
    pub(crate) _folder: TempDir,
}

/// A session of somebody's in the database: `psql` that keeps its connection. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Session(Child);

impl Drop for Session {
    fn drop(&mut self) {
        // It may have ended with its connection.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

impl World {
    pub(crate) fn shop(&self) -> MutexGuard<'_, Shop> {
        self.shop.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn kafka(&self) -> MutexGuard<'_, Kafka> {
        self.kafka.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn postgres(&self) -> MutexGuard<'_, Postgres> {
        self.postgres.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs SQL as the owner of the tables; returns what it printed.
    pub(crate) fn psql(&self, sql: &str) -> Result<String> {
        psql(&self.database_url, sql)
    }

    /// Opens a session that runs this, and then stays open.
    pub(crate) fn session(&self, name: &str, sql: &str) -> Result<Session> {
        let mut command = Command::new("psql");
        command.args(["-X", "-q", &self.database_url]).env("PGAPPNAME", name);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("run psql")?;
        writeln!(child.stdin.as_mut().context("piped above")?, "{sql}").context("begin a session")?;
        Ok(Session(child))
    }

    /// Waits until a query's first value is true.
    pub(crate) fn until_sql(&self, deadline: Duration, what: &str, sql: &str) -> Result<()> {
        until(&self.stop, deadline, what, || Ok(self.psql(sql)?.trim() == "t")).map(drop)
    }

    /// A job that removes rows which it takes for old.
    pub(crate) fn start_cleanup(&self) -> Result<()> {
        let session = self.session("outbox-cleanup", "DELETE FROM outbox_messages \\watch 0.02")?;
        *self.cleanup.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
        Ok(())
    }

    pub(crate) fn stop_cleanup(&self) {
        *self.cleanup.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Halts the broker, as a machine does that swaps, or lets it go on.
    pub(crate) fn halt_kafka(&self, is_halted: bool) -> Result<()> {
        let pid = self.kafka().pid().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)).context("Kafka runs")?;
        kill_process(pid, if is_halted { Signal::STOP } else { Signal::CONT }).context("signal Kafka")
    }

    /// Runs one of Kafka's tools.
    pub(crate) fn kafka_tool(&self, class: &str, arguments: &[&str]) -> Result<()> {
        let words = self.kafka().tool(class)?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["--bootstrap-server", &self.kafka().bootstrap()]).args(arguments);
        let output = command.output().context("run a tool of Kafka")?;
        ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
        Ok(())
    }

    /// Whether everything works: nothing is paused, dead, parked or late, and no alert fires but those that are slow to clear.
    pub(crate) fn is_healthy(&self) -> Result<bool> {
        let late = "SELECT NOT EXISTS (SELECT 1 FROM outbox_messages WHERE created_at < now() - interval '15 seconds')
                    AND NOT EXISTS (SELECT 1 FROM outbox_dead_letters) AND NOT EXISTS (SELECT 1 FROM outbox_paused_topics)
                    AND NOT EXISTS (SELECT 1 FROM outbox_parked)";
        let mut firing = alerts::firing_names(&self.prometheus)?;
        firing.retain(|name| !SLOW_TO_CLEAR.contains(&name.as_str()));
        Ok(firing.is_empty() && self.psql(late)?.trim() == "t")
    }

    /// Undoes what a drill that failed has left.
    pub(crate) fn restore(&self) -> Result<()> {
        self.postgres().start_again()?;
        self.kafka().start_again()?;
        self.halt_kafka(false)?;
        self.receiver.recover();
        self.stop_cleanup();
        self.psql(&[tables::RIGHTS, tables::CLEAN].concat())?;
        self.shop().deploy(|config| (config.bug, config.queue_rows_max) = (None, QUEUE_ROWS_MAX))
    }
}

/// Runs SQL; returns what it printed.
pub(crate) fn psql(url: &str, sql: &str) -> Result<String> {
    let mut command = Command::new("psql");
    command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", url]).env("PGCONNECT_TIMEOUT", "5");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("run psql")?;
    child.stdin.take().context("piped above")?.write_all(sql.as_bytes()).context("pass on SQL")?;
    let output = child.wait_with_output().context("wait for psql")?;
    ensure!(output.status.success(), "{sql}\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
