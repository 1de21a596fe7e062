use std::str::FromStr;
use std::time::{Duration, SystemTime};

use clap::Args;
use diesel_outbox::admin::{DeadLetterFilter, UnprocessedFilter};

/// How many entries a list has.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Limit {
    /// List at most this many
    #[arg(long, default_value_t = 50, value_name = "COUNT", value_parser = positive)]
    limit: usize,
    /// List all of them, however many there are
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

impl Limit {
    pub(crate) fn max(self) -> usize {
        if self.all { usize::MAX } else { self.limit }
    }
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("give a number from 1 on".to_owned()),
        Ok(number) => Ok(number),
    }
}

/// A moment: a time, or so long ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    At(SystemTime),
    Ago(Duration),
}

impl When {
    /// The moment, by the database's clock.
    pub(crate) fn at(self, now: SystemTime) -> SystemTime {
        match self {
            Self::At(at) => at,
            Self::Ago(ago) => now.checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH).max(SystemTime::UNIX_EPOCH),
        }
    }
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(ago) = humantime::parse_duration(text) {
            return Ok(Self::Ago(ago));
        }
        let at = humantime::parse_rfc3339_weak(text);
        // A day alone is its beginning.
        let at = at.or_else(|_| humantime::parse_rfc3339_weak(&format!("{text}T00:00:00")));
        at.map(Self::At).map_err(|_| "give so long ago, such as 90m, or a time such as 2026-11-26T08:00:00Z".to_owned())
    }
}

/// A header's name and value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl FromStr for Header {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, value) = text.split_once('=').ok_or("give NAME=VALUE")?;
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}

/// Selects dead letters.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filter")]
pub(crate) struct DeadLetterArgs {
    /// Of this topic
    #[arg(long)]
    pub(crate) topic: Option<String>,
    /// Of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Of this key
    #[arg(long)]
    key: Option<String>,
    /// Whose reason begins with this word: refused, attempts or poisoned
    #[arg(long, value_name = "REASON")]
    dead_reason: Option<String>,
    /// Dead-lettered since: so long ago, such as 90m, or at a time
    #[arg(long, value_name = "WHEN")]
    since: Option<When>,
    /// Dead-lettered before: so long ago, or at a time
    #[arg(long, value_name = "WHEN")]
    before: Option<When>,
}

impl DeadLetterArgs {
    pub(crate) fn is_empty(&self) -> bool {
        let Self { topic, kind, key, dead_reason, since, before } = self;
        [topic, kind, key, dead_reason].into_iter().all(Option::is_none) && since.is_none() && before.is_none()
    }

    /// The filter, which may be empty. `now` is of the database's clock.
    pub(crate) fn filter(&self, now: SystemTime) -> DeadLetterFilter {
        let mut filter = DeadLetterFilter::everything();
        if let Some(topic) = &self.topic {
            filter = filter.topic(topic.as_str());
        }
        if let Some(kind) = &self.kind {
            filter = filter.kind(kind.as_str());
        }
        if let Some(key) = &self.key {
            filter = filter.key(key.as_str());
        }
        if let Some(word) = &self.dead_reason {
            filter = filter.reason(word.as_str());
        }
        if let Some(since) = self.since {
            filter = filter.dead_from(since.at(now));
        }
        if let Some(before) = self.before {
            filter = filter.dead_before(before.at(now));
        }
        filter
    }
}

/// Selects sent messages that their consumer has not confirmed.
#[derive(Debug, Clone, Args)]
pub(crate) struct UnprocessedArgs {
    /// Sent longer ago than this; needed unless the application's settings say when a message is late
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    older_than: Option<Duration>,
}

impl UnprocessedArgs {
    pub(crate) fn filter(&self, topic: &str) -> UnprocessedFilter {
        let filter = UnprocessedFilter::of(topic);
        match self.older_than {
            Some(age) => filter.older_than(age),
            None => filter,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_time_or_so_long_ago() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(10_000);
        let at = |text: &str| text.parse::<When>().unwrap().at(now).duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(at("90m"), Duration::from_secs(10_000 - 5_400));
        assert_eq!(at("1970-01-01T00:01:00Z"), Duration::from_secs(60));
        assert_eq!(at("1970-01-02"), Duration::from_secs(24 * 3_600));
        assert_eq!(at("100y"), Duration::ZERO, "before everything");
        assert!("yesterday".parse::<When>().unwrap_err().contains("90m"));
    }

    #[test]
    fn only_a_filter_without_conditions_is_empty() {
        assert!(DeadLetterArgs::default().is_empty());
        let of_a_time = DeadLetterArgs { before: Some(When::Ago(Duration::ZERO)), ..DeadLetterArgs::default() };
        let of_a_topic = DeadLetterArgs { topic: Some("orders".into()), ..DeadLetterArgs::default() };
        assert!(!of_a_time.is_empty() && !of_a_topic.is_empty());
    }
}
