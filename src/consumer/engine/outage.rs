//! The database is away: nothing runs but one job at a time, which finds out whether it is back.

use std::time::{Duration, Instant};

use crate::limits::{CONSUMER_OUTAGE_WAIT_MAX, CONSUMER_OUTAGE_WAIT_MIN};

/// Whether the database is away, and when to ask next.
#[derive(Debug, Default)]
pub(super) struct Outage(Option<Away>);

#[derive(Debug)]
struct Away {
    wait: Duration,
    probe_at: Instant,
    is_probing: bool,
}

impl Outage {
    pub(super) fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// Whether a job may begin; with `true` if it finds out whether the database is back. If it may not, until when to wait.
    pub(super) fn may_begin(&self, now: Instant) -> Result<bool, Option<Instant>> {
        match &self.0 {
            None => Ok(false),
            Some(away) if away.is_probing => Err(None),
            Some(away) if now < away.probe_at => Err(Some(away.probe_at)),
            Some(_) => Ok(true),
        }
    }

    pub(super) fn note_probe(&mut self) {
        if let Some(away) = &mut self.0 {
            away.is_probing = true;
        }
    }

    /// Notes that a job found no database. Returns whether that is new.
    pub(super) fn begin(&mut self, now: Instant, was_probe: bool) -> bool {
        match &mut self.0 {
            None => {
                let wait = CONSUMER_OUTAGE_WAIT_MIN;
                self.0 = Some(Away { wait, probe_at: now + wait, is_probing: false });
                true
            }
            Some(away) => {
                if was_probe {
                    away.wait = (away.wait * 2).min(CONSUMER_OUTAGE_WAIT_MAX);
                    away.probe_at = now + away.wait;
                    away.is_probing = false;
                }
                false
            }
        }
    }

    /// Notes that the database answered. Returns whether that ends an outage.
    pub(super) fn end(&mut self) -> bool {
        self.0.take().is_some()
    }
}
