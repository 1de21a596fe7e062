//! Repeated failures: each different one is logged as a warning once a minute, and in between as DEBUG.

use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::limits::{WARNING_REPEAT_INTERVAL, WARNING_TEXTS_MAX};

/// The failures of one kind that were logged as warnings in the last minute. A success does not forget them: what fails now and
/// then would be logged each time.
#[derive(Debug, Default)]
pub(crate) struct Repeated {
    recent: Mutex<Recent>,
}

#[derive(Debug, Default)]
struct Recent {
    /// The text of each failure, and when it was logged.
    warned: Vec<(String, Instant)>,
    /// Whether one was logged since the last success.
    is_failing: bool,
}

impl Repeated {
    /// Whether this failure is worth a warning.
    pub(crate) fn is_news(&self, error: &dyn Display) -> bool {
        let (text, now) = (error.to_string(), Instant::now());
        let mut recent = self.lock();
        recent.warned.retain(|(_, at)| now.duration_since(*at) < WARNING_REPEAT_INTERVAL);
        let is_known = recent.warned.iter().any(|(warned, _)| *warned == text);
        if is_known || recent.warned.len() >= WARNING_TEXTS_MAX {
            return false;
        }
        recent.warned.push((text, now));
        recent.is_failing = true;
        true
    }

    /// Notes a success. Returns whether it ends a failure that was logged.
    pub(crate) fn is_over(&self) -> bool {
        std::mem::take(&mut self.lock().is_failing)
    }

    fn lock(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logs a failure with its event if it is news, and otherwise as DEBUG.
macro_rules! warn_once_a_minute {
    ($event:ident, $repeated:expr, $error:expr $(, $($field:tt)+)?) => {
        if $repeated.is_news(&$error) {
            $crate::events::log_event!($event, error = %$error $(, $($field)+)?)
        } else {
            ::tracing::debug!(
                event = $crate::events::$event.id,
                error = %$error,
                $($($field)+,)?
                "{}",
                $crate::events::$event.text
            )
        }
    };
}

pub(crate) use warn_once_a_minute;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_failure_is_logged_once_a_minute() {
        let repeated = Repeated::default();
        for _ in 0..3 {
            assert!(repeated.is_news(&"refused"));
            tokio::time::advance(WARNING_REPEAT_INTERVAL / 2).await;
            assert!(repeated.is_news(&"timed out"), "another one");
            for _ in 0..3 {
                assert!(!repeated.is_news(&"refused") && !repeated.is_news(&"timed out"));
            }
            tokio::time::advance(WARNING_REPEAT_INTERVAL / 2 - Duration::from_millis(1)).await;
            assert!(!repeated.is_news(&"refused"));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failures_that_alternate_are_each_logged_once_a_minute() {
        let repeated = Repeated::default();
        let mut warned = [0, 0];
        for _ in 0..10 {
            for _ in 0..60 {
                for (count, text) in warned.iter_mut().zip(["refused", "timed out"]) {
                    *count += usize::from(repeated.is_news(&text));
                }
                tokio::time::advance(WARNING_REPEAT_INTERVAL / 60).await;
            }
        }
        assert_eq!(warned, [10, 10], "neither silences the other");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_comes_and_goes_is_logged_once_a_minute() {
        let repeated = Repeated::default();
        assert!(!repeated.is_over(), "nothing failed");
        let mut ended = 0;
        let mut warned = 0;
        for second in 0..120 {
            warned += usize::from(repeated.is_news(&["refused", "timed out"][second % 2]));
            ended += usize::from(repeated.is_over());
            tokio::time::advance(WARNING_REPEAT_INTERVAL / 60).await;
        }
        assert_eq!((warned, ended), (4, 4), "two failures in two minutes");
    }

    #[tokio::test(start_paused = true)]
    async fn texts_that_never_repeat_are_no_flood() {
        let repeated = Repeated::default();
        let warned = (0..1_000).filter(|number| repeated.is_news(number)).count();
        assert_eq!(warned, WARNING_TEXTS_MAX);
        tokio::time::advance(WARNING_REPEAT_INTERVAL).await;
        assert!(repeated.is_news(&1_001));
    }
}
