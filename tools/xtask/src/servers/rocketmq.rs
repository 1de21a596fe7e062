//! Apache RocketMQ: a name server and one broker, each in its own process.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;

use super::account::Account;
use super::disk;
use super::folder::{Folder, random_password};
use super::install;
use super::java::{self, Lifetime};
use super::port::{free_port, free_port_with, on_free_ports};
use super::process::Server;
use super::rocketmq_wire;
pub use super::rocketmq_wire::{Response, request};

/// From 90 % on the broker refuses every message as `SERVICE_NOT_AVAILABLE`, which names no disk; a run adds to what is used.
const DISK_PERCENT_MAX: u64 = 87;

/// When the broker acknowledges a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Flush {
    /// When it is on the disk (`SYNC_FLUSH`).
    #[default]
    Sync,
    /// When it is in memory (`ASYNC_FLUSH`, RocketMQ's own default).
    Async,
}

/// Who may connect to the broker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Access {
    /// Everybody, without credentials.
    #[default]
    Open,
    /// Clients that sign with [`Rocketmq::credentials`].
    Signed,
}

/// How RocketMQ is started.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// When a message counts as stored; [`Flush::Sync`] by default.
    pub flush: Flush,
    /// Who may connect; [`Access::Open`] by default.
    pub access: Access,
    /// The parent folder of the data. By default the system's folder for temporary files.
    pub folder: Option<PathBuf>,
    /// Further settings of the broker, as in `broker.conf`; they override ours.
    pub settings: Vec<(String, String)>,
    /// How long it is to run.
    pub lifetime: Lifetime,
}

/// An access key with its secret.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// Names the user.
    pub access_key: String,
    /// Signs the requests.
    pub secret_key: String,
}

/// A RocketMQ of our own. It creates no topic by itself. Dropping it kills it and removes the data.
#[derive(Debug)]
pub struct Rocketmq {
    broker: Option<Server>,
    name_server: Option<Server>,
    java: PathBuf,
    class_path: String,
    lifetime: Lifetime,
    broker_port: u16,
    name_server_port: u16,
    credentials: Option<Credentials>,
    broker_folder: Folder,
    name_server_folder: Folder,
}

impl Rocketmq {
    /// Starts both with new data; returns when the name server knows the broker.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](super::Unavailable) (found by `downcast_ref`) if this machine has no Java, or can neither find nor fetch
    /// RocketMQ's jars. Any other error: a process does not start; the message has the end of its log.
    pub fn start(options: &Options) -> Result<Self> {
        on_free_ports(|| Self::start_once(options))
    }

    fn start_once(options: &Options) -> Result<Self> {
        let jars = install::rocketmq_jars()?;
        let java = install::rocketmq_tools()?;
        let account = Account::current();
        let broker_folder = Folder::new(options.folder.as_deref(), "rocketmq-broker", account)?;
        let name_server_folder = Folder::new(options.folder.as_deref(), "rocketmq-names", account)?;
        disk::ensure_room(broker_folder.path(), DISK_PERCENT_MAX)?;
        // A broker also listens two ports below its configured one.
        let (name_server_port, broker_port) = (free_port()?, free_port_with(2)?);
        let home = name_server_folder.path().display();
        let config = format!("listenPort={name_server_port}\nbindAddress=127.0.0.1\nkvConfigPath={home}/kv.json\n");
        name_server_folder.write("namesrv.conf", &config, account)?;
        let credentials = match options.access {
            Access::Open => None,
            Access::Signed => Some(Credentials { access_key: "owner".to_owned(), secret_key: random_password()? }),
        };
        let mut config = include_str!("../../rocketmq/broker.conf").to_owned();
        let own = settings(options, &broker_folder, name_server_port, broker_port, credentials.as_ref())?;
        // A later line overrides an earlier one.
        config.extend(own.iter().chain(&options.settings).map(|(name, value)| format!("{name}={value}\n")));
        broker_folder.write("broker.conf", &config, account)?;
        let class_path = jars.join("*").display().to_string();
        let (broker, name_server) = (None, None);
        let mut this = Self {
            broker,
            name_server,
            java,
            class_path,
            lifetime: options.lifetime,
            broker_port,
            name_server_port,
            credentials,
            broker_folder,
            name_server_folder,
        };
        this.start_again()?;
        Ok(this)
    }

