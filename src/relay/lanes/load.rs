//! Loads the rows whose turn it is, with everything that is sent of them.

use super::topic::{TopicLanes, Turn, is_fresh};
use crate::relay::engine::Engine;
use crate::relay::engine::store_call::store_call;
use crate::store::{LaneStore, Loaded, RowKey, StoreError};

/// Uses inline rows where possible and reads the others from the store.
pub(super) async fn load(
    engine: &Engine,
    store: &dyn LaneStore,
    lanes: &TopicLanes,
    turns: impl Iterator<Item = &Turn>,
) -> Result<Vec<Loaded>, StoreError> {
    let now = engine.clock.now();
    let (mut inline, mut to_read) = (Vec::new(), Vec::new());
    for turn in turns {
        match lanes.take_inline(turn, now) {
            Some(row) => inline.push(row),
            None => to_read.push(turn.waiting.row),
        }
    }
    let mut loaded = Vec::new();
    if !to_read.is_empty() {
        loaded = read(engine, store, lanes, &to_read).await?;
        // The read may have taken long: an inline row that was fresh before it may be too old now.
        let now = engine.clock.now();
        if !inline.iter().all(|row| is_fresh(row, now)) {
            let old: Vec<RowKey> = inline.drain(..).map(|inline| inline.row.key).collect();
            loaded.extend(read(engine, store, lanes, &old).await?);
        }
    }
    loaded.extend(inline.into_iter().map(|inline| Loaded::Row(inline.row)));
    Ok(loaded)
}

/// Reads rows, and notes whether the next read has to be smaller.
async fn read(
    engine: &Engine,
    store: &dyn LaneStore,
    lanes: &TopicLanes,
    rows: &[RowKey],
) -> Result<Vec<Loaded>, StoreError> {
    let began_at = engine.clock.now();
    let read = store_call("lane_rows", store.lane_rows(&lanes.name(), rows)).await;
    match &read {
        Ok(_) => {
            lanes.topic.read_in_time(began_at.until(engine.clock.now()), engine.limits.claim_lease_duration);
        }
        Err(StoreError::TimedOut { .. }) => {
            lanes.topic.read_late(rows.len());
        }
        Err(_) => {}
    }
    read
}
