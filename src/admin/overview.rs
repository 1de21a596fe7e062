use std::sync::Arc;
use std::time::SystemTime;

use super::{Admin, AdminError};
use crate::relay::LaneStatus;

/// What the tables hold, for pages that show all of it.
impl Admin {
    /// The current time of the database's clock: all instants of messages are by it.
    ///
    /// # Errors
    /// A database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn now(&self) -> Result<SystemTime, AdminError> {
        Ok(self.admin_store()?.now().await?)
    }

    /// The lanes of an ordered topic and their owners, by number; none if the topic has no lanes.
    ///
    /// # Errors
    /// A database error.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn lanes(&self, topic: &str) -> Result<Vec<LaneStatus>, AdminError> {
        let (store, topic): (_, Arc<str>) = (self.store.lanes().ok_or(AdminError::Unsupported)?, topic.into());
        let view = store.read_lanes(&topic).await?;
        let nodes = view.nodes.len();
        let status = view.lanes.into_iter().map(|lane| LaneStatus {
            topic: Arc::clone(&topic),
            lane: lane.lane,
            owner: lane.owner.filter(|_| !lane.expires_in.is_zero()),
            nodes,
        });
        Ok(status.collect())
    }
}
