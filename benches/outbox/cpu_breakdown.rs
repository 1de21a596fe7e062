//! How much CPU database, broker and client used: what limits a drain.

use anyhow::Result;
use serde::Serialize;

use crate::cpu::{CpuMeter, CpuShare};

/// The sides of a drain, each by its first process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SidePids {
    pub(crate) database: u32,
    pub(crate) broker: u32,
    /// The process between them.
    pub(crate) client: u32,
}

/// What each side used for a message, in microseconds of one core.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct CpuBreakdown {
    pub(crate) database_us: f64,
    pub(crate) broker_us: f64,
    pub(crate) client_us: f64,
}

impl CpuBreakdown {
    pub(crate) fn all_us(&self) -> f64 {
        self.database_us + self.broker_us + self.client_us
    }
}

#[derive(Debug)]
pub(crate) struct CpuBreakdownMeter([CpuMeter; 3]);

impl CpuBreakdownMeter {
    pub(crate) fn start(sides: SidePids) -> Result<Self> {
        let SidePids { database, broker, client } = sides;
        Ok(Self([CpuMeter::start(database)?, CpuMeter::start(broker)?, CpuMeter::start(client)?]))
    }

    /// Each divided by `messages`.
    pub(crate) fn stop(self, messages: usize) -> Result<CpuBreakdown> {
        let [database, broker, client] = self.0.map(CpuMeter::stop);
        let each = |share: Result<CpuShare>| anyhow::Ok(share?.own_us / messages as f64);
        Ok(CpuBreakdown { database_us: each(database)?, broker_us: each(broker)?, client_us: each(client)? })
    }
}
