//! Real servers for the tests, what the tests ask before they use one, and what the benches leave behind.
//!
//! - [`servers`]: PostgreSQL, MariaDB, Kafka, RocketMQ and Debezium on free loopback ports with throw-away data. Whoever holds one can
//!   kill it (`kill -9`) and start it again with the same data on the same port; dropping it ends it.
//! - [`parts`]: the shared instances that `cargo xtask test` started, or a skip that is recorded by name and reason.
//! - [`cache`]: what is fetched once for a machine.
//! - [`FaultRun`]: what the fault harness is told.
//! - [`results`]: what a row of the benches gives.
//! - [`stop`]: Ctrl-C as an orderly end.
//!
//! The commands themselves are in the binary of the same name (`cargo xtask --help`).

pub mod cache;
mod fault_run;
pub mod parts;
pub mod results;
pub mod servers;
pub mod stop;

pub use fault_run::FaultRun;
