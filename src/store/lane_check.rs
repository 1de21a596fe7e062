//! Checks that a topic has the configured number of lanes, and that its rows are in the lanes of their keys.

use super::lanes::LaneCount;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use super::lanes::{LaneScan, LaneStore};
use super::{SchemaProblem, StoreError};
use crate::lane::lane_of;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use crate::limits::LANE_SAMPLE_ROWS_MAX;

/// Checks that the rows of a topic whose lanes do not exist yet were written for this number of lanes. No row may be beyond, where
/// nobody would read it. The first rows of each lane must belong there: of each lane, because with twice as many lanes half the
/// keys stay where they are.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) async fn check_existing_rows(
    store: &impl LaneStore,
    wanted: &LaneCount,
    has_rows_beyond: bool,
) -> Result<(), StoreError> {
    if has_rows_beyond {
        return Err(lane_count_mismatch(wanted));
    }
    let scan = |lane| LaneScan { lane, after: 0, rows_max: LANE_SAMPLE_ROWS_MAX };
    let scans: Vec<LaneScan> = (0..wanted.lanes).map(scan).collect();
    let entries = store.lane_entries(&wanted.topic, &scans).await?;
    check_lanes_of_keys(wanted, entries.iter().map(|entry| (scans[entry.scan].lane, entry.key.as_deref())))
}

/// Checks that rows are in the lanes of their keys.
pub(crate) fn check_lanes_of_keys<'k>(
    wanted: &LaneCount,
    mut rows: impl Iterator<Item = (u16, Option<&'k str>)>,
) -> Result<(), StoreError> {
    let is_misplaced = |&(lane, key): &(u16, Option<&str>)| lane_of(key.unwrap_or_default(), wanted.lanes) != lane;
    match rows.find(is_misplaced) {
        None => Ok(()),
        Some(_) => Err(lane_count_mismatch(wanted)),
    }
}

fn lane_count_mismatch(wanted: &LaneCount) -> StoreError {
    StoreError::Schema(SchemaProblem::LaneOfRow { topic: wanted.topic.to_string(), configured: wanted.lanes })
}

/// Checks that a topic has the configured number of lanes.
pub(crate) fn check_lane_count(wanted: &LaneCount, found: usize) -> Result<(), StoreError> {
    if found == usize::from(wanted.lanes) {
        return Ok(());
    }
    let (topic, configured) = (wanted.topic.to_string(), wanted.lanes);
    Err(StoreError::Schema(SchemaProblem::LaneCount { topic, found, configured }))
}

#[cfg(all(test, any(feature = "postgres", feature = "mysql", feature = "sqlite")))]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::message::{Envelope, MessageId};
    use crate::store::{InsertOptions, MemoryStore};

    /// Writes a row to lane 0 whose key belongs to `lane`.
    fn insert(store: &MemoryStore, lane: u16) {
        let mut envelope = Envelope::new(MessageId::new(), "orders".into(), SystemTime::UNIX_EPOCH);
        envelope.key = (0_u32..).map(|key| key.to_string()).find(|key| lane_of(key, 4) == lane);
        store.insert(envelope, InsertOptions::default().in_lane(0));
    }

    #[tokio::test]
    async fn the_first_rows_of_a_lane_are_compared_and_no_more() {
        let wanted = LaneCount { topic: "orders".into(), lanes: 4 };
        for (right, is_found) in [(LANE_SAMPLE_ROWS_MAX - 1, true), (LANE_SAMPLE_ROWS_MAX, false)] {
            let store = MemoryStore::new();
            (0..right).for_each(|_| insert(&store, 0));
            insert(&store, 1);
            let checked = check_existing_rows(&store, &wanted, false).await;
            assert_eq!(checked.is_err(), is_found, "{right} rows before it: {checked:?}");
        }
    }
}
