//! PostgreSQL.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::account::Account;
use super::folder::{Folder, random_password};
use super::install;
use super::port::{free_port, on_free_ports};
use super::process::{Server, run};
use super::server_clock::ServerClock;

const USER: &str = "outbox";
const DATABASE: &str = "outbox";

/// How a PostgreSQL server is started.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `fsync`. Off by default: commits then survive a crash of the server, but not of the machine, and tests are several times
    /// faster. Benches switch it on.
    pub fsync: bool,
    /// The parent folder of the data. By default the system's folder for temporary files.
    pub folder: Option<PathBuf>,
    /// Further settings, as in `postgresql.conf`.
    pub settings: Vec<(String, String)>,
    /// The folder of its programs. By default that of the installed server, or of the run's major.
    pub binaries: Option<PathBuf>,
    /// Whether it has its own [clock](Postgres::clock): reading that takes the server a microsecond longer.
    pub own_clock: bool,
}

/// A PostgreSQL server of our own.
///
/// Its user is a superuser, `max_connections` is 400 and `max_prepared_transactions` is 10. Dropping it kills it and
/// removes the data.
#[derive(Debug)]
pub struct Postgres {
    server: Option<Server>,
    binaries: PathBuf,
    psql: PathBuf,
    account: Account,
    settings: Vec<String>,
    clock: Option<ServerClock>,
    port: u16,
    password: String,
    folder: Folder,
}

impl Postgres {
    /// Creates a cluster and starts it; returns when it answers a query.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](super::Unavailable) (found by `downcast_ref`) if this machine has no PostgreSQL, or no libfaketime for
    /// [`Options::own_clock`]. Any other error: the server does not start; the message has the end of its log.
    pub fn start(options: &Options) -> Result<Self> {
        on_free_ports(|| Self::start_once(options))
    }

    fn start_once(options: &Options) -> Result<Self> {
        let binaries = options.binaries.clone().map_or_else(install::postgres_binaries, Ok)?;
        let psql = install::psql(&binaries)?;
        let account = Account::of_package(&["postgres"])?;
        let folder = Folder::new(options.folder.as_deref(), "postgres", account)?;
        let password = random_password()?;
        initdb(&binaries, &folder, account, &password)?;
        let settings = settings(options);
        let clock = options.own_clock.then(|| ServerClock::new(folder.path(), account)).transpose()?;
        let (server, port) = (None, free_port()?);
        let mut this = Self { server, binaries, psql, account, settings, clock, port, password, folder };
        this.start_again()?;
        this.psql("postgres", &format!("CREATE DATABASE {DATABASE}"))?;
        Ok(this)
    }

    /// `postgres://user:password@127.0.0.1:port/database`
    pub fn url(&self) -> String {
        format!("postgres://{USER}:{}@127.0.0.1:{}/{DATABASE}", self.password, self.port)
    }

    /// The port, unchanged as long as this value lives.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its clock, if it was started with [`Options::own_clock`].
    pub fn clock(&self) -> Option<ServerClock> {
        self.clock.clone()
    }

    /// The id of the server's first process; `None` while it is down.
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(Server::id)
    }

    /// `kill -9` to the server and all of its sessions; returns when all are gone. Does nothing if it is down.
    ///
    /// # Errors
    ///
    /// The processes do not end.
    pub fn kill9(&mut self) -> Result<()> {
        self.server.take().map_or(Ok(()), Server::kill9)
    }

    /// Shuts the server down ("fast": running transactions are rolled back) and keeps the data. Does nothing if it is down.
    ///
    /// # Errors
    ///
    /// It had to be killed.
    pub fn stop(&mut self) -> Result<()> {
        self.server.take().map_or(Ok(()), |server| server.stop(Signal::INT))
    }

    /// Starts the server with its previous data and port; returns when it answers a query. Does nothing if it runs.
    ///
    /// # Errors
    ///
    /// It does not start; the message ends with the end of its log.
    pub fn start_again(&mut self) -> Result<()> {
        if self.server.is_some() {
            return Ok(());
        }
        let port = format!("port={}", self.port);
        let data = self.folder.path().join("data").display().to_string();
        let args = self.settings.iter().chain([&port]).flat_map(|setting| ["-c".to_owned(), setting.clone()]);
        let program = self.binaries.join("postgres").display().to_string();
        let environment = self.clock.iter().flat_map(ServerClock::environment);
        let args: Vec<_> = environment.chain([program, "-D".to_owned(), data]).chain(args).collect();
        let mut server = Server::spawn(Path::new("/usr/bin/env"), &args, self.account, &self.folder)?;
        server.wait_ready(|| self.psql("postgres", "SELECT 1").is_ok()).context("PostgreSQL does not start")?;
        self.server = Some(server);
        Ok(())
    }

    fn psql(&self, database: &str, sql: &str) -> Result<String> {
        let port = self.port.to_string();
        let mut command = Command::new(&self.psql);
        command.args(["-X", "-q", "-A", "-t", "-h", "127.0.0.1", "-U", USER, "-d", database, "-p", &port, "-c", sql]);
        run(command.env("PGPASSWORD", &self.password).env("PGCONNECT_TIMEOUT", "5").current_dir("/"))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // The data is removed with it, so an orderly end is pointless. Drop cannot return an error.
        let _ = self.kill9();
    }
}

fn settings(options: &Options) -> Vec<String> {
    let fsync = if options.fsync { "fsync=on" } else { "fsync=off" };
    let own = ["listen_addresses=127.0.0.1", "unix_socket_directories=", fsync];
    // Every test has its own pool; PREPARE TRANSACTION is one of the ways to lose a COMMIT.
    let generous = ["max_connections=400", "max_prepared_transactions=10"];
    let own = own.iter().chain(&generous).map(|setting| (*setting).to_owned());
    own.chain(options.settings.iter().map(|(name, value)| format!("{name}={value}"))).collect()
}

/// `--auth=password` rather than scram: it is loopback only, and a debug build of a client spends 50 ms on each scram login.
fn initdb(binaries: &Path, folder: &Folder, account: Account, password: &str) -> Result<()> {
    let password_file = folder.write("password", password, account)?;
    let mut command = Command::new(binaries.join("initdb"));
    command.arg("-D").arg(folder.path().join("data")).arg("--pwfile").arg(&password_file);
    command.args(["-U", USER, "--auth=password", "--encoding=UTF8", "--locale=C", "--no-sync"]);
    account.apply(&mut command, folder.path());
    run(&mut command).context("make a PostgreSQL cluster")?;
    fs::remove_file(&password_file).context("remove the password file")
}
