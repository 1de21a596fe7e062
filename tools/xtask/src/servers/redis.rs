//! Redis.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::account::Account;
use super::folder::Folder;
use super::install;
use super::port::{free_port, on_free_ports};
use super::process::Server;

/// A Redis server of our own, which writes nothing to the disk: a restart loses everything. Dropping it kills it.
#[derive(Debug)]
pub struct Redis {
    server: Option<Server>,
    program: PathBuf,
    port: u16,
    folder: Folder,
}

impl Redis {
    /// Starts it; returns when it answers.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](super::Unavailable) (found by `downcast_ref`) if this machine has no Redis. Any other error: the server does not
    /// start; the message has the end of its log.
    pub fn start() -> Result<Self> {
        on_free_ports(Self::start_once)
    }

    fn start_once() -> Result<Self> {
        let program = install::redis_server()?;
        let folder = Folder::new(None, "redis", Account::current())?;
        let mut this = Self { server: None, program, port: free_port()?, folder };
        this.start_again()?;
        Ok(this)
    }

    /// `redis://127.0.0.1:port`
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The id of the server's process; `None` while it is down.
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(Server::id)
    }

    /// `kill -9`; returns when the server is gone. Does nothing if it is down.
    ///
    /// # Errors
    ///
    /// The process does not end.
    pub fn kill9(&mut self) -> Result<()> {
        self.server.take().map_or(Ok(()), Server::kill9)
    }

    /// Shuts the server down. Does nothing if it is down.
    ///
    /// # Errors
    ///
    /// It had to be killed.
    pub fn stop(&mut self) -> Result<()> {
        self.server.take().map_or(Ok(()), |server| server.stop(Signal::TERM))
    }

    /// Starts the server on its previous port, without its previous data; returns when it answers. Does nothing if it runs.
    ///
    /// # Errors
    ///
    /// It does not start; the message ends with the end of its log.
    pub fn start_again(&mut self) -> Result<()> {
        if self.server.is_some() {
            return Ok(());
        }
        let folder = self.folder.path().display().to_string();
        let (port, off) = (self.port.to_string(), String::new());
        let settings =
            [("port", &*port), ("bind", "127.0.0.1"), ("dir", &*folder), ("save", &*off), ("appendonly", "no")];
        let args: Vec<String> =
            settings.iter().flat_map(|(name, value)| [format!("--{name}"), (*value).to_owned()]).collect();
        let mut server = Server::spawn(&self.program, &args, Account::current(), &self.folder)?;
        server.wait_ready(|| self.ping().is_ok()).context("Redis does not start")?;
        self.server = Some(server);
        Ok(())
    }

    fn ping(&self) -> Result<()> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; 7];
        stream.read_exact(&mut answer)?;
        ensure!(&answer == b"+PONG\r\n", "it does not answer PING");
        Ok(())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // The data is gone with it, so an orderly end is pointless. Drop cannot return an error.
        let _ = self.kill9();
    }
}
