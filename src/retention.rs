//! What a topic keeps after a message is done, and for how long: sent messages and dead letters.

use std::fmt;
use std::time::Duration;

use crate::limits::{KEEP_DAYS_MAX, PROCESSED_WITHIN_MIN};

/// A day, as retention counts it.
pub(crate) const DAY: Duration = Duration::from_secs(24 * 3_600);

/// A topic's retention settings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Retention {
    /// For how many days a sent message is kept; `None`: not at all.
    pub(crate) sent_days: Option<u32>,
    /// For how many days a dead letter is kept; `None`: until somebody handles it.
    pub(crate) dead_days: Option<u32>,
    /// The time within which consumers report a message as processed, if they do.
    pub(crate) processed_within: Option<Duration>,
}

/// What is recorded of the operations of [`Admin`](crate::admin::Admin).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AuditPolicy {
    /// Whether an operation is refused that cannot be recorded.
    pub(crate) is_required: bool,
    /// For how many days an entry is kept; `None`: for ever.
    pub(crate) days: Option<u32>,
}

/// How a sent message is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Keep {
    /// For at least this many days, and less than one more.
    pub days: u32,
    /// Whether its consumer reports when it has processed it.
    pub awaits_processing: bool,
}

impl Retention {
    /// How sent messages are kept, if they are.
    pub(crate) fn keep(&self) -> Option<Keep> {
        self.sent_days.map(|days| Keep { days, awaits_processing: self.processed_within.is_some() })
    }

    /// Checks that the times fit together.
    ///
    /// `dead_days` is the time in which a dead letter may be redriven. The history must reach as far, so that people
    /// can see what was sent of its key since. Without `dead_days` there is no such time: dead letters wait for
    /// somebody, and the history would have to be endless. That is allowed, because a redrive needs no history: a dead
    /// letter holds all that it needs, and is in no history before it is sent.
    pub(crate) fn check(&self) -> Result<(), RetentionProblem> {
        let Self { sent_days, dead_days, processed_within } = *self;
        for (setting, days) in [("keep_sent_days", sent_days), ("keep_dead_days", dead_days)] {
            if let Some(days) = days.filter(|days| !(1..=KEEP_DAYS_MAX).contains(days)) {
                return Err(RetentionProblem::Days { setting, days });
            }
        }
        if let Some(window) = processed_within {
            let Some(days) = sent_days else { return Err(RetentionProblem::NoHistory) };
            if window < PROCESSED_WITHIN_MIN {
                return Err(RetentionProblem::WindowTooShort { window });
            }
            if window >= DAY * days {
                return Err(RetentionProblem::WindowTooLong { window, days });
            }
        }
        match (sent_days, dead_days) {
            (Some(sent), Some(dead)) if sent < dead => Err(RetentionProblem::BelowDead { sent, dead }),
            _ => Ok(()),
        }
    }
}

/// What is wrong with a topic's retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetentionProblem {
    Days { setting: &'static str, days: u32 },
    NoHistory,
    WindowTooShort { window: Duration },
    WindowTooLong { window: Duration, days: u32 },
    BelowDead { sent: u32, dead: u32 },
}

impl fmt::Display for RetentionProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Days { setting: setting @ "keep_sent_days", days } => {
                write!(f, "{setting} is {days}; give 1 to {KEEP_DAYS_MAX}, or leave it out to delete sent messages")
            }
            Self::Days { setting, days } => {
                write!(f, "{setting} is {days}; give 1 to {KEEP_DAYS_MAX}, or leave it out to keep dead letters")
            }
            Self::NoHistory => {
                f.write_str("processed_within needs a history: add .keep_sent_days(..), longer than processed_within")
            }
            Self::WindowTooShort { window } => write!(
                f,
                "processed_within is {window:?}; use at least {PROCESSED_WITHIN_MIN:?}: otherwise every message is late as soon as it is sent"
            ),
            Self::WindowTooLong { window, days } => write!(
                f,
                "processed_within is {window:?} and keep_sent_days is {days}: messages would leave the history before anybody \
                 could see that they were not processed; keep them for longer"
            ),
            Self::BelowDead { sent, dead } => write!(
                f,
                "keep_sent_days is {sent} and keep_dead_days is {dead}: a dead letter could be redriven when nobody can look up \
                 any more what was sent since; keep sent messages for {dead} days or more, or dead letters for {sent} or less"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::Outbox;
    use crate::topic::Topic;

    fn refused(topic: Topic) -> String {
        Outbox::builder().topic(topic).build().expect_err("it makes no sense").to_string()
    }

    #[test]
    fn invalid_topics_are_refused_with_a_remedy() {
        let topic = || Topic::new("orders");
        let minute = Duration::from_secs(60);
        for (topic, setting, remedy) in [
            (topic().keep_sent_days(0), "keep_sent_days is 0", "give 1 to 3653"),
            (topic().keep_sent_days(4_000), "keep_sent_days is 4000", "give 1 to 3653"),
            (topic().keep_dead_days(0), "keep_dead_days is 0", "leave it out"),
            (topic().processed_within(minute), "processed_within", "add .keep_sent_days"),
            (topic().keep_sent_days(1).processed_within(Duration::ZERO), "processed_within is 0ns", "at least 1s"),
            (topic().keep_sent_days(1).processed_within(DAY), "keep_sent_days is 1", "keep them for longer"),
            (topic().keep_sent_days(7).keep_dead_days(30), "keep_dead_days is 30", "for 30 days or more"),
        ] {
            let text = refused(topic);
            assert!(text.contains("\"orders\"") && text.contains(setting) && text.contains(remedy), "{text}");
        }
    }

    #[test]
    fn valid_topics_are_accepted() {
        let topic = || Topic::new("orders");
        for topic in [
            topic(),
            // Dead letters then wait for ever, and a redrive reads nothing but them.
            topic().keep_sent_days(1),
            topic().keep_dead_days(1),
            topic().keep_sent_days(30).keep_dead_days(30),
            topic().keep_sent_days(KEEP_DAYS_MAX).processed_within(DAY * 30),
        ] {
            assert_eq!(topic.check(), Ok(()));
        }
    }
}
