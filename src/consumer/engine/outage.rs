//! The database is away: nothing runs until the loop finds that it answers again.

use std::time::{Duration, Instant};

use crate::limits::{CONSUMER_OUTAGE_WAIT_MAX, CONSUMER_OUTAGE_WAIT_MIN};

/// Whether the database is away, and when to ask next.
#[derive(Debug, Default)]
pub(super) struct Outage {
    away: Option<Away>,
    count: u64,
}

#[derive(Debug)]
struct Away {
    wait: Duration,
    ask_at: Instant,
}

impl Outage {
    pub(super) fn is_there(&self) -> bool {
        self.away.is_some()
    }

    /// How many there were, this one included.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Notes that somebody found no database. Returns whether that is new.
    pub(super) fn begin(&mut self, now: Instant) -> bool {
        if self.is_there() {
            return false;
        }
        self.count += 1;
        self.away = Some(Away { wait: CONSUMER_OUTAGE_WAIT_MIN, ask_at: now + CONSUMER_OUTAGE_WAIT_MIN });
        true
    }

    /// Whether the loop is to ask the database now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.away.as_ref().is_some_and(|away| away.ask_at <= now)
    }

    /// Notes that the loop asked in vain.
    pub(super) fn go_on(&mut self, now: Instant) {
        if let Some(away) = &mut self.away {
            away.wait = (away.wait * 2).min(CONSUMER_OUTAGE_WAIT_MAX);
            away.ask_at = now + away.wait;
        }
    }

    /// Notes that the database answered. Returns whether that ends an outage.
    pub(super) fn end(&mut self) -> bool {
        self.away.take().is_some()
    }
}
