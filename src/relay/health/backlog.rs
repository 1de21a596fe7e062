//! Counts what is in the tables, on demand.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::relay::api::panicked::RelayPanicked;
use crate::relay::engine::engines::Engines;
use crate::store::{StoreError, TopicBacklog};

/// What waits in an outbox's tables, and how many dead letters there are. From
/// [`Relay::backlog`](crate::relay::Relay::backlog).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Backlog {
    /// The topics of the relay, and every other topic that has rows or dead letters, by name.
    pub topics: Vec<TopicBacklog>,
    /// Where counting stopped: a count that has reached it means this many or more.
    pub count_max: usize,
}

impl Backlog {
    /// One topic; `None` if the relay has no such topic and the tables hold nothing of it.
    pub fn topic(&self, name: &str) -> Option<&TopicBacklog> {
        self.topics.iter().find(|of| &*of.topic == name)
    }

    /// Rows not settled yet, of all topics.
    pub fn live(&self) -> usize {
        self.topics.iter().map(|of| of.live).sum()
    }

    /// Rows that are due, of all topics.
    pub fn due(&self) -> usize {
        self.topics.iter().map(|of| of.due).sum()
    }

    /// Dead letters, of all topics.
    pub fn dead_letters(&self) -> usize {
        self.topics.iter().map(|of| of.dead).sum()
    }

    /// For how long the oldest due row has been due; zero if no row is due. For an ordered topic: how long ago the
    /// oldest row in this relay's lanes was enqueued, not counting rows behind a failed one of their key.
    pub fn overdue_by(&self) -> Duration {
        self.topics.iter().map(|of| of.overdue_by).max().unwrap_or_default()
    }
}

/// Why a backlog could not be counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BacklogError {
    /// The database could not be reached, or did not answer in time.
    #[error("the backlog could not be counted: {0}")]
    Store(StoreError),
    /// The relay has ended.
    #[error("the backlog could not be counted: the relay has ended; use another relay of the same tables")]
    Ended,
    /// The error of a relay that has ended.
    #[error(transparent)]
    Panicked(#[from] RelayPanicked),
}

impl From<StoreError> for BacklogError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

pub(in crate::relay) async fn count(engines: &Engines) -> Result<Backlog, StoreError> {
    let count_max = engines.limits.backlog_count_max;
    let counted = engines.store.backlog(count_max).await?;
    let ours = engines.topic_names().into_iter().map(empty);
    let topics: BTreeMap<Arc<str>, TopicBacklog> = ours.chain(counted).map(|of| (Arc::clone(&of.topic), of)).collect();
    let mut topics: Vec<TopicBacklog> = topics.into_values().collect();
    for of in &mut topics {
        // In the tables, rows of lanes are never due.
        let in_lanes = engines.lanes_of(&of.topic).map(|lanes| lanes.overdue_by(engines.clock.now()));
        of.overdue_by = of.overdue_by.max(in_lanes.unwrap_or_default());
    }
    engines.backlog_gauges.set(&topics);
    Ok(Backlog { topics, count_max })
}

fn empty(topic: Arc<str>) -> TopicBacklog {
    TopicBacklog { topic, live: 0, due: 0, overdue_by: Duration::ZERO, dead: 0 }
}
