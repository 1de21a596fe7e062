//! Health: the breaker, the state of the database, status, backlog and metrics.

pub(super) mod backlog;
pub(super) mod backlog_counter;
pub(super) mod breaker;
pub(super) mod counters;
pub(super) mod database;
pub(super) mod database_clock;
pub(super) mod gauges;
pub(super) mod prober;
pub(super) mod status;
pub(super) mod timings;
