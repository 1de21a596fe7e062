//! Reports when a server did nothing for a while. Processes report by themselves when they did not run.

mod broker;
mod database;

pub(crate) use broker::BrokerMonitor;
pub(crate) use database::DatabaseMonitor;

use std::time::Duration;

/// How often something is tried.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
