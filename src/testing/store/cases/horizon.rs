//! What a read of lanes reports about open transactions.

use crate::lane::lane_of;
use crate::limits::LANES;
use crate::store::{Horizon, InsertOptions, LaneScan, LaneStore};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::{TOPIC, eventually, message};

const KEY: &str = "a";

async fn horizon(lanes: &dyn LaneStore) -> Option<Horizon> {
    let scan = LaneScan { lane: lane_of(KEY, LANES), after: 0, rows_max: 9 };
    let entries = lanes.lane_entries(&TOPIC.into(), &[scan]).await.expect("entries");
    entries.first().expect("a row").horizon
}

/// A store that reports open transactions counts one until it has committed or rolled back, and no longer.
pub async fn lane_horizon_follows_open_transactions(under_test: &dyn StoreUnderTest) {
    let lanes = under_test.store().lanes();
    let mut envelope = message(TOPIC);
    envelope.key = Some(KEY.to_owned());
    under_test.insert(&envelope, InsertOptions::default().in_lane(lane_of(KEY, LANES))).await;
    if horizon(lanes).await.is_none() {
        return;
    }
    for commits in [true, false] {
        let (_, transaction) = under_test.insert_uncommitted(&message(TOPIC)).await;
        let open = horizon(lanes).await.expect("it was reported before");
        assert!(open.ended_below < open.begun_below, "{open:?}");
        if commits {
            transaction.commit().await;
        } else {
            transaction.roll_back().await;
        }
        // Other users of the server have transactions, too.
        eventually("it is known to have ended", async || {
            horizon(lanes).await.filter(|now| now.ended_below >= open.begun_below)
        })
        .await;
    }
}
