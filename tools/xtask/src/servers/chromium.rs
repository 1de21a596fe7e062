//! Chromium, driven by its WebDriver server.

use anyhow::{Context, Result};

use super::account::Account;
use super::folder::Folder;
use super::install;
use super::port::{free_port, on_free_ports};
use super::process::Server;

/// A chromedriver of our own, which starts a browser for each session. Dropping it kills both.
#[derive(Debug)]
pub struct Chromium {
    server: Option<Server>,
    port: u16,
    _folder: Folder,
}

impl Chromium {
    /// Starts it; returns when it answers.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](super::Unavailable) if Chromium or its driver is missing; or it does not start, and the message ends with the
    /// end of its log.
    pub fn start() -> Result<Self> {
        on_free_ports(Self::start_once)
    }

    fn start_once() -> Result<Self> {
        let (program, account) = (install::chromedriver()?, Account::current());
        let folder = Folder::new(None, "chromium", account)?;
        let port = free_port()?;
        let mut server = Server::spawn(&program, &[format!("--port={port}")], account, &folder)?;
        let responds = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        server.wait_ready(responds).context("chromedriver does not start")?;
        Ok(Self { server: Some(server), port, _folder: folder })
    }

    /// The URL of its WebDriver server.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // Drop cannot return an error.
        let _ = self.server.take().map(Server::kill9);
    }
}
