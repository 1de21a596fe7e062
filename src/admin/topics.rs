use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::{Admin, AdminError, BoundedCount};
use crate::limits::{LIVE_COUNT_MAX, LIVE_TOPICS_SHOWN_MAX};
use crate::serialize::{instant_or_none, seconds};
use crate::store::{LaneCount, PausedTopic, SchemaProblem, StoreError, TopicBacklog};

/// A topic: what is configured of it, and what the tables hold. From [`Admin::topics`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TopicStatus {
    /// Its name.
    pub topic: Arc<str>,
    /// Whether it is configured in this outbox.
    pub is_configured: bool,
    /// How many lanes it has, if it is or was ordered.
    pub lanes: Option<u16>,
    /// Since when it is paused, by the database's clock.
    #[serde(serialize_with = "instant_or_none")]
    pub paused_since: Option<SystemTime>,
    /// Live messages.
    pub live: BoundedCount,
    /// Those of them that are due. Messages in lanes are never due.
    pub due: BoundedCount,
    /// How long the oldest of them has been due; zero if none is.
    #[serde(rename = "overdue_seconds", serialize_with = "seconds")]
    pub overdue_by: Duration,
    /// Dead letters.
    pub dead: BoundedCount,
}

impl TopicStatus {
    fn new(topic: Arc<str>) -> Self {
        let none = BoundedCount { count: 0, more: false };
        Self {
            topic,
            is_configured: false,
            lanes: None,
            paused_since: None,
            live: none,
            due: none,
            overdue_by: Duration::ZERO,
            dead: none,
        }
    }
}

/// Topics.
impl Admin {
    /// The topics by name: those that are configured, and those that have live messages, dead letters, lanes or a pause. A topic of
    /// which only the history knows is not among them.
    ///
    /// A count stops at 10,000. Tables of migrations that were not run are taken as empty, except those of messages and dead letters.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # use diesel_outbox::store::MemoryStore;
    /// # use diesel_outbox::{Outbox, Topic};
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// # let admin = outbox.admin(MemoryStore::new());
    /// for topic in admin.topics().await? {
    ///     println!("{}: {} live, {} dead", topic.topic, topic.live, topic.dead);
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// A database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn topics(&self) -> Result<Vec<TopicStatus>, AdminError> {
        let mut topics = Topics::default();
        for topic in self.outbox.topics() {
            let status = topics.of(&topic.shared_name());
            (status.is_configured, status.lanes) = (true, topic.lane_count());
        }
        for LaneCount { topic, lanes } in self.lane_counts().await? {
            topics.of(&topic).lanes.get_or_insert(lanes);
        }
        for PausedTopic { topic, since } in if_migrated(self.admin_store()?.paused().await)? {
            topics.of(&topic).paused_since = Some(since);
        }
        for TopicBacklog { topic, live, due, overdue_by, dead } in self.store.backlog(LIVE_COUNT_MAX).await? {
            let status = topics.of(&topic);
            let bounded = |count| BoundedCount { count, more: count >= LIVE_COUNT_MAX };
            (status.live, status.due, status.dead) = (bounded(live), bounded(due), bounded(dead));
            status.overdue_by = overdue_by;
        }
        Ok(topics.0.into_values().collect())
    }

    /// A topic that is [known](Self::topics), by its name.
    pub(super) async fn known_topic(&self, topic: &str) -> Result<Arc<str>, AdminError> {
        let known = self.topics().await?;
        if let Some(known) = known.iter().find(|known| &*known.topic == topic) {
            return Ok(Arc::clone(&known.topic));
        }
        let known = known.iter().take(LIVE_TOPICS_SHOWN_MAX).map(|known| known.topic.to_string()).collect();
        Err(AdminError::NoSuchTopic { topic: topic.to_owned(), known })
    }

    async fn lane_counts(&self) -> Result<Vec<LaneCount>, StoreError> {
        if_migrated(self.store.lanes().lane_counts().await)
    }
}

#[derive(Default)]
struct Topics(BTreeMap<Arc<str>, TopicStatus>);

impl Topics {
    fn of(&mut self, topic: &Arc<str>) -> &mut TopicStatus {
        self.0.entry(Arc::clone(topic)).or_insert_with(|| TopicStatus::new(Arc::clone(topic)))
    }
}

/// Nothing, if a migration creates the table that was not run.
fn if_migrated<T>(read: Result<Vec<T>, StoreError>) -> Result<Vec<T>, StoreError> {
    match read {
        Err(StoreError::Schema(SchemaProblem::Missing { .. } | SchemaProblem::NotMigrated { .. })) => Ok(Vec::new()),
        read => read,
    }
}

#[cfg(test)]
mod tests;
