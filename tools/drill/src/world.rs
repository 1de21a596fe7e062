//! The servers of a drill, the application, and what stands in for people and their jobs.

use std::io::Write as _;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use xtask::servers::{Kafka, Postgres, Prometheus, kafka, postgres};
use xtask::stop::Stop;

use crate::blocks::Environment;
use crate::receiver::Receiver;
use crate::shop_process::Shop;
use crate::wait::until;
use crate::{alerts, control, rules, shop, tables};

/// The queue of a healthy application, which is the library's default.
pub(crate) const QUEUE_REFS_MAX: usize = 16_384;

/// How often Prometheus scrapes and evaluates: a window of five minutes, shortened, still holds ten scrapes.
const PROMETHEUS: &str = "
global: { scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }
rule_files: [rules.yml]
scrape_configs:
  - job_name: shop
    static_configs: [{ targets: ['TARGET'], labels: { namespace: drill } }]
";

/// Everything that runs. Dropping it stops it and removes its data.
#[derive(Debug)]
pub(crate) struct World {
    shop: Mutex<Shop>,
    kafka: Mutex<Kafka>,
    postgres: Mutex<Postgres>,
    pub(crate) prometheus: Prometheus,
    pub(crate) receiver: Receiver,
    cleanup: Mutex<Option<Session>>,
    pub(crate) environment: Environment,
    pub(crate) stop: Stop,
    database_url: String,
    _folder: TempDir,
}

/// A session of somebody's in the database: `psql` that keeps its connection. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Session(Child);

