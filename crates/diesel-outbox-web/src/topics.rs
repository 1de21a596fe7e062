//! The topics that pages offer.

use std::sync::Arc;

use diesel_outbox::Topic;
use diesel_outbox::admin::{AdminError, TopicStatus};

use crate::state::State;

/// A topic that pages offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownTopic {
    pub(crate) name: Arc<str>,
    /// Whether it has lanes, as far as is known.
    pub(crate) is_ordered: bool,
    /// Whether its sent messages are kept, as far as is known.
    pub(crate) keeps_sent: bool,
}

impl State {
    /// Whether the application's topics are known. The program `outbox` knows only the tables.
    pub(crate) fn is_configured(&self) -> bool {
        !self.outbox.topics().is_empty()
    }

    /// The configured topics, or without any those of which the tables hold something.
    pub(crate) async fn topics(&self) -> Result<Vec<KnownTopic>, AdminError> {
        if self.is_configured() {
            return Ok(self.outbox.topics().iter().map(KnownTopic::of).collect());
        }
        Ok(self.reader().topics().await?.iter().map(KnownTopic::found).collect())
    }
}

impl KnownTopic {
    fn of(topic: &Topic) -> Self {
        Self { name: topic.name().into(), is_ordered: topic.is_ordered(), keeps_sent: topic.keeps_sent() }
    }

    /// The tables do not say how long its messages are kept, so it may have a history.
    fn found(topic: &TopicStatus) -> Self {
        Self { name: Arc::clone(&topic.topic), is_ordered: topic.lanes.is_some(), keeps_sent: true }
    }
}

/// The names, to choose one.
pub(crate) fn names(topics: &[KnownTopic]) -> impl Iterator<Item = &str> {
    topics.iter().map(|topic| &*topic.name)
}