    /// The address of the name server, for clients.
    pub fn name_server(&self) -> String {
        format!("127.0.0.1:{}", self.name_server_port)
    }

    /// The address of the broker, unchanged as long as this value lives.
    pub fn broker(&self) -> String {
        format!("127.0.0.1:{}", self.broker_port)
    }

    /// The credentials with every right; `None` with [`Access::Open`].
    pub fn credentials(&self) -> Option<&Credentials> {
        self.credentials.as_ref()
    }

    /// The id of the broker's process; `None` while it is down.
    pub fn broker_pid(&self) -> Option<u32> {
        self.broker.as_ref().map(Server::id)
    }

    /// The id of the name server's process; `None` while it is down.
    pub fn name_server_pid(&self) -> Option<u32> {
        self.name_server.as_ref().map(Server::id)
    }

    /// The ids of the running processes.
    pub fn pids(&self) -> Vec<u32> {
        [&self.broker, &self.name_server].into_iter().flatten().map(Server::id).collect()
    }

    /// `kill -9` to the broker; returns when it is gone. The name server goes on. Does nothing if it is down.
    ///
    /// # Errors
    ///
    /// The process does not end.
    pub fn kill9(&mut self) -> Result<()> {
        self.broker.take().map_or(Ok(()), Server::kill9)
    }

    /// `kill -9` to the name server; the broker goes on. Does nothing if it is down.
    ///
    /// # Errors
    ///
    /// The process does not end.
    pub fn kill9_name_server(&mut self) -> Result<()> {
        self.name_server.take().map_or(Ok(()), Server::kill9)
    }

    /// Shuts both down and keeps the data. Does nothing if they are down.
    ///
    /// # Errors
    ///
    /// One had to be killed.
    pub fn stop(&mut self) -> Result<()> {
        let broker = self.broker.take().map_or(Ok(()), |server| server.stop(Signal::TERM));
        broker.and(self.name_server.take().map_or(Ok(()), |server| server.stop(Signal::TERM)))
    }

    /// Starts what is down, with its previous data and ports; returns when the name server knows the broker. A broker that kept
    /// running registers every ten seconds.
    ///
    /// # Errors
    ///
    /// One does not start; the message ends with the end of its log.
    pub fn start_again(&mut self) -> Result<()> {
        if self.name_server.is_none() {
            let main = ["org.apache.rocketmq.namesrv.NamesrvStartup", "namesrv.conf"];
            let mut server = self.spawn(main, "rmq.namesrv.logback.xml", "128m", &self.name_server_folder)?;
            let responds = || rocketmq_wire::request(&self.name_server(), 106, &[]).is_ok();
            server.wait_ready(responds).context("RocketMQ's name server does not start")?;
            self.name_server = Some(server);
        }
        let mut broker = match self.broker.take() {
            Some(broker) => broker,
            None => {
                let main = ["org.apache.rocketmq.broker.BrokerStartup", "broker.conf"];
                self.spawn(main, "rmq.broker.logback.xml", "512m", &self.broker_folder)?
            }
        };
        let known = || rocketmq_wire::knows_a_broker(&self.name_server()) && self.broker_responds();
        broker.wait_ready(known).context("RocketMQ's broker does not start")?;
        self.broker = Some(broker);
        Ok(())
    }

    /// Creates a topic of 4 queues on the broker; returns when the name server knows it.
    ///
    /// # Errors
    ///
    /// The broker refuses, which it does with [`Access::Signed`].
    pub fn create_topic(&self, topic: &str) -> Result<()> {
        create_topic(&self.name_server(), topic)
    }

    fn broker_responds(&self) -> bool {
        const GET_BROKER_RUNTIME_INFO: u16 = 28;
        rocketmq_wire::request(&self.broker(), GET_BROKER_RUNTIME_INFO, &[]).is_ok()
    }

