//! The servers of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::spawn_blocking;
use xtask::servers::{Kafka, Mariadb, Postgres, Redis, Rocketmq, kafka, mariadb, postgres, rocketmq};

use crate::Failure;
use crate::broker::{Brokers, Kind};

/// A server that can be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Server {
    Postgres,
    Mariadb,
    Redis,
    Kafka,
    /// The broker; its name server goes on.
    RocketMq,
}

/// What a run does with a server.
trait Process: fmt::Debug + Send {
    /// For clients.
    fn address(&self) -> String;

    fn pid(&self) -> Option<u32>;

    /// `kill -9`, and a start with the same data; Redis has none.
    fn restart(&mut self) -> Result<(), Failure>;
}

macro_rules! process {
    ($kind:ty, $address:ident, $pid:ident) => {
        impl Process for $kind {
            fn address(&self) -> String {
                self.$address()
            }

            fn pid(&self) -> Option<u32> {
                self.$pid()
            }

            fn restart(&mut self) -> Result<(), Failure> {
                self.kill9()?;
                Ok(self.start_again()?)
            }
        }
    };
}

process!(Postgres, url, pid);
process!(Mariadb, url, pid);
process!(Redis, url, pid);
process!(Kafka, bootstrap, pid);
process!(Rocketmq, name_server, broker_pid);

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
                add(Server::RocketMq, Box::new(Rocketmq::start(&rocketmq::Options::default())?));
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
}

fn lock(process: &Mutex<Box<dyn Process>>) -> std::sync::MutexGuard<'_, Box<dyn Process>> {
    process.lock().unwrap_or_else(PoisonError::into_inner)
}
