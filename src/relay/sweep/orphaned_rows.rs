//! Messages of the time when a topic was ordered. They are read through lanes, and in no other way: nobody would send them.

use std::sync::atomic::Ordering;

use crate::relay::engine::engines::Engines;
use crate::store::{SchemaProblem, StoreError};

/// The topics that have some. Not asked again: what enqueues with the topic as it is writes none.
pub(crate) async fn find(engines: &Engines) -> Result<Vec<SchemaProblem>, StoreError> {
    let mut orphaned = Vec::new();
    if let Some(store) = engines.store.lanes() {
        for topic in engines.topics().filter(|topic| topic.topic.lane_count().is_none()) {
            if store.has_ordered_rows(&topic.name()).await? {
                orphaned.push(SchemaProblem::OrderedRows { topic: topic.name().to_string() });
            }
        }
    }
    engines.store_health.are_orphaned_rows_known.store(true, Ordering::Relaxed);
    Ok(orphaned)
}

/// Says what the start could not refuse, because the database was away.
pub(crate) async fn report(engines: &Engines) {
    if engines.store_health.are_orphaned_rows_known.load(Ordering::Relaxed) {
        return;
    }
    match find(engines).await {
        Ok(orphaned) => orphaned.iter().for_each(|problem| tracing::error!("{problem}")),
        Err(error) if error.is_retriable() => {
            tracing::warn!(%error, "not known whether topics without order have messages in lanes: asking again");
        }
        Err(error) => {
            tracing::error!(%error, "not known whether topics without order have messages in lanes");
            engines.store_health.are_orphaned_rows_known.store(true, Ordering::Relaxed);
        }
    }
}
