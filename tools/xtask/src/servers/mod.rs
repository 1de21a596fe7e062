//! Servers of our own for one test run: loopback only, free ports, throw-away data, ended with their owner.
//!
//! Starting and stopping block the thread. If this process ends in any way, its servers end with it: the kernel kills them
//! (`setpriv --pdeathsig KILL`).
//!
//! ```no_run
//! use xtask::servers::{Postgres, postgres};
//!
//! let mut server = Postgres::start(&postgres::Options::default())?;
//! println!("{}", server.url());
//! server.kill9()?;
//! server.start_again()?; // the same data, the same port
//! # anyhow::Ok(())
//! ```

mod account;
pub mod chromium;
pub mod debezium;
mod debezium_connector;
mod disk;
mod folder;
pub mod http_request;
pub mod install;
pub mod java;
pub mod kafka;
mod kafka_access;
mod kafka_wire;
pub mod mariadb;
pub mod pgbouncer;
mod port;
pub mod postgres;
pub mod postgres_releases;
mod process;
pub mod prometheus;
pub mod redis;
pub mod rocketmq;
mod rocketmq_wire;
pub mod schema_registry;
mod server_clock;
mod stopped;

pub use chromium::Chromium;
pub use debezium::Debezium;
pub use install::{ServerKind, Unavailable};
pub use java::Lifetime;
pub use kafka::Kafka;
pub use mariadb::Mariadb;
pub use pgbouncer::Pgbouncer;
pub use postgres::Postgres;
pub use prometheus::Prometheus;
pub use redis::Redis;
pub use rocketmq::Rocketmq;
pub use schema_registry::SchemaRegistry;
pub use server_clock::ServerClock;
pub use stopped::Stopped;