impl Drop for Session {
    fn drop(&mut self) {
        // It may have ended with its connection.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

impl World {
    pub(crate) fn start(stop: &Stop) -> Result<Arc<Self>> {
        let folder = tempfile::tempdir().context("make a folder")?;
        let server = postgres::Options {
            settings: vec![("log_min_messages".to_owned(), "fatal".to_owned())],
            ..Default::default()
        };
        let postgres = Postgres::start(&server)?;
        let kafka = Kafka::start(&kafka::Options::default())?;
        let url = postgres.url();
        let (password, _) = url
            .rsplit_once('@')
            .and_then(|(login, _)| login.rsplit_once(':').map(|(_, it)| (it, ())))
            .context("a URL has a login")?;
        let url_of = |role: &str| format!("postgres://{role}:{password}@127.0.0.1:{}/outbox", postgres.port());
        psql(&url, &[tables::roles(password), tables::migrations()?, tables::RIGHTS.to_owned()].concat())?;
        let receiver = Receiver::start()?;
        let config = shop::Config {
            database_url: url_of("shop"),
            notices_url: url_of("shop_notices"),
            bootstrap: kafka.bootstrap(),
            receiver: receiver.url(),
            port: free_port()?,
            queue_refs_max: QUEUE_REFS_MAX,
            bug: None,
        };
        let mut shop = Shop::new(config, folder.path().join("shop.log"), stop);
        shop.start()?;
        let rules = rules::read(&crate::ops().join("prometheus/rules.yml"))?;
        let settings = PROMETHEUS.replace("TARGET", &shop.address());
        let prometheus = Prometheus::start(&settings, &[("rules.yml", &rules)])?;
        let control = TcpListener::bind(("127.0.0.1", 0)).context("listen for commands")?;
        let tools = [
            ("kafka-topics.sh", "org.apache.kafka.tools.TopicCommand"),
            ("kafka-configs.sh", "kafka.admin.ConfigCommand"),
        ];
        let tools = tools.iter().map(|(name, class)| Ok((*name, kafka.tool(class)?))).collect::<Result<Vec<_>>>()?;
        control::write_commands(folder.path(), &tools)?;
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
        let variables = [
            ("PATH", path),
            ("DATABASE_URL", url.clone()),
            ("KAFKA", kafka.bootstrap()),
            (control::ADDRESS, control.local_addr()?.to_string()),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let world = Arc::new(Self {
            shop: Mutex::new(shop),
            kafka: Mutex::new(kafka),
            postgres: Mutex::new(postgres),
            prometheus,
            receiver,
            cleanup: Mutex::default(),
            environment: Environment { variables },
            stop: stop.clone(),
            database_url: url,
            _folder: folder,
        });
        control::serve(control, Arc::clone(&world));
        Ok(world)
    }

    pub(crate) fn shop(&self) -> MutexGuard<'_, Shop> {
        self.shop.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn kafka(&self) -> MutexGuard<'_, Kafka> {
        self.kafka.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn postgres(&self) -> MutexGuard<'_, Postgres> {
        self.postgres.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs SQL as the owner of the tables; returns what it printed.
    pub(crate) fn psql(&self, sql: &str) -> Result<String> {
        psql(&self.database_url, sql)
    }

    /// Opens a session that runs this, and then stays open.
    pub(crate) fn session(&self, name: &str, sql: &str) -> Result<Session> {
        let mut command = Command::new("psql");
        command.args(["-X", "-q", &self.database_url]).env("PGAPPNAME", name);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("run psql")?;
        writeln!(child.stdin.as_mut().context("piped above")?, "{sql}").context("begin a session")?;
        Ok(Session(child))
    }

    /// Waits until a query's first value is true.
    pub(crate) fn until_sql(&self, deadline: Duration, what: &str, sql: &str) -> Result<()> {
        until(&self.stop, deadline, what, || Ok(self.psql(sql)?.trim() == "t")).map(drop)
    }

    /// A job that removes rows which it takes for old.
    pub(crate) fn start_cleanup(&self) -> Result<()> {
        let session = self.session("outbox-cleanup", "DELETE FROM outbox_messages \\watch 0.02")?;
        *self.cleanup.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
        Ok(())
    }

    pub(crate) fn stop_cleanup(&self) {
        *self.cleanup.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Runs one of Kafka's tools.
    pub(crate) fn kafka_tool(&self, class: &str, arguments: &[&str]) -> Result<()> {
        let words = self.kafka().tool(class)?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["--bootstrap-server", &self.kafka().bootstrap()]).args(arguments);
        let output = command.output().context("run a tool of Kafka")?;
        ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
        Ok(())
    }

    /// Whether everything works: nothing is paused, dead or late, and no alert fires but those on long windows.
    pub(crate) fn is_healthy(&self) -> Result<bool> {
        let late = "SELECT NOT EXISTS (SELECT 1 FROM outbox_messages WHERE created_at < now() - interval '15 seconds')
                    AND NOT EXISTS (SELECT 1 FROM outbox_dead_letters) AND NOT EXISTS (SELECT 1 FROM outbox_paused_topics)";
        let firing = alerts::firing_names(&self.prometheus)?;
        Ok(firing.iter().all(|name| name.starts_with("OutboxBudget")) && self.psql(late)?.trim() == "t")
    }

    /// Undoes what a drill that failed has left.
    pub(crate) fn restore(&self) -> Result<()> {
        self.postgres().start_again()?;
        self.kafka().start_again()?;
        self.receiver.refuse(false);
        self.stop_cleanup();
        self.psql(&[tables::RIGHTS, tables::CLEAN].concat())?;
        self.shop().deploy(|config| (config.bug, config.queue_refs_max) = (None, QUEUE_REFS_MAX))
    }
}

/// A port that is free now.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0)).context("find a port")?.local_addr()?.port())
}

fn psql(url: &str, sql: &str) -> Result<String> {
    let mut command = Command::new("psql");
    command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", url]).env("PGCONNECT_TIMEOUT", "5");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("run psql")?;
    child.stdin.take().context("piped above")?.write_all(sql.as_bytes()).context("pass on SQL")?;
    let output = child.wait_with_output().context("wait for psql")?;
    ensure!(output.status.success(), "{sql}\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
