//! The application as a process, started and stopped like a deployment.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use xtask::servers::http_request::request;
use xtask::stop::Stop;

use crate::shop;
use crate::wait::until;

/// How long a start or an end may take.
const TIMEOUT: Duration = Duration::from_secs(60);
const END_TIMEOUT: Duration = Duration::from_secs(20);

/// The application. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Shop {
    pub(crate) config: shop::Config,
    child: Option<Child>,
    log: PathBuf,
    stop: Stop,
}

impl Shop {
    pub(crate) fn new(config: shop::Config, log: PathBuf, stop: &Stop) -> Self {
        Self { config, child: None, log, stop: stop.clone() }
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.config.port)
    }

    /// Starts it, if it does not run; returns when its relay lives.
    pub(crate) fn start(&mut self) -> Result<()> {
        if self.child.is_some() {
            return Ok(());
        }
        let log = File::options().create(true).append(true).open(&self.log).context("open the application's log")?;
        let mut command = Command::new(std::env::current_exe().context("find this program")?);
        command.env(shop::CONFIG, serde_json::to_string(&self.config)?);
        // Panics are wanted here, and their backtraces would fill the log.
        command.env("RUST_BACKTRACE", "0");
        // It ends when the other end of its standard input is gone, however that comes.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
        let child = self.child.insert(command.spawn().context("start the application")?);
        let address = format!("127.0.0.1:{}", self.config.port);
        let lives = until(&self.stop, TIMEOUT, "the application starts", || {
            ensure!(child.try_wait()?.is_none(), "the application ended");
            Ok(request(&address, "GET", "/livez", "").is_ok())
        });
        lives.map(drop).with_context(|| format!("its log ends with:\n{}", self.log_end()))
    }

    /// Ends it in order, or kills it after a while, as an orchestrator does. Does nothing if it does not run.
    pub(crate) fn stop(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended already.
            let _ = kill_process(pid, Signal::TERM);
        }
        let ended = until(&self.stop, END_TIMEOUT, "the application ends", || Ok(child.try_wait()?.is_some()));
        if let Err(error) = ended {
            println!("    {error:#}: killing it");
            child.kill().context("kill the application")?;
            child.wait()?;
        }
        Ok(())
    }

    /// `kill -9`. Does nothing if it does not run.
    pub(crate) fn kill9(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        child.kill().context("kill the application")?;
        child.wait().map(drop).context("reap the application")
    }

    /// Replaces it by one with this change.
    pub(crate) fn deploy(&mut self, change: impl FnOnce(&mut shop::Config)) -> Result<()> {
        self.stop()?;
        change(&mut self.config);
        self.start()
    }

    /// The last lines of its log.
    pub(crate) fn log_end(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        // Drop cannot return an error.
        let _ = self.kill9();
    }
}
