//! The servers of a run, which are killed and restarted, and each application's proxies to them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use diesel_async::{AsyncConnection as _, AsyncMigrationHarness, AsyncPgConnection, SimpleAsyncConnection as _};
use diesel_migrations::MigrationHarness as _;
use diesel_outbox::consumer::KafkaConsumer;
use diesel_outbox::migrations::MIGRATIONS;
use diesel_outbox::transport::KafkaConfig;
use tokio::task::spawn_blocking;
use xtask::servers::{Kafka, Postgres, ServerClock, kafka, postgres};

use crate::ledger;
use crate::proxy::Proxy;
use crate::schedule::PROCESSES;
use crate::truth;
use crate::wire::Group;

/// The broker sets timestamps, which also order the copies of a message, and removes expired records at once. It does
/// not do so right after a start, which may be the first moment in a while in which anything can be read.
const BROKER: [(&str, &str); 3] = [
    ("log.message.timestamp.type", "LogAppendTime"),
    ("log.retention.check.interval.ms", "500"),
    ("log.initial.task.delay.ms", "10000"),
];

/// An application's proxies to the servers.
#[derive(Debug)]
pub(crate) struct AppProxies {
    pub(crate) database: Proxy,
    pub(crate) broker: Proxy,
}

/// Our own servers. Dropping it stops them and removes their data.
#[derive(Debug)]
pub(crate) struct Environment {
    database: Arc<Mutex<Postgres>>,
    /// Outside the database's lock: it is set while the database is killed and started.
    clock: Option<ServerClock>,
    broker: Arc<Mutex<Kafka>>,
    pub(crate) proxies: Vec<AppProxies>,
}

impl Environment {
    /// Starts the servers; with a separate clock for the database if asked.
    pub(crate) async fn start(own_clock: bool) -> Result<Self> {
        let mut proxies = Vec::new();
        for _ in 0..PROCESSES {
            proxies.push(AppProxies { database: Proxy::start().await?, broker: Proxy::start().await? });
        }
        let settings = BROKER.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let behind_proxies = proxies.iter().map(|proxies| proxies.broker.port()).collect();
        let options = kafka::Options { behind_proxies, settings, ..kafka::Options::default() };
        let (database, broker) = spawn_blocking(move || {
            let of_database = postgres::Options { own_clock, ..postgres::Options::default() };
            anyhow::Ok((Postgres::start(&of_database)?, Kafka::start(&options)?))
        })
        .await??;
        for (proxies, port) in proxies.iter().zip(broker.proxied_ports()) {
            proxies.database.set_target(database.port());
            proxies.broker.set_target(*port);
        }
        let clock = database.clock();
        Ok(Self { database: Arc::new(Mutex::new(database)), clock, broker: Arc::new(Mutex::new(broker)), proxies })
    }

    /// The broker's address without a proxy.
    pub(crate) fn bootstrap(&self) -> String {
        self.broker.lock().unwrap_or_else(PoisonError::into_inner).bootstrap()
    }

    /// Creates a database with the tables; returns its name.
    pub(crate) async fn new_database(&self, name: &str) -> Result<()> {
        let mut server = AsyncPgConnection::establish(&self.url("outbox")).await?;
        server.batch_execute(&format!("CREATE DATABASE {name}")).await?;
        let mut connection = self.connect(name).await?;
        connection.batch_execute(truth::TABLE).await?;
        connection.batch_execute(ledger::TABLE).await?;
        let consumer = KafkaConsumer::new(KafkaConfig::new(self.bootstrap()), Group::Inbox.name(name));
        consumer.migrate_async(&mut connection).await.context("create the consumers' tables")?;
        let mut harness = AsyncMigrationHarness::new(connection);
        harness.run_pending_migrations(MIGRATIONS).map_err(|error| anyhow::anyhow!("migrate: {error}"))?;
        truth::make_aged(&mut self.connect(name).await?).await
    }

    /// A connection without a proxy.
    pub(crate) async fn connect(&self, database: &str) -> Result<AsyncPgConnection> {
        AsyncPgConnection::establish(&self.url(database)).await.context("connect to the database")
    }

    /// The URL of a database through an application's proxy.
    pub(crate) fn url_by(&self, proxies: &AppProxies, database: &str) -> Result<String> {
        let url = self.url(database);
        let (login, _) = url.rsplit_once('@').context("the URL holds a login")?;
        Ok(format!("{login}@127.0.0.1:{}/{database}", proxies.database.port()))
    }

    /// The URL of a database without a proxy.
    pub(crate) fn url(&self, database: &str) -> String {
        let url = self.database.lock().unwrap_or_else(PoisonError::into_inner).url();
        match url.rsplit_once('/') {
            Some((server, _)) => format!("{server}/{database}"),
            None => url,
        }
    }

    /// Sends `kill -9` to the database, and starts it on the same data. Blocks.
    pub(crate) fn database_killer(&self) -> impl FnOnce() -> Result<()> + Send + 'static {
        let database = Arc::clone(&self.database);
        move || {
            let mut database = database.lock().unwrap_or_else(PoisonError::into_inner);
            database.kill9()?;
            database.start_again()
        }
    }

    /// The same for the broker.
    pub(crate) fn broker_killer(&self) -> impl FnOnce() -> Result<()> + Send + 'static {
        let broker = Arc::clone(&self.broker);
        move || {
            let mut broker = broker.lock().unwrap_or_else(PoisonError::into_inner);
            broker.kill9()?;
            broker.start_again()
        }
    }

    /// Sets the database's clock this many milliseconds ahead of the machine's, or behind.
    pub(crate) fn set_database_ahead(&self, millis: i64) -> Result<()> {
        self.clock.as_ref().context("the database has the machine's clock")?.set_ahead(millis)
    }

    /// Ends every cut and delay.
    pub(crate) fn heal(&self) {
        for proxies in &self.proxies {
            for proxy in [&proxies.database, &proxies.broker] {
                proxy.cut(false);
                proxy.delay(Duration::ZERO);
            }
        }
    }
}
