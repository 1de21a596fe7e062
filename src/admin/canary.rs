use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::{AdminError, DeadLetter, RedriveRate};
use crate::limits::{CANARY_OUTCOME_TIMEOUT, CANARY_STEPS};
use crate::message::MessageId;

/// How [`Admin::redrive_canary`](super::Admin::redrive_canary) goes: 1 message, then 10, then 100, then the rest, and it halts as
/// soon as one of them is dead-lettered again.
///
/// ```
/// use std::time::Duration;
/// use diesel_outbox::admin::{Canary, RedriveRate};
/// let slowly = RedriveRate::default().per_second(50);
/// let canary = Canary::default().steps([5, 50]).dead_max(1).outcome_within(Duration::from_secs(300)).rate(slowly);
/// assert_ne!(canary, Canary::default());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canary {
    pub(super) steps: Vec<usize>,
    pub(super) dead_max: usize,
    pub(super) outcome_within: Duration,
    pub(super) rate: RedriveRate,
}

impl Default for Canary {
    fn default() -> Self {
        Self {
            steps: CANARY_STEPS.to_vec(),
            dead_max: 0,
            outcome_within: CANARY_OUTCOME_TIMEOUT,
            rate: RedriveRate::default(),
        }
    }
}

impl Canary {
    /// How many messages each step redrives. A last step redrives the rest.
    #[must_use]
    pub fn steps(mut self, steps: impl IntoIterator<Item = usize>) -> Self {
        self.steps = steps.into_iter().collect();
        self
    }

    /// How many messages of a step may be dead-lettered again before it halts. By default none.
    #[must_use]
    pub fn dead_max(mut self, messages: usize) -> Self {
        self.dead_max = messages;
        self
    }

    /// How long a step waits, once its messages are redriven, until each was sent or dead-lettered again; by default a minute. If
    /// some were neither, it halts. A message that fails and is to be tried again later is neither, so give the time of all its
    /// attempts, if you want to wait for them.
    #[must_use]
    pub fn outcome_within(mut self, wait: Duration) -> Self {
        self.outcome_within = wait;
        self
    }

    /// How fast a step redrives its messages.
    #[must_use]
    pub fn rate(mut self, rate: RedriveRate) -> Self {
        self.rate = rate;
        self
    }

    pub(super) fn check(&self) -> Result<(), AdminError> {
        if self.steps.contains(&0) { Err(AdminError::EmptyStep) } else { Ok(()) }
    }
}

/// What a canary redrive did. From [`Admin::redrive_canary`](super::Admin::redrive_canary).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CanaryReport {
    /// The steps. If it has halted, the last one is that at which it did.
    pub steps: Vec<CanaryStep>,
    /// Why it has halted; `None` if nothing is left to redrive.
    pub halt: Option<CanaryHalt>,
    /// The messages that were dead-lettered again, with their reasons: at most 100 of them.
    pub dead_again: Vec<DeadLetter>,
    /// The messages that were neither sent nor dead-lettered again when it ended: at most 100 of them.
    pub pending: Vec<MessageId>,
}

impl CanaryReport {
    /// How many messages all steps have redriven. They stay redriven, whatever became of them.
    pub fn redriven(&self) -> usize {
        self.steps.iter().map(|step| step.redriven).sum()
    }
}

/// One step of a canary redrive, as it ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CanaryStep {
    /// How many messages it has redriven.
    pub redriven: usize,
    /// How many of them were sent.
    pub sent: usize,
    /// How many of them were dead-lettered again.
    pub dead_again: usize,
    /// How many of them were still live.
    pub pending: usize,
}

/// Why a canary redrive has halted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CanaryHalt {
    /// More messages of the step were dead-lettered again than it may have.
    DeadAgain,
    /// Messages of the step were neither sent nor dead-lettered again in time: they wait for their next attempt, or behind another
    /// message of their key, or no relay sends them.
    TimedOut {
        /// Those of their topics that are paused.
        paused: Vec<Arc<str>>,
    },
}

#[cfg(test)]
mod tests;
