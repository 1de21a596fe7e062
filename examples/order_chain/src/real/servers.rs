//! The servers of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::spawn_blocking;
use xtask::servers::{Kafka, Mariadb, Postgres, Redis, Rocketmq, Stopped, kafka, mariadb, postgres, rocketmq};

use crate::Failure;
use crate::broker::{Brokers, Kind};

/// A server that can be killed and stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Server {
    Postgres,
    Mariadb,
    Redis,
    Kafka,
    /// RocketMQ's broker.
    RocketMq,
    /// RocketMQ's name server, which tells clients where the broker is.
    #[expect(clippy::enum_variant_names, reason = "RocketMQ calls it so")]
    NameServer,
}

/// What a run does with a server.
trait Process: fmt::Debug + Send {
    /// For clients.
    fn address(&self) -> String;

    fn pid(&self) -> Option<u32>;

    /// `kill -9`, and a start with the same data; Redis has none.
    fn restart(&mut self) -> Result<(), Failure>;
}

/// RocketMQ's two servers have one owner.
#[derive(Debug)]
struct Broker(Arc<Mutex<Rocketmq>>);

#[derive(Debug)]
struct NameServer(Arc<Mutex<Rocketmq>>);

macro_rules! process {
    ($kind:ty, |$this:ident| $owner:expr, $address:ident, $pid:ident, $kill:ident) => {
        impl Process for $kind {
            fn address(&self) -> String {
                let $this = self;
                $owner.$address()
            }

            fn pid(&self) -> Option<u32> {
                let $this = self;
                $owner.$pid()
            }

            fn restart(&mut self) -> Result<(), Failure> {
                let $this = self;
                $owner.$kill()?;
                Ok($owner.start_again()?)
            }
        }
    };
}

process!(Postgres, |server| server, url, pid, kill9);
process!(Mariadb, |server| server, url, pid, kill9);
process!(Redis, |server| server, url, pid, kill9);
process!(Kafka, |server| server, bootstrap, pid, kill9);
process!(Broker, |both| lock(&both.0), broker, broker_pid, kill9);
process!(NameServer, |both| lock(&both.0), name_server, name_server_pid, kill9_name_server);

/// Our own servers, each behind a lock of its own: several may be starting at a time. Dropping the last clone kills them and removes their
/// data.
#[derive(Debug, Clone)]
pub(super) struct Servers(Arc<BTreeMap<Server, Mutex<Box<dyn Process>>>>);

impl Servers {
    pub(super) async fn start(brokers: Brokers) -> Result<Self, Failure> {
        let starting = spawn_blocking(move || {
            let mut all: BTreeMap<Server, Mutex<Box<dyn Process>>> = BTreeMap::new();
            let mut add = |server, process| all.insert(server, Mutex::new(process));
            add(Server::Postgres, Box::new(Postgres::start(&postgres::Options::default())?));
            add(Server::Mariadb, Box::new(Mariadb::start(&mariadb::Options::default())?));
            add(Server::Redis, Box::new(Redis::start()?));
            if brokers.has(Kind::Kafka) {
                add(Server::Kafka, Box::new(Kafka::start(&kafka::Options::default())?));
            }
            if brokers.has(Kind::RocketMq) {
                let both = Arc::new(Mutex::new(Rocketmq::start(&rocketmq::Options::default())?));
                add(Server::RocketMq, Box::new(Broker(Arc::clone(&both))));
                add(Server::NameServer, Box::new(NameServer(both)));
            }
            Ok::<_, Failure>(all)
        });
        Ok(Self(Arc::new(starting.await??)))
    }

    /// Those that run.
    pub(super) fn all(&self) -> Vec<Server> {
        self.0.keys().copied().collect()
    }

    /// Where clients find it; empty if this run has none.
    pub(super) fn address(&self, server: Server) -> String {
        self.0.get(&server).map(|process| lock(process).address()).unwrap_or_default()
    }

    /// The server's process.
    pub(super) fn pid(&self, server: Server) -> Option<u32> {
        lock(self.0.get(&server)?).pid()
    }

    /// `kill -9`, and a start with the same data; Redis has none.
    pub(super) async fn kill(&self, server: Server) -> Result<(), Failure> {
        let this = self.clone();
        spawn_blocking(move || this.0.get(&server).map_or(Ok(()), |process| lock(process).restart())).await?
    }

    /// Stops it by SIGSTOP, until what this returns is dropped.
    pub(super) async fn stop(&self, server: Server) -> Result<Stopped, Failure> {
        let this = self.clone();
        let stopping = spawn_blocking(move || {
            let id = this.pid(server).ok_or("a server that runs has an id")?;
            Ok::<_, Failure>(Stopped::of(id)?)
        });
        stopping.await?
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
