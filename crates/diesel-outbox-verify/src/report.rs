use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;

use crate::doubt::Doubt;
use crate::finding::Finding;
use crate::serialize::{instant, instant_or_none};
use crate::source::Partition;

/// What a verification has found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The topic.
    pub topic: Arc<str>,
    /// Messages enqueued from then on were compared; `None`: all that the history has.
    #[serde(serialize_with = "instant_or_none")]
    pub since: Option<SystemTime>,
    /// Messages enqueued before then were compared, by the database's clock.
    #[serde(serialize_with = "instant")]
    pub until: SystemTime,
    /// What was compared.
    pub compared: Compared,
    /// How many messages got each verdict.
    pub counts: Counts,
    /// The first findings of each verdict.
    pub findings: Vec<Finding>,
    /// What cannot be told, and why.
    pub cannot_tell: Vec<Doubt>,
}

/// What was compared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Compared {
    /// Rows of the history.
    pub sent: u64,
    /// Dead letters.
    pub dead_letters: u64,
    /// Live rows.
    pub live: u64,
    /// Records of the topic.
    pub records: u64,
    /// Messages that have both a row and a record, or that their consumer has reported as processed.
    pub matched: u64,
    /// The partitions, and which offsets of each were read.
    pub partitions: Vec<Partition>,
}

/// How many messages got each verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// [`Finding::Lost`]
    pub lost: Count,
    /// [`Finding::Unprocessed`]
    pub unprocessed: Count,
    /// [`Finding::Phantom`]
    pub phantom: Count,
    /// [`Finding::Reordered`]
    pub reordered: Count,
    /// [`Finding::Altered`]
    pub altered: Count,
    /// [`Finding::Early`]
    pub early: Count,
    /// [`Finding::Doubled`], which is allowed.
    pub doubled: Count,
}

/// A count that may have stopped at a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Count {
    /// How many there are at least.
    pub count: u64,
    /// Whether there may be more: further candidates were not looked up.
    pub more: bool,
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at_least = if self.more { "at least " } else { "" };
        write!(f, "{at_least}{}", self.count)
    }
}

impl Counts {
    /// The verdicts and their counts, the worst first.
    pub fn by_verdict(&self) -> [(&'static str, Count); 7] {
        [
            ("lost", self.lost),
            ("unprocessed", self.unprocessed),
            ("phantom", self.phantom),
            ("reordered", self.reordered),
            ("altered", self.altered),
            ("early", self.early),
            ("doubled", self.doubled),
        ]
    }
}

impl Report {
    /// Whether table and topic agree: nothing was found but copies, and nothing is left open. A comparison of nothing is not clean.
    pub fn is_clean(&self) -> bool {
        !self.has_found() && self.cannot_tell.is_empty()
    }

    /// Whether something is wrong.
    pub fn has_found(&self) -> bool {
        // A candidate that was not looked up may be none.
        self.counts.by_verdict().iter().any(|(verdict, count)| *verdict != "doubled" && (count.count > 0 || count.more))
    }
}
