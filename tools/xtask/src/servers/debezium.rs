//! Debezium: a Kafka Connect worker in its own process, with the connector for PostgreSQL on its class path.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result};

use super::account::Account;
pub use super::debezium_connector::Connector;
use super::folder::Folder;
use super::http_request;
use super::install;
use super::java::{self, Lifetime};
use super::port::{free_port, on_free_ports};
use super::process::{Server, run};

/// How Debezium is started.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The brokers that its connectors write to.
    pub bootstrap: String,
    /// Java sources that are compiled against its jars onto its class path, such as those of transforms.
    pub sources: Vec<PathBuf>,
    /// Further settings of the worker; they override ours.
    pub settings: Vec<(String, String)>,
    /// How long it is to run.
    pub lifetime: Lifetime,
}

/// A worker of our own, initially without a connector. Dropping it kills it and removes its data.
#[derive(Debug)]
pub struct Debezium {
    server: Option<Server>,
    port: u16,
    /// Last, so that it is dropped after the process that uses it.
    _folder: Folder,
}

impl Debezium {
    /// Starts a worker; returns when it answers a request.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](super::Unavailable) (found by `downcast_ref`) if this machine has no Java, or can neither find nor fetch
    /// Debezium's jars. Any other error: a source does not compile, or the worker does not start; the message has the end of its log.
    pub fn start(options: &Options) -> Result<Self> {
        on_free_ports(|| Self::start_once(options))
    }

    fn start_once(options: &Options) -> Result<Self> {
        let jars = install::debezium_jars()?;
        let java = install::kafka_tools()?;
        let account = Account::current();
        let folder = Folder::new(None, "debezium", account)?;
        let port = free_port()?;
        let home = folder.path().display();
        let classes = folder.path().join("classes");
        if !options.sources.is_empty() {
            let mut compiler = Command::new(&java);
            compiler.args(["--module", "jdk.compiler/com.sun.tools.javac.Main", "-cp"]).arg(all_of(&jars)?);
            compiler.arg("-d").arg(&classes).args(&options.sources);
            run(&mut compiler).context("compile what Debezium loads")?;
        }
        let own = [
            ("bootstrap.servers", options.bootstrap.clone()),
            ("listeners", format!("http://127.0.0.1:{port}")),
            ("offset.storage.file.filename", format!("{home}/offsets")),
        ];
        let own = own.map(|(name, value)| (name.to_owned(), value));
        // A later line overrides an earlier one.
        let own = own.iter().chain(&options.settings);
        let mut properties = include_str!("../../debezium/worker.properties").to_owned();
        properties.extend(own.map(|(name, value)| format!("{name}={value}\n")));
        let properties = folder.write("worker.properties", &properties, account)?;
        let log_config = folder.write("log4j2.properties", include_str!("../../kafka/log4j2.properties"), account)?;
        let own_args = [
            // The young generation holds more than is in flight, so that hardly anything is copied. The collector's pauses are a tenth
            // of the connector's time.
            "-Xms512m".to_owned(),
            "-Xmx1024m".to_owned(),
            format!("-Djava.io.tmpdir={home}"),
            format!("-Dlog4j2.configurationFile={}", log_config.display()),
            "-cp".to_owned(),
            format!("{}:{}", jars.join("*").display(), classes.display()),
            "org.apache.kafka.connect.cli.ConnectStandalone".to_owned(),
            properties.display().to_string(),
        ];
        let args: Vec<_> = java::options(options.lifetime).into_iter().chain(own_args).collect();
        let server = Server::spawn(&java, &args, account, &folder)?;
        let mut this = Self { server: Some(server), port, _folder: folder };
        let address = this.address();
        let responds = || http_request::request(&address, "GET", "/connectors", "").is_ok();
        this.server.iter_mut().try_for_each(|server| server.wait_ready(responds)).context("Debezium does not start")?;
        Ok(this)
    }

    /// The address for requests, which a [`Connector`] needs.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The id of its process; `None` once it is killed.
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(Server::id)
    }
}

/// A class path of the jars in a folder: only the JVM itself expands a `*`, the compiler does not.
fn all_of(jars: &Path) -> Result<OsString> {
    let jars = fs::read_dir(jars)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    env::join_paths(jars).context("name the jars in a class path")
}

impl Drop for Debezium {
    fn drop(&mut self) {
        // Its offsets are removed with it, so an orderly end is pointless. Drop cannot return an error.
        let _ = self.server.take().map_or(Ok(()), Server::kill9);
    }
}
