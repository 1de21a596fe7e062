//! Real servers for the tests, the functions by which tests get one, and the results of the benches.
//!
//! - [`servers`]: PostgreSQL, MariaDB, Kafka, RocketMQ, Debezium, Prometheus and a schema registry on free loopback ports with throw-away data. The owner can kill
//!   one (`kill -9`) and start it again with the same data on the same port; dropping it ends it.
//! - [`test_servers`]: the shared instances that `cargo xtask test` started, or a skip that is recorded by name and reason.
//! - [`cache`]: files that a machine fetches once.
//! - [`FaultArgs`]: the arguments of the fault harness.
//! - [`DrillArgs`]: the arguments of the drill of the alerts.
//! - [`bench_results`]: the results of the benches' rows.
//! - [`stop`]: an orderly end on Ctrl-C.
//!
//! The commands themselves are in the binary of the same name (`cargo xtask --help`).

pub mod bench_results;
pub mod cache;
mod drill_args;
mod fault_args;
pub mod servers;
pub mod stop;
pub mod test_servers;

pub use drill_args::DrillArgs;
pub use fault_args::FaultArgs;
