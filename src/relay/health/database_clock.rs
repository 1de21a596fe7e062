//! What time it is in the database: each poll reads it, and tells how far it is from the relay's own clock.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use crate::clock::BootInstant;
use crate::limits::DATABASE_CLOCK_AGING;

const BOOT: BootInstant = BootInstant::from_boot(Duration::ZERO);

/// Before the first reading.
const UNKNOWN: i64 = i64::MIN;

/// The database's clock, for metrics only. Rows are timed by the database itself.
#[derive(Debug)]
pub(crate) struct DatabaseClock {
    /// Nanoseconds from the relay's clock to the time since 1970 in the database.
    offset: AtomicI64,
    reading: Mutex<Option<Reading>>,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    read_at: BootInstant,
    /// How far it may be off.
    error: Duration,
}

impl Reading {
    /// How far it may be off by `now`, when the clocks have drifted apart.
    fn error_at(self, now: BootInstant) -> Duration {
        self.error + self.read_at.until(now) / DATABASE_CLOCK_AGING
    }
}

impl Default for DatabaseClock {
    fn default() -> Self {
        Self { offset: AtomicI64::new(UNKNOWN), reading: Mutex::default() }
    }
}

impl DatabaseClock {
    /// Notes that the database's clock showed `time` at some moment between the two. A reading that took long, because the
    /// statement waited for a connection, replaces none that is more exact.
    pub(crate) fn note(&self, time: SystemTime, asked_at: BootInstant, answered_at: BootInstant) {
        let error = asked_at.until(answered_at) / 2;
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if reading.is_none_or(|known| error <= known.error_at(answered_at)) {
            let since_boot = nanos(BOOT.until(asked_at + error));
            self.offset.store(since_1970(time).saturating_sub(since_boot), Ordering::Relaxed);
            *reading = Some(Reading { read_at: answered_at, error });
        }
    }

    /// How long ago `time` of the database's clock was, at `now`: zero if it is ahead; `None` before the first reading.
    pub(crate) fn since(&self, time: SystemTime, now: BootInstant) -> Option<Duration> {
        let offset = self.offset.load(Ordering::Relaxed);
        let passed = nanos(BOOT.until(now)).saturating_add(offset).saturating_sub(since_1970(time));
        (offset != UNKNOWN).then(|| Duration::from_nanos(u64::try_from(passed).unwrap_or(0)))
    }
}

fn since_1970(time: SystemTime) -> i64 {
    nanos(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noon() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    fn at(ms: u64) -> BootInstant {
        BootInstant::from_boot(Duration::from_secs(100) + Duration::from_millis(ms))
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_reading_lies_in_the_middle_and_nothing_is_known_before_it() {
        let clock = DatabaseClock::default();
        assert_eq!(clock.since(noon(), at(0)), None);
        clock.note(noon(), at(0), at(10));
        assert_eq!(clock.since(noon(), at(1_005)), Some(ms(1_000)));
        assert_eq!(clock.since(noon() - ms(500), at(1_005)), Some(ms(1_500)));
        assert_eq!(clock.since(noon() + ms(2_000), at(1_005)), Some(Duration::ZERO), "never negative");
    }

    /// By the machine's clock the row would be as old as the machine runs.
    #[test]
    fn a_row_from_before_the_machine_was_started_has_its_age() {
        let clock = DatabaseClock::default();
        clock.note(noon(), at(0), at(0));
        let day = Duration::from_secs(86_400);
        assert_eq!(clock.since(noon() - day, at(0)), Some(day));
    }

    #[test]
    fn a_slow_poll_replaces_no_better_reading_and_a_quick_one_follows_a_clock_that_was_set() {
        let clock = DatabaseClock::default();
        clock.note(noon(), at(0), at(2));
        clock.note(noon(), at(10), at(2_010));
        assert_eq!(clock.since(noon(), at(1_001)), Some(ms(1_000)), "the statement waited for a connection");
        clock.note(noon() + ms(60_000), at(1_100), at(1_102));
        assert_eq!(clock.since(noon(), at(1_101)), Some(ms(60_000)));
    }

    #[test]
    fn a_reading_becomes_less_exact_and_a_worse_one_replaces_it() {
        let clock = DatabaseClock::default();
        clock.note(noon(), at(0), at(0));
        clock.note(noon() + ms(70_000), at(59_990), at(60_010));
        assert_eq!(clock.since(noon(), at(60_000)), Some(ms(70_000)), "10 ms are less than a thousandth of a minute");
    }
}
