//! What is due, and when the next row is: what the relay asks all the time.

use std::sync::Arc;
use std::time::Duration;

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use crate::limits::POLL_AHEAD_MAX;

/// A `due_at` of the database's clock, as a store compares it; opaque to the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DueWatermark(pub i64);

impl DueWatermark {
    /// The first mark behind this one. Behind the lowest it is the lowest: that is what `-infinity` is to PostgreSQL, and the one
    /// above it is no instant there.
    pub(crate) fn next(self) -> i64 {
        if self.0 == i64::MIN { i64::MIN } else { self.0.saturating_add(1) }
    }
}

/// What to look for.
///
/// ```
/// use diesel_outbox::store::PollSpec;
/// let spec = PollSpec::everything(["orders".into()]);
/// assert_eq!(spec.topics.len(), 1);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollSpec {
    /// Of which topics, and from where on.
    pub topics: Vec<PollTopic>,
    /// Rows that fall due later than this from now are not looked for: beyond them, too, there may be index entries of rows
    /// that are gone.
    pub ahead: Duration,
    /// Slack of the watermark that the look returns.
    pub watermark_slack_duration: Duration,
}

impl PollSpec {
    /// All that there is of these topics, however far ahead.
    pub fn everything(topics: impl IntoIterator<Item = Arc<str>>) -> Self {
        let topics = topics.into_iter().map(|topic| PollTopic { topic, from: PollFrom::Beginning }).collect();
        Self { topics, ahead: Duration::MAX, watermark_slack_duration: Duration::ZERO }
    }

    /// How far ahead, so that every database can count that far.
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    pub(crate) fn bounded_ahead(&self) -> Duration {
        self.ahead.min(POLL_AHEAD_MAX)
    }
}

/// A topic, and where its rows are looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollTopic {
    /// The topic.
    pub topic: Arc<str>,
    /// From where on.
    pub from: PollFrom,
}

/// Where a look begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollFrom {
    /// At the first row.
    Beginning,
    /// Behind this mark: rows due at or before it are known to be gone. A hint that spares walking over dead index entries.
    After(DueWatermark),
    /// At rows that fell due so long ago at most.
    Past(Duration),
}

impl PollFrom {
    /// The first mark that is looked at, or how far back from now.
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    pub(crate) fn bounds(self) -> (Option<i64>, Option<Duration>) {
        match self {
            Self::Beginning => (Some(i64::MIN), None),
            Self::After(mark) => (Some(mark.next()), None),
            Self::Past(past) => (None, Some(past.min(POLL_AHEAD_MAX))),
        }
    }
}

/// What a look finds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PollResult {
    /// When the earliest row of each topic is due; a topic without rows in that range is left out.
    pub due: Vec<NextDue>,
    /// The topics that are paused ([`AdminStore::pause`](super::AdminStore::pause)); none in a store that knows no pauses.
    pub paused: Vec<Arc<str>>,
    /// What range of each topic was looked at: of every topic that was asked for.
    pub ranges: Vec<PollRange>,
}

impl PollResult {
    /// What was found of each topic.
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    pub(crate) fn of(topics: impl IntoIterator<Item = TopicPoll>) -> Self {
        let mut result = Self::default();
        for TopicPoll { due, is_paused, range } in topics {
            result.due.extend(due);
            result.paused.extend(is_paused.then(|| Arc::clone(&range.topic)));
            result.ranges.push(range);
        }
        result
    }
}

/// What a look finds of one topic.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
#[derive(Debug)]
pub(crate) struct TopicPoll {
    pub(crate) due: Option<NextDue>,
    pub(crate) is_paused: bool,
    pub(crate) range: PollRange,
}

/// When a topic's earliest rows are due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextDue {
    /// The topic.
    pub topic: Arc<str>,
    /// How long until then; zero where it is due.
    pub due_in: Duration,
    /// For how long it has been due; zero where it is not.
    pub overdue_by: Duration,
    /// How long until the earliest row falls due that is not due yet; `None` where the look found none.
    pub later_in: Option<Duration>,
}

/// The rows of a topic that a look went over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollRange {
    /// The topic.
    pub topic: Arc<str>,
    /// Nothing at or before it was looked at.
    pub after: DueWatermark,
    /// Where the next look and the next claim may begin. Between `after` and this there is no row, whoever holds it. A row whose
    /// transaction is still open lies behind it, if its `due_at` was set less than the slack ago.
    pub watermark: DueWatermark,
}

impl PollRange {
    /// Of a look at `now` that began at `from`, in units of the store's marks.
    pub(crate) fn new(topic: &Arc<str>, from: i64, now: i64, first_due_at: Option<i64>, slack: i64) -> Self {
        let watermark = watermark(now, first_due_at, slack);
        Self { topic: Arc::clone(topic), after: DueWatermark(from.saturating_sub(1)), watermark }
    }
}

/// Nothing is left below the first row that is there, locked or not; and a row whose transaction is still open may have its
/// `due_at` as far back as the slack says.
pub(crate) fn watermark(now: i64, first_due_at: Option<i64>, slack: i64) -> DueWatermark {
    let below_first = first_due_at.map_or(i64::MAX, |first| first.saturating_sub(1));
    DueWatermark(now.saturating_sub(slack).min(below_first))
}
