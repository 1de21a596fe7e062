//! How long a failed message waits for its next attempt.

#[cfg(feature = "serde")]
mod configured;

use std::fmt;
use std::time::Duration;

use backoff::backoff::Backoff as _;

#[cfg(feature = "serde")]
pub(crate) use self::configured::RetryConfig;
use crate::injected_bugs::{InjectedBug, is_injected};
use crate::limits::{BACK_OFF_MAX, BACK_OFF_MIN, RETRY_WAIT_MAX};
use crate::panic_guard::catch_panic;

/// The wait before the next attempt, as a function of the number of failures.
///
/// The row stores the count, so a policy has no state and survives restarts.
///
/// ```
/// use std::time::Duration;
/// use diesel_outbox::retry::RetryPolicy;
///
/// /// Tries again at once three times, then every hour.
/// #[derive(Debug)]
/// struct Impatient;
///
/// impl RetryPolicy for Impatient {
///     fn wait(&self, failures: u32) -> Duration {
///         if failures <= 3 { Duration::ZERO } else { Duration::from_secs(3_600) }
///     }
/// }
/// assert_eq!(Impatient.wait(4), Duration::from_secs(3_600));
/// ```
pub trait RetryPolicy: fmt::Debug + Send + Sync + 'static {
    /// The wait after failure number `failures`, counted from 1. A longer wait than a year is cut to a year.
    ///
    /// # Panics
    /// It should not panic. If it does, the message waits as [`Exponential::default`] says, and
    /// `outbox_call_panicked_total` counts it. `Duration::from_secs_f64(2_f64.powi(n))` panics from n = 64 on: bound
    /// the exponent, or use [`Exponential`].
    fn wait(&self, failures: u32) -> Duration;
}

/// The wait of a topic's policy, at most [`RETRY_WAIT_MAX`]. If the policy panics, the default policy applies.
pub(crate) fn retry_wait(policy: &dyn RetryPolicy, topic: &str, failures: u32) -> Duration {
    if is_injected(InjectedBug::PolicyUnguarded) {
        return bounded(policy.wait(failures));
    }
    let wait = catch_panic("retry_policy", topic, || policy.wait(failures));
    bounded(wait.unwrap_or_else(|| Exponential::default().wait(failures)))
}

/// A wait that every database can add to its clock: a longer one would fail the whole batch that it is written with.
pub(crate) fn bounded(wait: Duration) -> Duration {
    wait.min(RETRY_WAIT_MAX)
}

/// Doubles with each failure up to a bound, with jitter on top: the default.
///
/// ```
/// use std::time::Duration;
/// use diesel_outbox::retry::{Exponential, RetryPolicy};
/// let policy = Exponential::new(Duration::from_secs(1), Duration::from_secs(600));
/// let third = policy.wait(3);
/// assert!(third >= Duration::from_secs(2) && third <= Duration::from_secs(6), "4 s, give or take half");
/// ```
#[derive(Debug, Clone)]
pub struct Exponential {
    initial: Duration,
    max: Duration,
    multiplier: f64,
    jitter: f64,
}

impl Exponential {
    /// Starts at `initial` and doubles up to `max`. Each wait is then randomly 50 % shorter to 50 % longer, so the longest
    /// is 1.5 times `max`.
    pub const fn new(initial: Duration, max: Duration) -> Self {
        Self { initial, max, multiplier: 2.0, jitter: 0.5 }
    }

    /// Grows by a factor other than 2; one below 1 counts as 1.
    #[must_use]
    pub const fn multiplier(mut self, factor: f64) -> Self {
        self.multiplier = factor.max(1.0);
        self
    }

    /// The share by which a wait is randomly shortened or lengthened, from 0 (none) to 1.
    #[must_use]
    pub const fn jitter(mut self, share: f64) -> Self {
        self.jitter = share.clamp(0.0, 1.0);
        self
    }
}

impl Default for Exponential {
    /// From one second to ten minutes.
    fn default() -> Self {
        Self::new(BACK_OFF_MIN, BACK_OFF_MAX)
    }
}

