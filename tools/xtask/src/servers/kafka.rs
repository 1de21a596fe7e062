//! Apache Kafka: one KRaft node, broker and controller in one process, and a second broker if a test needs one.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::account::Account;
use super::folder::{Folder, random_bytes};
use super::install;
use super::java::{self, ClassArchive, Lifetime};
use super::kafka_access::Keys;
pub use super::kafka_access::{Access, Login, Sasl};
use super::kafka_wire;
use super::port::{free_port, on_free_ports};
use super::process::{Server, run};

/// How a Kafka node is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// Who may connect, and how. [`Access::Open`] by default.
    pub access: Access,
    /// `auto.create.topics.enable`. Off by default: a test of an unknown topic gets one, and a misspelled topic is an error rather
    /// than an empty topic.
    pub auto_create_topics: bool,
    /// `message.max.bytes`; by default Kafka's own (1 MiB and 12 bytes).
    pub message_max_bytes: Option<u32>,
    /// The heap of the JVM in MiB; 512 by default.
    pub heap_mib: u32,
    /// Further listeners, each given by the port of the proxy in front of it: the node tells clients to connect there.
    pub behind_proxies: Vec<u16>,
    /// The cluster to join as second node, a broker without controller; by default it is a cluster of its own.
    pub second_of: Option<Cluster>,
    /// The parent folder of the data. By default the system's folder for temporary files.
    pub folder: Option<PathBuf>,
    /// Further settings, as in `server.properties`; they override ours.
    pub settings: Vec<(String, String)>,
    /// How long it is to run.
    pub lifetime: Lifetime,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            access: Access::Open,
            auto_create_topics: false,
            message_max_bytes: None,
            heap_mib: 512,
            behind_proxies: Vec::new(),
            second_of: None,
            folder: None,
            settings: Vec::new(),
            lifetime: Lifetime::default(),
        }
    }
}

/// What a second node must know of the first one.
#[derive(Debug, Clone)]
pub struct Cluster {
    id: String,
    /// The port of its controller.
    controller: u16,
}

/// A Kafka node of our own. Topics have one replica and by default 3 partitions. Dropping it kills it and removes the data.
#[derive(Debug)]
pub struct Kafka {
    server: Option<Server>,
    java: PathBuf,
    java_options: Vec<String>,
    classes: Option<ClassArchive>,
    port: u16,
    proxied_ports: Vec<u16>,
    cluster: Cluster,
    sasl: Option<Sasl>,
    folder: Folder,
}

impl Kafka {
    /// Formats a new data folder and starts the node; returns when it answers a request.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](super::Unavailable) (found by `downcast_ref`) if this machine has no Java, or can neither find nor fetch
    /// Kafka's jars. Any other error: the node does not start; the message has the end of its log.
    pub fn start(options: &Options) -> Result<Self> {
        on_free_ports(|| Self::start_once(options))
    }

    fn start_once(options: &Options) -> Result<Self> {
        let jars = install::kafka_jars()?;
        let java = install::kafka_tools()?;
        let account = Account::current();
        let folder = Folder::new(options.folder.as_deref(), "kafka", account)?;
        let port = free_port()?;
        let keys = match options.access {
            Access::Open => None,
            Access::Sasl | Access::Acls => Some(Keys::make(&folder, free_port()?, options.access)?),
        };
        let log_config = folder.write("log4j2.properties", include_str!("../../kafka/log4j2.properties"), account)?;
        let proxied_ports = options.behind_proxies.iter().map(|_| free_port()).collect::<Result<Vec<u16>>>()?;
        let cluster = match &options.second_of {
            Some(cluster) => cluster.clone(),
            None => Cluster { id: cluster_id()?, controller: free_port()? },
        };
        let properties = properties(options, &folder, port, &proxied_ports, cluster.controller, keys.as_ref());
        let properties = folder.write("server.properties", &properties, account)?;
        let own_options = [
            format!("-Xms{heap}m", heap = options.heap_mib / 2),
            format!("-Xmx{}m", options.heap_mib),
            format!("-Djava.io.tmpdir={}", folder.path().display()),
            format!("-Dlog4j2.configurationFile={}", log_config.display()),
            "-cp".to_owned(),
            jars.join("*").display().to_string(),
        ];
        let classes = (options.lifetime == Lifetime::Seconds).then(|| ClassArchive::of(&jars, &java));
        let archive = classes.iter().map(ClassArchive::option);
        let java_options: Vec<_> =
            java::options(options.lifetime).into_iter().chain(archive).chain(own_options).collect();
        let mut format = Command::new(&java);
        format.args(&java_options).args(["kafka.tools.StorageTool", "format", "--cluster-id", &cluster.id]);
        format.arg("--config").arg(&properties).args(keys.iter().flat_map(Keys::format_arguments));
        account.apply(&mut format, folder.path());
        run(&mut format).context("format Kafka's data folder")?;
        let sasl = keys.map(Keys::into_sasl);
        let mut this = Self { server: None, java, java_options, classes, port, proxied_ports, cluster, sasl, folder };
        this.start_again()?;
        this.write_classes();
        Ok(this)
    }

    /// The address of the plain listener, for `bootstrap.servers`: no TLS, no login, every right.
    pub fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The listener with TLS and a login; `None` with [`Access::Open`].
    pub fn sasl(&self) -> Option<&Sasl> {
        self.sasl.as_ref()
    }

    /// The port of the plain listener, unchanged as long as this value lives.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The ports of the listeners behind proxies, in the order of the options.
    pub fn proxied_ports(&self) -> &[u16] {
        &self.proxied_ports
    }

