//! How it goes: the breaker, whether the database answers, status, backlog and metrics.

pub(super) mod backlog;
pub(super) mod breaker;
pub(super) mod counters;
pub(super) mod database;
pub(super) mod gauges;
pub(super) mod prober;
pub(super) mod status;
