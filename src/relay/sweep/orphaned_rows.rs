//! Rows left in lanes from a time when their topic was ordered. Only a lane reader reads them, so nobody would send
//! them.

use std::sync::atomic::Ordering;

use crate::events::log_event;
use crate::relay::engine::engines::Engines;
use crate::repeated::{Repeated, warn_once_a_minute};
use crate::store::{SchemaProblem, StoreError};

/// The topics that have such rows. Checked once: enqueueing with today's topic writes none.
pub(crate) async fn find(engines: &Engines) -> Result<Vec<SchemaProblem>, StoreError> {
    let mut orphaned = Vec::new();
    for topic in engines.topics().filter(|topic| topic.config.lane_count().is_none()) {
        if engines.store.lanes().has_ordered_rows(&topic.name()).await? {
            orphaned.push(SchemaProblem::OrderedRows { topic: topic.name().to_string() });
        }
    }
    engines.store_health.are_orphaned_rows_known.store(true, Ordering::Relaxed);
    Ok(orphaned)
}

/// Reports at runtime what the start could not check because the database was down.
pub(crate) async fn report(engines: &Engines, failures: &Repeated) {
    if engines.store_health.are_orphaned_rows_known.load(Ordering::Relaxed) {
        return;
    }
    match find(engines).await {
        Ok(orphaned) => orphaned.iter().for_each(|problem| log_event!(ROWS_IN_OLD_LANES, %problem)),
        Err(error) if error.is_retriable() => {
            warn_once_a_minute!(OLD_LANES_NOT_CHECKED, failures, error);
        }
        Err(error) => {
            log_event!(OLD_LANES_CHECK_REFUSED, %error);
            engines.store_health.are_orphaned_rows_known.store(true, Ordering::Relaxed);
        }
    }
}
