//! Time as leases are measured: a clock that counts while the machine sleeps, and that nobody sets.

#![cfg_attr(not(feature = "_internals"), allow(unreachable_pub, reason = "only our own tools replace the clock"))]

use std::fmt;
use std::ops::{Add, Sub};
use std::time::{Duration, SystemTime};

/// A moment on a [`Clock`], comparable only with moments of the same clock.
///
/// Not [`std::time::Instant`]: on Linux that one stands still while the machine is suspended, and a holder that wakes
/// up would believe that its lease goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootInstant(Duration);

impl BootInstant {
    /// The moment `since_boot` after the clock's beginning.
    pub const fn from_boot(since_boot: Duration) -> Self {
        Self(since_boot)
    }

    /// The time from `self` until `later`, or zero where that lies behind.
    pub fn until(self, later: Self) -> Duration {
        later.0.saturating_sub(self.0)
    }
}

impl Add<Duration> for BootInstant {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

/// Saturates at the clock's beginning: a lease that would end before it has ended.
impl Sub<Duration> for BootInstant {
    type Output = Self;
    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(duration))
    }
}

/// Where a relay reads the time; replaced in tests.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Now.
    fn now(&self) -> BootInstant;
}

/// The machine's clock: `CLOCK_BOOTTIME` on Linux, the monotonic clock elsewhere.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> BootInstant {
        BootInstant(since_boot())
    }
}

#[cfg(unix)]
fn since_boot() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let reading = clock_gettime(ClockId::Boottime);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let reading = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(reading.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(reading.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}

/// Since the first call. On Windows the counter behind `Instant` goes on while the machine sleeps.
#[cfg(not(unix))]
fn since_boot() -> Duration {
    static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    FIRST.get_or_init(std::time::Instant::now).elapsed()
}

/// The machine's date: for what people and brokers read, never for a lease, because it can be set.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's date")]
pub(crate) fn system_now() -> SystemTime {
    SystemTime::now()
}

/// Whole milliseconds, as statements take times.
#[cfg_attr(not(any(feature = "postgres", feature = "mysql", feature = "sqlite")), allow(dead_code))]
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
