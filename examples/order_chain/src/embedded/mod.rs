//! The whole chain in one process: SQLite in place of the databases, librdkafka's mock cluster, a stand-in for Redis.

mod deaths;
mod faults;
mod ratios;
mod refused;
mod run;
mod side_by_side;
pub mod world;

pub use self::deaths::Deaths;
pub(crate) use self::deaths::join;
pub(crate) use self::faults::{BROKER_AWAY, CACHE_AWAY, Fault, Planned, plan};
pub use self::ratios::ratios;
pub use self::refused::REFUSAL;
pub(crate) use self::refused::Refused;
pub use self::run::{Settings, run};
pub use self::side_by_side::side_by_side;
