use std::sync::Arc;
use std::time::SystemTime;

use serde_json::json;

use super::{Admin, AdminError};
use crate::topic::Topic;

/// Pauses.
impl Admin {
    /// Pauses a topic. From their next poll on, at most one poll interval later, the relays of every process skip it until somebody
    /// resumes it, and so do relays that start meanwhile. Pausing a paused topic changes nothing.
    ///
    /// Applications can go on enqueueing. Their messages wait in the table: nothing is lost, no attempt is spent, and no row is
    /// updated. What a relay has in flight when it learns of the pause is sent and settled.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # use diesel_outbox::store::MemoryStore;
    /// # use diesel_outbox::{Outbox, Topic};
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// # let admin = outbox.admin(MemoryStore::new());
    /// admin.pause("orders").await?;
    /// for (topic, since) in admin.paused().await? {
    ///     println!("{topic} is paused since {since:?}");
    /// }
    /// admin.resume("orders").await?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`UnknownTopic`](AdminError::UnknownTopic), [`NoSuchTopic`](AdminError::NoSuchTopic) in an outbox without topics, or a database error, such as that the migration `0000outbox04_paused_topics` was
    /// not run.
    ///
    /// # Cancel safety
    /// If the future is dropped, the topic may or may not be paused. Call again.
    pub async fn pause(&self, topic: &str) -> Result<(), AdminError> {
        let topic = self.topic_to_pause(topic).await?;
        let (store, record) = (self.admin_store()?, self.record_with("pause", &json!({ "topic": topic })).await?);
        store.pause(&topic, record.as_ref()).await?;
        self.wake();
        Ok(())
    }

    /// A topic that is configured, or one of the database's if [none is](crate::OutboxBuilder::allow_no_topics).
    async fn topic_to_pause(&self, topic: &str) -> Result<Arc<str>, AdminError> {
        let configured = self.outbox.topics();
        if configured.is_empty() {
            return self.known_topic(topic).await;
        }
        let known = configured.iter().find(|known| known.name() == topic).map(Topic::shared_name);
        known.ok_or_else(|| AdminError::UnknownTopic {
            topic: topic.to_owned(),
            configured: configured.iter().map(|topic| topic.name().to_owned()).collect(),
        })
    }

    /// Ends a topic's pause. Relays continue with it at their next poll, the one of this process at once. Also works for a topic
    /// that is no longer configured.
    ///
    /// On an ordered topic, each relay that has seen the pause then retries every key that waits behind a failed message, whatever
    /// its back-off.
    ///
    /// # Errors
    /// [`NotPaused`](AdminError::NotPaused), or a database error.
    ///
    /// # Cancel safety
    /// If the future is dropped, the topic may or may not be resumed. Call again.
    pub async fn resume(&self, topic: &str) -> Result<(), AdminError> {
        let (store, record) = (self.admin_store()?, self.record_with("resume", &json!({ "topic": topic })).await?);
        if !store.resume(&Arc::from(topic), record.as_ref()).await? {
            return Err(AdminError::NotPaused { topic: topic.to_owned() });
        }
        self.wake();
        Ok(())
    }

    /// The paused topics, ordered by name, each with the moment of its pause by the database's clock.
    ///
    /// # Errors
    /// A database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn paused(&self) -> Result<Vec<(Arc<str>, SystemTime)>, AdminError> {
        let paused = self.admin_store()?.paused().await?;
        Ok(paused.into_iter().map(|paused| (paused.topic, paused.since)).collect())
    }
}
