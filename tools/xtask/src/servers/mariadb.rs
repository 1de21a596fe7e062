//! MariaDB.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::account::Account;
use super::folder::{Folder, random_password};
use super::install;
use super::port::{free_port, on_free_ports};
use super::process::{Server, run};

const USER: &str = "outbox";
const DATABASE: &str = "outbox";

/// When InnoDB writes and flushes its log (`innodb_flush_log_at_trx_commit`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Flush {
    /// 1: to the disk at each commit; a commit survives a crash of the machine. For benches.
    Disk,
    /// 2: to the kernel at each commit; a commit survives a crash of the server, but not of the machine. For tests.
    #[default]
    Kernel,
    /// 0: once a second; a killed server loses commits it confirmed.
    EverySecond,
}

/// How a MariaDB server is started.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// When commits are written to the log.
    pub flush: Flush,
    /// The parent folder of the data. By default the system's folder for temporary files.
    pub folder: Option<PathBuf>,
    /// Further settings, as on the command line of `mariadbd`, without the two dashes.
    pub settings: Vec<(String, String)>,
}

/// A MariaDB server of our own.
///
/// Its user has every right, and `max_connections` is 400. Dropping it kills it and removes the data.
#[derive(Debug)]
pub struct Mariadb {
    server: Option<Server>,
    program: PathBuf,
    account: Account,
    settings: Vec<String>,
    port: u16,
    password: String,
    folder: Folder,
}

impl Mariadb {
    /// Creates a data folder and starts the server; returns when it answers a query.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](super::Unavailable) (found by `downcast_ref`) if this machine has no MariaDB. Any other error: the server
    /// does not start; the message has the end of its log.
    pub fn start(options: &Options) -> Result<Self> {
        on_free_ports(|| Self::start_once(options))
    }

    fn start_once(options: &Options) -> Result<Self> {
        let program = install::mariadb_server()?;
        let account = Account::of_package(&["mysql"])?;
        let folder = Folder::new(options.folder.as_deref(), "mariadb", account)?;
        let password = random_password()?;
        let mut install = Command::new("mariadb-install-db");
        install.args(["--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal"]);
        install.arg(format!("--datadir={}", folder.path().join("data").display()));
        account.apply(&mut install, folder.path());
        run(&mut install).context("make a MariaDB data folder")?;
        folder.write("init.sql", &accounts(&password), account)?;
        let settings = settings(options);
        let mut this = Self { server: None, program, account, settings, port: free_port()?, password, folder };
        this.start_again()?;
        Ok(this)
    }

    /// `mysql://user:password@127.0.0.1:port/database`
    pub fn url(&self) -> String {
        format!("mysql://{USER}:{}@127.0.0.1:{}/{DATABASE}", self.password, self.port)
    }

    /// The port, unchanged as long as this value lives.
    pub fn port(&self) -> u16 {
        self.port
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

    /// Shuts the server down and keeps the data. Does nothing if it is down.
    ///
    /// # Errors
    ///
    /// It had to be killed.
    pub fn stop(&mut self) -> Result<()> {
        self.server.take().map_or(Ok(()), |server| server.stop(Signal::TERM))
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
        let folder = self.folder.path();
        let mut args = vec!["--no-defaults".to_owned()];
        for (name, file) in [("datadir", "data"), ("socket", "socket"), ("pid-file", "pid"), ("init-file", "init.sql")]
        {
            args.push(format!("--{name}={}", folder.join(file).display()));
        }
        args.push(format!("--port={}", self.port));
        args.extend(self.settings.iter().cloned());
        let mut server = Server::spawn(&self.program, &args, self.account, &self.folder)?;
        server.wait_ready(|| self.query("SELECT 1").is_ok()).context("MariaDB does not start")?;
        self.server = Some(server);
        Ok(())
    }

    fn query(&self, sql: &str) -> Result<String> {
        let port = format!("--port={}", self.port);
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--connect-timeout=5", "-u", USER]);
        command.args([port.as_str(), "-e", sql, DATABASE]);
        run(command.env("MYSQL_PWD", &self.password).current_dir("/"))
    }
}

impl Drop for Mariadb {
    fn drop(&mut self) {
        // The data is removed with it, so an orderly end is pointless. Drop cannot return an error.
        let _ = self.kill9();
    }
}

fn settings(options: &Options) -> Vec<String> {
    let flush = match options.flush {
        Flush::Disk => 1,
        Flush::Kernel => 2,
        Flush::EverySecond => 0,
    };
    let own = ["--bind-address=127.0.0.1", "--skip-name-resolve", "--max-connections=400", "--log-warnings=1"];
    let own = own.iter().map(|setting| (*setting).to_owned());
    let flush = format!("--innodb-flush-log-at-trx-commit={flush}");
    own.chain([flush]).chain(options.settings.iter().map(|(name, value)| format!("--{name}={value}"))).collect()
}

/// Runs at each start, before the server listens, so it must be repeatable. The accounts of the installation are removed: root has
/// no password, and the anonymous ones would take precedence over ours for a client on the same host.
fn accounts(password: &str) -> String {
    format!(
        "DELETE FROM mysql.global_priv WHERE User NOT IN ('{USER}', 'mariadb.sys');
FLUSH PRIVILEGES;
CREATE USER IF NOT EXISTS {USER}@'127.0.0.1' IDENTIFIED BY '{password}';
GRANT ALL ON *.* TO {USER}@'127.0.0.1' WITH GRANT OPTION;
CREATE DATABASE IF NOT EXISTS {DATABASE} CHARACTER SET utf8mb4;
"
    )
}
