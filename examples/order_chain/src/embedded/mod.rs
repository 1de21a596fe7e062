//! The whole chain in one process: SQLite in place of the databases, librdkafka's mock cluster, a stand-in for Redis.

mod deaths;
mod faults;
mod ratios;
mod run;
pub mod world;

pub use self::deaths::Deaths;
pub use self::ratios::ratios;
pub use self::run::{Settings, run};
