use std::collections::HashMap;
use std::sync::Arc;

use super::Admin;
use crate::lane::lane_of;
use crate::store::{MessageKey, Requeue, StoreError};

/// The lanes of requeued messages.
impl Admin {
    /// The lane to requeue each message to: its key's current one. The lane it was in may no longer exist, or may differ from that
    /// of the key's later messages.
    pub(super) async fn assign_lanes(&self, messages: Vec<MessageKey>) -> Result<Vec<Requeue>, StoreError> {
        let mut counts = HashMap::new();
        let mut requeues = Vec::with_capacity(messages.len());
        for MessageKey { message_id, topic, key, lane: was } in messages {
            let key = key.as_deref().unwrap_or_default();
            let known = self.outbox.topics().iter().find(|known| known.name() == &*topic);
            let lane = match (known, was) {
                (Some(topic), _) => topic.lane_count().map(|lanes| lane_of(key, lanes)),
                (None, None) => None,
                // An admin tool need not configure the topics. The database does not say whether this one is still ordered.
                (None, Some(was)) => match self.lane_count(topic, &mut counts).await? {
                    0 => Some(was),
                    lanes => Some(lane_of(key, lanes)),
                },
            };
            requeues.push(Requeue { message_id, lane });
        }
        Ok(requeues)
    }

    /// How many lanes a topic has in the database. Asks once per topic.
    async fn lane_count(&self, topic: Arc<str>, counts: &mut HashMap<Arc<str>, u16>) -> Result<u16, StoreError> {
        if let Some(count) = counts.get(&topic) {
            return Ok(*count);
        }
        let count = self.store.lanes().read_lanes(&topic).await?.lanes.len();
        Ok(*counts.entry(topic).or_insert(u16::try_from(count).unwrap_or(u16::MAX)))
    }
}
