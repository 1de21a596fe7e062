use std::collections::HashMap;
use std::sync::Arc;

use super::Admin;
use crate::lane::lane_of;
use crate::store::{MessageKey, Requeue, StoreError};

/// The lanes of what comes back.
impl Admin {
    /// Where messages come back to: the lanes of their keys as things are now. The one that a message was in may be nobody's by
    /// now, or another than that of its key's later messages.
    pub(super) async fn assign_lanes(&self, messages: Vec<MessageKey>) -> Result<Vec<Requeue>, StoreError> {
        let mut counts = HashMap::new();
        let mut requeues = Vec::with_capacity(messages.len());
        for MessageKey { message_id, topic, key, lane: was } in messages {
            let key = key.as_deref().unwrap_or_default();
            let known = self.outbox.topics().iter().find(|known| known.name() == &*topic);
            let lane = match (known, was) {
                (Some(topic), _) => topic.lane_count().map(|lanes| lane_of(key, lanes)),
                (None, None) => None,
                // A tool need not know the topics. The database does not say whether this one is ordered still.
                (None, Some(was)) => match self.lane_count(topic, &mut counts).await? {
                    0 => Some(was),
                    lanes => Some(lane_of(key, lanes)),
                },
            };
            requeues.push(Requeue { message_id, lane });
        }
        Ok(requeues)
    }

    /// How many lanes a topic has in the database, asked once.
    async fn lane_count(&self, topic: Arc<str>, counts: &mut HashMap<Arc<str>, u16>) -> Result<u16, StoreError> {
        if let Some(count) = counts.get(&topic) {
            return Ok(*count);
        }
        let Some(store) = self.store.lanes() else { return Ok(0) };
        let count = store.read_lanes(&topic).await?.lanes.len();
        Ok(*counts.entry(topic).or_insert(u16::try_from(count).unwrap_or(u16::MAX)))
    }
}
