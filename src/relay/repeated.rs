//! Continuing failures. Each different one is logged as a warning at first and then once a minute, and in between as DEBUG.

use tokio::time::Instant;

use crate::limits::{WARNING_REPEAT_INTERVAL, WARNING_TEXTS_MAX};

/// The failures that one task has logged since its last success.
#[derive(Debug, Default)]
pub(crate) struct Repeated {
    texts: Vec<String>,
    warned_at: Option<Instant>,
}

impl Repeated {
    /// Whether this failure is worth a warning.
    pub(crate) fn is_news(&mut self, error: &dyn std::fmt::Display) -> bool {
        let text = error.to_string();
        let is_due = self.warned_at.is_none_or(|at| at.elapsed() >= WARNING_REPEAT_INTERVAL);
        let is_new = !self.texts.contains(&text) && self.texts.len() < WARNING_TEXTS_MAX;
        if is_new {
            self.texts.push(text);
        }
        if is_due || is_new {
            self.warned_at = Some(Instant::now());
        }
        is_due || is_new
    }

    /// Notes a success.
    pub(crate) fn end(&mut self) {
        self.is_over();
    }

    /// Notes a success. Returns whether it ends a failure.
    pub(crate) fn is_over(&mut self) -> bool {
        std::mem::take(self).warned_at.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_failure_is_logged_once_and_again_after_a_while() {
        let mut repeated = Repeated::default();
        assert!(!repeated.is_over());
        assert!(repeated.is_news(&"refused"));
        assert!(repeated.is_news(&"timed out"), "another one");
        for _ in 0..3 {
            assert!(!repeated.is_news(&"refused") && !repeated.is_news(&"timed out"));
        }
        tokio::time::advance(WARNING_REPEAT_INTERVAL - Duration::from_millis(1)).await;
        assert!(!repeated.is_news(&"refused"));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(repeated.is_news(&"refused") && !repeated.is_news(&"timed out"));
        assert!(repeated.is_over() && !repeated.is_over());
        assert!(repeated.is_news(&"refused"), "another outage");
    }

    #[tokio::test(start_paused = true)]
    async fn texts_that_never_repeat_are_no_flood() {
        let mut repeated = Repeated::default();
        let warned = (0..1_000).filter(|number| repeated.is_news(number)).count();
        assert_eq!(warned, WARNING_TEXTS_MAX);
    }
}
