//! The database is away: nothing runs but one job at a time, which finds out whether it is back.

use std::time::{Duration, Instant};

use super::{Engine, Next};
use crate::limits::{CONSUMER_OUTAGE_WAIT_MAX, CONSUMER_OUTAGE_WAIT_MIN};

#[derive(Debug)]
pub(super) struct Outage {
    wait: Duration,
    probe_at: Instant,
    is_probing: bool,
}

impl Engine {
    /// Whether a job may begin; with `true` if it finds out whether the database is back.
    pub(super) fn may_probe(&self, now: Instant) -> Result<bool, Next> {
        match &self.outage {
            None => Ok(false),
            Some(outage) if outage.is_probing => Err(Next::Wait(None)),
            Some(outage) if now < outage.probe_at => Err(Next::Wait(Some(outage.probe_at))),
            Some(_) => Ok(true),
        }
    }

    pub(super) fn note_probe(&mut self, is_probe: bool) {
        if let Some(outage) = self.outage.as_mut().filter(|_| is_probe) {
            outage.is_probing = true;
        }
    }

    /// Notes that a job found no database. Returns whether that is new.
    pub(super) fn database_is_away(&mut self, now: Instant, was_probe: bool) -> bool {
        match &mut self.outage {
            None => {
                let wait = CONSUMER_OUTAGE_WAIT_MIN;
                self.outage = Some(Outage { wait, probe_at: now + wait, is_probing: false });
                true
            }
            Some(outage) => {
                if was_probe {
                    outage.wait = (outage.wait * 2).min(CONSUMER_OUTAGE_WAIT_MAX);
                    outage.probe_at = now + outage.wait;
                    outage.is_probing = false;
                }
                false
            }
        }
    }

    /// Notes that the database answered. Returns whether that ends an outage.
    pub(super) fn database_is_there(&mut self) -> bool {
        self.outage.take().is_some()
    }

    /// Whether the database is away.
    pub(crate) fn is_database_away(&self) -> bool {
        self.outage.is_some()
    }
}
