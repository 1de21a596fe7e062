//! Real servers for the tests, what the tests ask before they use one, and what the benches leave behind.
//!
//! - [`servers`]: PostgreSQL, MariaDB, Kafka, RocketMQ and Debezium on free loopback ports with throw-away data. Whoever holds one can
//!   kill it (`kill -9`) and start it again with the same data on the same port; dropping it ends it.
//! - [`test_servers`]: the shared instances that `cargo xtask test` started, or a skip that is recorded by name and reason.
//! - [`cache`]: what is fetched once for a machine.
//! - [`FaultArgs`]: what the fault harness is told.
//! - [`bench_results`]: what a row of the benches gives.
//! - [`stop`]: Ctrl-C as an orderly end.
//!
//! The commands themselves are in the binary of the same name (`cargo xtask --help`).

pub mod bench_results;
pub mod cache;
mod fault_args;
pub mod servers;
pub mod stop;
pub mod test_servers;

pub use fault_args::FaultArgs;
