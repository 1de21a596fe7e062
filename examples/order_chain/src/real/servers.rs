//! The servers of a run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::spawn_blocking;
use xtask::servers::{Kafka, Mariadb, Postgres, Redis, kafka, mariadb, postgres};

use crate::Failure;

/// A server that can be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Server {
    Postgres,
    Mariadb,
    Redis,
    Kafka,
}

impl Server {
    pub(super) const ALL: [Self; 4] = [Self::Postgres, Self::Mariadb, Self::Redis, Self::Kafka];
}

/// Our own servers. Dropping it kills them and removes their data.
#[derive(Debug, Clone)]
pub(super) struct Servers(Arc<Mutex<All>>);

#[derive(Debug)]
struct All {
    postgres: Postgres,
    mariadb: Mariadb,
    redis: Redis,
    kafka: Kafka,
}

impl Servers {
    pub(super) async fn start() -> Result<Self, Failure> {
        let all = spawn_blocking(|| {
            Ok::<_, Failure>(All {
                postgres: Postgres::start(&postgres::Options::default())?,
                mariadb: Mariadb::start(&mariadb::Options::default())?,
                redis: Redis::start()?,
                kafka: Kafka::start(&kafka::Options::default())?,
            })
        });
        Ok(Self(Arc::new(Mutex::new(all.await??))))
    }

    /// The URLs of PostgreSQL, MariaDB and Redis, and the address of Kafka.
    pub(super) fn addresses(&self) -> [String; 4] {
        let all = self.lock();
        [all.postgres.url(), all.mariadb.url(), all.redis.url(), all.kafka.bootstrap()]
    }

    /// The server's process.
    pub(super) fn pid(&self, server: Server) -> Option<u32> {
        let all = self.lock();
        match server {
            Server::Postgres => all.postgres.pid(),
            Server::Mariadb => all.mariadb.pid(),
            Server::Redis => all.redis.pid(),
            Server::Kafka => all.kafka.pid(),
        }
    }

    /// `kill -9`, and a start with the same data; Redis has none.
    pub(super) async fn kill(&self, server: Server) -> Result<(), Failure> {
        let this = self.clone();
        spawn_blocking(move || {
            let mut all = this.lock();
            match server {
                Server::Postgres => all.postgres.kill9().and_then(|()| all.postgres.start_again()),
                Server::Mariadb => all.mariadb.kill9().and_then(|()| all.mariadb.start_again()),
                Server::Redis => all.redis.kill9().and_then(|()| all.redis.start_again()),
                Server::Kafka => all.kafka.kill9().and_then(|()| all.kafka.start_again()),
            }
        })
        .await??;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