impl RetryPolicy for Exponential {
    fn wait(&self, failures: u32) -> Duration {
        let steps = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX);
        let grown = self.initial.as_secs_f64() * self.multiplier.powi(steps);
        let bounded = bounded(Duration::try_from_secs_f64(grown).unwrap_or(self.max).min(self.max));
        // The crate's growth is stateful, but rows are not, so it only computes the jitter of this one step.
        let mut schedule = backoff::ExponentialBackoffBuilder::new()
            .with_initial_interval(bounded)
            .with_max_interval(bounded)
            .with_randomization_factor(self.jitter)
            .with_max_elapsed_time(None)
            .build();
        schedule.next_backoff().unwrap_or(bounded)
    }
}

/// A list of waits, the last of which repeats.
///
/// ```
/// use std::time::Duration;
/// use diesel_outbox::retry::{Fixed, RetryPolicy};
/// let policy = Fixed::seconds(&[10, 30, 60, 120, 300]);
/// assert_eq!(policy.wait(2), Duration::from_secs(30));
/// assert_eq!(policy.wait(9), Duration::from_secs(300));
/// ```
#[derive(Debug, Clone)]
pub struct Fixed(Vec<Duration>);

impl Fixed {
    /// Waits these seconds after the first, second, .. failure. An empty list never waits.
    pub fn seconds(waits: &[u64]) -> Self {
        Self(waits.iter().copied().map(Duration::from_secs).collect())
    }
}

impl From<Vec<Duration>> for Fixed {
    fn from(waits: Vec<Duration>) -> Self {
        Self(waits)
    }
}

impl RetryPolicy for Fixed {
    fn wait(&self, failures: u32) -> Duration {
        let step = usize::try_from(failures.saturating_sub(1)).unwrap_or(usize::MAX);
        self.0.get(step).or(self.0.last()).copied().unwrap_or(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{ATTEMPTS_MAX, CONSUMER_ATTEMPTS_MAX};

    #[derive(Debug)]
    struct FnPolicy(fn(u32) -> Duration);

    impl RetryPolicy for FnPolicy {
        fn wait(&self, failures: u32) -> Duration {
            (self.0)(failures)
        }
    }

    /// As the documentation of the limits says: the last attempt has no wait behind it.
    #[test]
    fn default_attempts_span_minutes() {
        let policy = Exponential::default().jitter(0.0);
        let span = |attempts: u32| (1..attempts).map(|failures| policy.wait(failures)).sum::<Duration>();
        assert_eq!(span(ATTEMPTS_MAX), Duration::from_secs(1_623), "about half an hour");
        assert_eq!(span(CONSUMER_ATTEMPTS_MAX), Duration::from_secs(511), "eight and a half minutes");
    }

    #[test]
    fn policy_waits_are_bounded() {
        let for_ever = Exponential::new(Duration::MAX, Duration::MAX).jitter(1.0);
        for policy in [&FnPolicy(|_| Duration::MAX) as &dyn RetryPolicy, &for_ever] {
            assert!(retry_wait(policy, "orders", u32::MAX) <= RETRY_WAIT_MAX, "{policy:?}");
        }
        assert_eq!(retry_wait(&FnPolicy(|_| RETRY_WAIT_MAX), "orders", 1), RETRY_WAIT_MAX);
        assert_eq!(retry_wait(&Fixed::seconds(&[7]), "orders", 1), Duration::from_secs(7));
    }

    #[test]
    fn a_policy_that_panics_is_the_default_one() {
        let doubles = FnPolicy(|failures| Duration::from_secs_f64(2_f64.powi(failures.cast_signed())));
        assert_eq!(retry_wait(&doubles, "orders", 3), Duration::from_secs(8));
        let wait = retry_wait(&doubles, "orders", 64);
        assert!(wait >= BACK_OFF_MAX / 2 && wait <= BACK_OFF_MAX * 2, "{wait:?}");
    }
}
