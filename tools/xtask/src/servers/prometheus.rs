//! Prometheus, with given settings and rules.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::account::Account;
use super::folder::Folder;
use super::http_request;
use super::install;
use super::port::{free_port, on_free_ports};
use super::process::Server;

/// A Prometheus of our own. Dropping it kills it and removes its data.
#[derive(Debug)]
pub struct Prometheus {
    server: Option<Server>,
    program: PathBuf,
    port: u16,
    folder: Folder,
}

impl Prometheus {
    /// Starts one with this `prometheus.yml`, beside which these files stand, each with its name; returns when it is ready.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](super::Unavailable) (found by `downcast_ref`) if this machine has none. Any other error: it does not start;
    /// the message has the end of its log.
    pub fn start(settings: &str, files: &[(&str, &str)]) -> Result<Self> {
        on_free_ports(|| Self::start_once(settings, files))
    }

    fn start_once(settings: &str, files: &[(&str, &str)]) -> Result<Self> {
        let program = install::prometheus()?;
        let account = Account::current();
        let folder = Folder::new(None, "prometheus", account)?;
        for (name, text) in files.iter().chain(&[("prometheus.yml", settings)]) {
            folder.write(name, text, account)?;
        }
        let mut this = Self { server: None, program, port: free_port()?, folder };
        this.spawn()?;
        Ok(this)
    }

    fn spawn(&mut self) -> Result<()> {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        let args = [
            format!("--config.file={}", path("prometheus.yml")),
            format!("--storage.tsdb.path={}", path("data")),
            format!("--web.listen-address={}", self.address()),
            "--log.level=warn".to_owned(),
        ];
        let mut server = Server::spawn(&self.program, &args, Account::current(), &self.folder)?;
        let is_ready = || http_request::request(&self.address(), "GET", "/-/ready", "").is_ok();
        server.wait_ready(is_ready).context("Prometheus does not start")?;
        self.server = Some(server);
        Ok(())
    }

    /// Its address, for requests.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The folder with its settings.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Requests a path of its API, with the query behind it; returns the body.
    ///
    /// # Errors
    ///
    /// It does not answer, or refuses.
    pub fn get(&self, path: &str) -> Result<String> {
        http_request::request(&self.address(), "GET", path, "")
    }

    /// Ends it in order. Does nothing if it is down.
    ///
    /// # Errors
    ///
    /// It had to be killed.
    pub fn stop(&mut self) -> Result<()> {
        self.server.take().map_or(Ok(()), |server| server.stop(Signal::TERM))
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // The data is removed with it, so an orderly end is pointless. Drop cannot return an error.
        let _ = self.server.take().map_or(Ok(()), Server::kill9);
    }
}
