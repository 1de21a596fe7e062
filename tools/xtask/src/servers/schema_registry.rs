//! A schema registry: Apicurio, by the interface that it shares with Confluent's. Its data is in memory.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::account::Account;
use super::folder::Folder;
use super::http_request;
use super::install;
use super::java::{self, Lifetime};
use super::port::{free_port, on_free_ports};
use super::process::Server;

/// The path of the interface that other registries have too.
const PATH: &str = "/apis/ccompat/v7";

/// A registry of our own, initially without a subject. Dropping it kills it.
#[derive(Debug)]
pub struct SchemaRegistry {
    server: Option<Server>,
    java: PathBuf,
    program: PathBuf,
    port: u16,
    folder: Folder,
}

impl SchemaRegistry {
    /// Starts one; returns when it answers a request.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](super::Unavailable) (found by `downcast_ref`) if this machine has no Java, or can neither find nor fetch the
    /// registry. Any other error: it does not start; the message has the end of its log.
    pub fn start() -> Result<Self> {
        on_free_ports(Self::start_once)
    }

    fn start_once() -> Result<Self> {
        let program = install::apicurio()?;
        let java = install::java(install::ServerKind::SchemaRegistry)?;
        let folder = Folder::new(None, "schema-registry", Account::current())?;
        let mut this = Self { server: None, java, program, port: free_port()?, folder };
        this.spawn()?;
        Ok(this)
    }

    fn spawn(&mut self) -> Result<()> {
        let own_args = [
            "-Xmx384m".to_owned(),
            format!("-Djava.io.tmpdir={}", self.folder.path().display()),
            "-Dquarkus.http.host=127.0.0.1".to_owned(),
            format!("-Dquarkus.http.port={}", self.port),
            "-Dquarkus.management.host=127.0.0.1".to_owned(),
            format!("-Dquarkus.management.port={}", free_port()?),
            "-jar".to_owned(),
            self.program.display().to_string(),
        ];
        let args: Vec<_> = java::options(Lifetime::Seconds).into_iter().chain(own_args).collect();
        let mut server = Server::spawn(&self.java, &args, Account::current(), &self.folder)?;
        let path = format!("{PATH}/subjects");
        let is_ready = || http_request::request(&self.address(), "GET", &path, "").is_ok();
        server.wait_ready(is_ready).context("Apicurio does not start")?;
        self.server = Some(server);
        Ok(())
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address())
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Requests a path of its interface with this method and body; returns the body of the answer.
    ///
    /// # Errors
    ///
    /// It does not answer, or refuses.
    pub fn request(&self, method: &str, path: &str, body: &str) -> Result<String> {
        http_request::request(&self.address(), method, &format!("{PATH}{path}"), body)
    }

    /// Kills it with its data. Does nothing if it is down.
    ///
    /// # Errors
    ///
    /// It cannot be killed.
    pub fn kill9(&mut self) -> Result<()> {
        self.server.take().map_or(Ok(()), Server::kill9)
    }
}

impl Drop for SchemaRegistry {
    fn drop(&mut self) {
        // Its data is gone with it, so an orderly end is pointless. Drop cannot return an error.
        let _ = self.server.take().map_or(Ok(()), Server::kill9);
    }
}