    fn spawn(&self, [class, config]: [&str; 2], log_config: &str, heap: &str, folder: &Folder) -> Result<Server> {
        let home = folder.path().display();
        let open = ["--add-exports=java.base/sun.nio.ch=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"];
        let mut args = java::options(self.lifetime);
        args.extend([
            "-Xms64m".to_owned(),
            format!("-Xmx{heap}"),
            "-XX:MaxDirectMemorySize=256m".to_owned(),
            "-Djava.net.preferIPv4Stack=true".to_owned(),
            format!("-Djava.io.tmpdir={home}"),
            // The home folder, where its log files go.
            format!("-Duser.home={home}"),
            format!("-Drocketmq.home.dir={home}"),
            format!("-Drmq.logback.configurationFile={log_config}"),
            // By default it creates an RSA key and a certificate at each start: half of what a start takes. No client uses TLS.
            "-Dtls.server.mode=disabled".to_owned(),
            "--add-opens=java.base/java.nio=ALL-UNNAMED".to_owned(),
        ]);
        args.extend(open.map(str::to_owned));
        args.extend(["-cp".to_owned(), self.class_path.clone(), class.to_owned(), "-c".to_owned()]);
        args.push(folder.path().join(config).display().to_string());
        Server::spawn(&self.java, &args, Account::current(), folder)
    }
}

impl Drop for Rocketmq {
    fn drop(&mut self) {
        // The data is removed with it, so an orderly end is pointless. Drop cannot return an error.
        let _ = self.kill9();
        let _ = self.kill9_name_server();
    }
}

/// Creates a topic of 4 queues on the broker that the name server at `name_server` knows; returns when the name server knows the topic.
///
/// # Errors
///
/// One of them does not answer, or refuses.
pub fn create_topic(name_server: &str, topic: &str) -> Result<()> {
    const UPDATE_AND_CREATE_TOPIC: u16 = 17;
    const GET_BROKER_CLUSTER_INFO: u16 = 106;
    let cluster = request(name_server, GET_BROKER_CLUSTER_INFO, &[])?;
    let cluster = String::from_utf8_lossy(&cluster.body).into_owned();
    // {"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"127.0.0.1:10911"},..
    let address = cluster
        .split_once("\"brokerAddrs\":{")
        .and_then(|(_, rest)| rest.split('"').find(|part| part.contains(':') && part.contains('.')));
    let Some(address) = address else { bail!("the name server knows no broker: {cluster}") };
    let fields = [
        ("topic", topic),
        ("defaultTopic", "TBW102"),
        ("readQueueNums", "4"),
        ("writeQueueNums", "4"),
        ("perm", "6"),
        ("topicFilterType", "SINGLE_TAG"),
        ("topicSysFlag", "0"),
        ("order", "false"),
    ];
    let made = request(address, UPDATE_AND_CREATE_TOPIC, &fields)?;
    ensure!(made.code == 0, "the broker refuses to create {topic}: {}", made.header);
    Ok(())
}

fn settings(
    options: &Options,
    folder: &Folder,
    name_server_port: u16,
    port: u16,
    credentials: Option<&Credentials>,
) -> Result<Vec<(String, String)>> {
    let store = folder.path().join("store").display().to_string();
    let flush = if options.flush == Flush::Sync { "SYNC_FLUSH" } else { "ASYNC_FLUSH" };
    let mut settings = vec![
        ("namesrvAddr", format!("127.0.0.1:{name_server_port}")),
        ("listenPort", port.to_string()),
        // For replicas, of which there are none. The only socket that cannot be bound to loopback.
        ("haListenPort", free_port()?.to_string()),
        ("storePathCommitLog", format!("{store}/commitlog")),
        ("storePathRootDir", store),
        ("flushDiskType", flush.to_owned()),
        // By default it writes its whole wheel of timers each second, also an empty one: a sixth of a processor.
        ("timerFlushIntervalMs", "120000".to_owned()),
    ];
    if let Some(Credentials { access_key, secret_key }) = credentials {
        let provider = "org.apache.rocketmq.auth.authentication.provider";
        let user = format!("{{\"username\":\"{access_key}\",\"password\":\"{secret_key}\"}}");
        let own = format!("{{\"accessKey\":\"{access_key}\",\"secretKey\":\"{secret_key}\"}}");
        settings.extend([
            ("authenticationEnabled", "true".to_owned()),
            ("authenticationProvider", format!("{provider}.DefaultAuthenticationProvider")),
            ("authenticationMetadataProvider", format!("{provider}.LocalAuthenticationMetadataProvider")),
            ("authConfigPath", folder.path().join("auth").display().to_string()),
            ("initAuthenticationUser", user),
            ("innerClientAuthenticationCredentials", own),
        ]);
    }
    Ok(settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
