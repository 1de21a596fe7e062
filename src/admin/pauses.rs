use std::sync::Arc;

use super::{Admin, AdminError, PausedTopic};

/// Pauses.
impl Admin {
    /// Pauses a topic: from their next look on, at most one poll interval later, the relays of every process leave it alone,
    /// also those that start meanwhile, until somebody resumes it. A topic that is paused already stays as it is.
    ///
    /// Applications go on enqueueing. What they write waits in its row; nothing is lost, no attempt is spent, and nothing is
    /// written for it. What a relay has in flight when it learns of the pause goes out and is settled.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # use diesel_outbox::store::MemoryStore;
    /// # use diesel_outbox::{Outbox, Topic};
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// # let admin = outbox.admin(MemoryStore::new());
    /// admin.pause("orders").await?;
    /// for paused in admin.paused().await? {
    ///     println!("{} is paused since {:?}", paused.topic, paused.since);
    /// }
    /// admin.resume("orders").await?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`UnknownTopic`](AdminError::UnknownTopic), or what the database says: where the migration
    /// `0000outbox04_paused_topics` was not run, that.
    ///
    /// # Cancel safety
    /// Dropped, the future may have paused the topic or not; ask again.
    pub async fn pause(&self, topic: &str) -> Result<(), AdminError> {
        let Some(known) = self.outbox.topics().iter().find(|known| known.name() == topic) else {
            let configured = self.outbox.topics().iter().map(|topic| topic.name().to_owned()).collect();
            return Err(AdminError::UnknownTopic { topic: topic.to_owned(), configured });
        };
        self.admin_store()?.pause(&known.shared_name()).await?;
        self.wake();
        Ok(())
    }

    /// Ends a topic's pause: relays go on with it at their next look, the one of this process at once. Also of a topic that
    /// is not configured any more.
    ///
    /// Of an ordered topic every key that waits behind a failed message is tried then, whatever its back-off says, on each relay
    /// that has seen the pause.
    ///
    /// # Errors
    /// [`NotPaused`](AdminError::NotPaused), or what the database says.
    ///
    /// # Cancel safety
    /// Dropped, the future may have resumed the topic or not; ask again.
    pub async fn resume(&self, topic: &str) -> Result<(), AdminError> {
        if !self.admin_store()?.resume(&Arc::from(topic)).await? {
            return Err(AdminError::NotPaused { topic: topic.to_owned() });
        }
        self.wake();
        Ok(())
    }

    /// The paused topics by name, and since when they are.
    ///
    /// # Errors
    /// What the database says.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn paused(&self) -> Result<Vec<PausedTopic>, AdminError> {
        Ok(self.admin_store()?.paused().await?)
    }
}
