//! What is due, and when the next row is: the relay polls for this all the time.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use crate::limits::POLL_AHEAD_MAX;

/// A `due_at` of the database's clock, in the store's own unit; opaque to the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DueWatermark(pub i64);

impl DueWatermark {
    /// The first instant after this one, except that the lowest stays: it is PostgreSQL's `-infinity`, and the value above it is no
    /// valid instant there.
    pub(crate) fn next(self) -> i64 {
        if self.0 == i64::MIN { i64::MIN } else { self.0.saturating_add(1) }
    }
}

/// What to poll for.
///
/// ```
/// use diesel_outbox::internals::store::PollSpec;
/// let spec = PollSpec::everything(["orders".into()]);
/// assert_eq!(spec.topics.len(), 1);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollSpec {
    /// The topics, and where the poll of each begins.
    pub topics: Vec<PollTopic>,
    /// Rows due later than this from now are not read: that range, too, may hold index entries of rows that are gone.
    pub ahead: Duration,
    /// Slack of the watermark that the poll returns.
    pub watermark_slack_duration: Duration,
}

impl PollSpec {
    /// All rows of these topics, however far ahead.
    pub fn everything(topics: impl IntoIterator<Item = Arc<str>>) -> Self {
        let topics = topics.into_iter().map(|topic| PollTopic { topic, from: PollFrom::Beginning }).collect();
        Self { topics, ahead: Duration::MAX, watermark_slack_duration: Duration::ZERO }
    }

    /// How far ahead, limited to what every database can compute.
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    pub(crate) fn bounded_ahead(&self) -> Duration {
        self.ahead.min(POLL_AHEAD_MAX)
    }
}

/// A topic, and where its poll begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollTopic {
    /// The topic.
    pub topic: Arc<str>,
    /// Where the poll begins.
    pub from: PollFrom,
}

/// Where a poll begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollFrom {
    /// At the first row.
    Beginning,
    /// After this watermark: rows due at or before it are known to be gone. A hint that saves reading dead index entries.
    After(DueWatermark),
    /// At rows that became due at most this long ago.
    Past(Duration),
}

impl PollFrom {
    /// The first instant to read, or how far back from now.
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    pub(crate) fn bounds(self) -> (Option<i64>, Option<Duration>) {
        match self {
            Self::Beginning => (Some(i64::MIN), None),
            Self::After(mark) => (Some(mark.next()), None),
            Self::Past(past) => (None, Some(past.min(POLL_AHEAD_MAX))),
        }
    }
}

/// The result of a poll.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PollResult {
    /// When the earliest row of each topic is due. A topic without rows in its range is left out.
    pub due: Vec<NextDue>,
    /// The paused topics ([`AdminStore::pause`](super::AdminStore::pause)); none in a store without pauses.
    pub paused: Vec<Arc<str>>,
    /// The range that was read, for every topic of the poll.
    pub ranges: Vec<PollRange>,
    /// When it was read, by the database's clock; `None` of no topics.
    pub read_at: Option<SystemTime>,
}

impl PollResult {
    /// Collects the results of the topics.
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    pub(crate) fn of(topics: impl IntoIterator<Item = TopicPoll>) -> Self {
        let mut result = Self::default();
        for TopicPoll { due, is_paused, range, read_at } in topics {
            result.read_at = read_at;
            result.due.extend(due);
            result.paused.extend(is_paused.then(|| Arc::clone(&range.topic)));
            result.ranges.push(range);
        }
        result
    }
}

/// What a poll finds of one topic.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
#[derive(Debug)]
pub(crate) struct TopicPoll {
    pub(crate) due: Option<NextDue>,
    pub(crate) is_paused: bool,
    pub(crate) range: PollRange,
    pub(crate) read_at: Option<SystemTime>,
}

/// When a topic's earliest rows are due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextDue {
    /// The topic.
    pub topic: Arc<str>,
    /// How long until the earliest is due; zero if it is due.
    pub due_in: Duration,
    /// How long it has been due; zero if it is not.
    pub overdue_by: Duration,
    /// How long until the earliest row that is not due yet; `None` if the poll found none.
    pub later_in: Option<Duration>,
}

/// The rows of a topic that a poll read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollRange {
    /// The topic.
    pub topic: Arc<str>,
    /// Nothing at or before it was read.
    pub after: DueWatermark,
    /// Where the next poll and the next claim may begin. There is no row between `after` and this, held or free. A row whose
    /// transaction is still open is above it, if its `due_at` was set less than the slack ago.
    pub watermark: DueWatermark,
}

impl PollRange {
    /// The range of a poll at `now` that began at `from`, in the store's unit of instants.
    pub(crate) fn new(topic: &Arc<str>, from: i64, now: i64, first_due_at: Option<i64>, slack: i64) -> Self {
        let watermark = watermark(now, first_due_at, slack);
        Self { topic: Arc::clone(topic), after: DueWatermark(from.saturating_sub(1)), watermark }
    }
}

/// No row is below the first one found, locked or not. A row whose transaction is still open may have a `due_at` as far back as the
/// slack.
pub(crate) fn watermark(now: i64, first_due_at: Option<i64>, slack: i64) -> DueWatermark {
    let below_first = first_due_at.map_or(i64::MAX, |first| first.saturating_sub(1));
    DueWatermark(now.saturating_sub(slack).min(below_first))
}
