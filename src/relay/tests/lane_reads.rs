//! What the owner of a lane finds without being notified.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::lanes::{TOPIC, world};
use super::{World, envelope};
use crate::lane::lane_of;
use crate::limits::LANES;
use crate::store::{InsertOptions, PendingRow};
use crate::transport::{FailureClass, ScriptedResponse};

/// How many rows wait behind the failed one: four pages of a lane that is read alone, sixteen of one that is read with
/// others.
const HELD: usize = 4_000;

impl World {
    /// Rows of one key, the first of which is refused, and a relay that has read them all.
    async fn with_many_held(&self) -> crate::relay::Relay {
        for _ in 0..HELD {
            self.commit_keyed("held");
        }
        let is_held = |sent: &crate::message::Envelope| sent.key.as_deref() == Some("held");
        self.broker.respond_when(ScriptedResponse::Fail(FailureClass::Record), is_held);
        let relay = self.start().await;
        self.until("the key is held", || self.store.live_rows()[0].failures > 0).await;
        sleep(Duration::from_secs(5)).await;
        relay
    }

    fn begin_beside(&self) -> PendingRow {
        let beside = (0..).map(|key: u32| key.to_string()).find(|key| lane_of(key, LANES) == lane_of("held", LANES));
        let mut envelope = envelope(TOPIC);
        envelope.key = beside;
        self.store.insert_uncommitted(envelope, InsertOptions::default().in_lane(lane_of("held", LANES)))
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_row_of_another_process_is_found_behind_held_ones_within_a_poll() {
    let world = world();
    let _relay = world.with_many_held().await;
    for found in 1..=5 {
        sleep(Duration::from_millis(1_300)).await;
        let start = Instant::now();
        world.begin_beside().commit();
        world.delivered(found).await;
        assert!(start.elapsed() <= world.limits.poll_interval + Duration::from_millis(50), "{:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_row_is_found_among_held_ones_as_fast_as_pages_of_them_are_read() {
    let world = world();
    for _ in 0..HELD / 2 {
        world.commit_keyed("held");
    }
    let late: Vec<PendingRow> = (0..5).map(|_| world.begin_beside()).collect();
    let _relay = world.with_many_held().await;
    for (found, row) in (1..).zip(late) {
        sleep(Duration::from_millis(1_300)).await;
        let start = Instant::now();
        row.commit();
        world.delivered(found).await;
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    }
}
