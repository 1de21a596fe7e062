//! Health: the breaker, the state of the database, status, backlog and metrics.

pub(super) mod backlog;
pub(super) mod breaker;
pub(super) mod counters;
pub(super) mod database;
pub(super) mod gauges;
pub(super) mod prober;
pub(super) mod status;