    /// For [`Options::second_of`].
    pub fn cluster(&self) -> Cluster {
        self.cluster.clone()
    }

    /// The id of the node's process; `None` while it is down.
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(Server::id)
    }

    /// Program and arguments that start one of Kafka's command line tools, by its class. The first call on a machine fetches their
    /// jars through Maven.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](super::Unavailable) if Maven cannot fetch them.
    pub fn tool(&self, class: &str) -> Result<Vec<String>> {
        let jars =
            [install::kafka_tools_jars()?, install::kafka_jars()?].map(|jars| jars.join("*").display().to_string());
        let log_config = self.folder.path().join("log4j2.properties");
        let own_options = [
            format!("-Dlog4j2.configurationFile={}", log_config.display()),
            "-cp".to_owned(),
            jars.join(":"),
            class.to_owned(),
        ];
        Ok([self.java.display().to_string()]
            .into_iter()
            .chain(java::options(Lifetime::Seconds))
            .chain(own_options)
            .collect())
    }

    /// `kill -9`; returns when the node is gone. Does nothing if it is down.
    ///
    /// # Errors
    ///
    /// The process does not end.
    pub fn kill9(&mut self) -> Result<()> {
        self.server.take().map_or(Ok(()), Server::kill9)
    }

    /// Shuts the node down and keeps the data. Does nothing if it is down.
    ///
    /// # Errors
    ///
    /// It had to be killed.
    pub fn stop(&mut self) -> Result<()> {
        self.server.take().map_or(Ok(()), |server| server.stop(Signal::TERM))
    }

    /// Starts the node with its previous data and ports; returns when it answers a request. Does nothing if it runs.
    ///
    /// # Errors
    ///
    /// It does not start; the message ends with the end of its log.
    pub fn start_again(&mut self) -> Result<()> {
        if self.server.is_some() {
            return Ok(());
        }
        let properties = self.folder.path().join("server.properties").display().to_string();
        let args = self.java_options.iter().cloned().chain(["kafka.Kafka".to_owned(), properties]);
        let args: Vec<_> = args.collect();
        let mut server = Server::spawn(&self.java, &args, Account::current(), &self.folder)?;
        server.wait_ready(|| kafka_wire::responds(self.port)).context("Kafka does not start")?;
        self.server = Some(server);
        Ok(())
    }

    fn write_classes(&self) {
        let written =
            self.classes.iter().zip(self.pid()).try_for_each(|(classes, pid)| classes.write(pid, &self.folder));
        if let Err(error) = written {
            eprintln!("Kafka's next start takes as long as this one: {error:#}");
        }
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        // The data is removed with it, so an orderly end is pointless. Drop cannot return an error.
        let _ = self.kill9();
    }
}

fn properties(
    options: &Options,
    folder: &Folder,
    port: u16,
    proxied: &[u16],
    controller: u16,
    keys: Option<&Keys>,
) -> String {
    let mut text = include_str!("../../kafka/server.properties").to_owned();
    let mut set = |name: &str, value: &str| {
        // A later line overrides an earlier one.
        let _ = writeln!(text, "{name}={value}");
    };
    let (tls_listener, tls_protocol) = match keys {
        Some(keys) => (format!(",SASL_SSL://127.0.0.1:{}", keys.port()), ",SASL_SSL:SASL_SSL"),
        None => (String::new(), ""),
    };
    let (mut listeners, mut advertised, mut protocols) = (String::new(), String::new(), String::new());
    for (number, (port, proxy)) in proxied.iter().zip(&options.behind_proxies).enumerate() {
        listeners += &format!(",PROXIED{number}://127.0.0.1:{port}");
        advertised += &format!(",PROXIED{number}://127.0.0.1:{proxy}");
        protocols += &format!(",PROXIED{number}:PLAINTEXT");
    }
    set("controller.quorum.voters", &format!("1@127.0.0.1:{controller}"));
    let mut controls = format!(",CONTROLLER://127.0.0.1:{controller}");
    if options.second_of.is_some() {
        set("node.id", "2");
        set("process.roles", "broker");
        controls.clear();
    }
    set("listeners", &format!("PLAINTEXT://127.0.0.1:{port}{tls_listener}{listeners}{controls}"));
    set("advertised.listeners", &format!("PLAINTEXT://127.0.0.1:{port}{tls_listener}{advertised}"));
    set(
        "listener.security.protocol.map",
        &format!("CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT{tls_protocol}{protocols}"),
    );
    set("log.dirs", &folder.path().join("data").display().to_string());
    set("auto.create.topics.enable", if options.auto_create_topics { "true" } else { "false" });
    if let Some(bytes) = options.message_max_bytes {
        set("message.max.bytes", &bytes.to_string());
    }
    for (name, value) in keys.map(Keys::settings).unwrap_or_default() {
        set(&name, &value);
    }
    for (name, value) in &options.settings {
        set(name, value);
    }
    text
}

/// Sixteen random bytes in url-safe base64 without padding, the format of `random-uuid`; this saves starting a JVM. The first
/// letter is fixed because a leading dash would read as an option.
fn cluster_id() -> Result<String> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let letters =
        random_bytes()?.into_iter().chain(random_bytes()?).map(|byte| char::from(ALPHABET[usize::from(byte % 64)]));
    // 22 letters are 132 bits: the last one may only use the first two of its six.
    Ok(["A".to_owned(), letters.take(20).collect(), "A".to_owned()].concat())
}
