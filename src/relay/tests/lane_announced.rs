//! Rows of ordered topics whose COMMITs are announced: the rows before them are read meanwhile.

use std::time::Duration;

use super::lanes::{TOPIC, owned, world};
use super::{DEADLINE, World, envelope, inline};
use crate::lane::lane_of;
use crate::limits::LANES;
use crate::relay::Relay;
use crate::relay::direct::queue::HandedOver;
use crate::store::{Call, InsertOptions, PendingRow};

/// A transaction whose COMMIT is on its way.
pub(super) struct Announced {
    row: PendingRow,
    handed: HandedOver,
}

impl Announced {
    /// Commits. Returns what the hook hands over then.
    pub(super) fn commit(self) -> HandedOver {
        self.row.commit();
        self.handed
    }
}

impl World {
    /// Brings a transaction with one row to its COMMIT; `None` if no relay runs.
    pub(super) fn announce(&self, key: &str) -> Option<Announced> {
        let inserted_at = self.link.now()?;
        let mut message = envelope(TOPIC);
        message.key = Some(key.to_owned());
        let lane = lane_of(key, LANES);
        let row = self.store.insert_uncommitted(message.clone(), InsertOptions::default().in_lane(lane));
        let mut handed = HandedOver { lane: Some(lane), ..inline(row.key(), message, inserted_at) };
        self.link.announce(&mut handed);
        Some(Announced { row, handed })
    }

    fn lane_reads(&self) -> u64 {
        self.store.calls(Call::LaneEntries)
    }

    /// Announces, and waits until the lane was read because of it.
    async fn announce_and_read(&self, key: &str) -> Announced {
        let reads = self.lane_reads();
        let announced = self.announce(key).expect("a relay runs");
        self.until("the lane is read", || self.lane_reads() > reads).await;
        announced
    }
}

async fn started(world: &World) -> Relay {
    let relay = world.start().await;
    world.until("every lane is owned", || owned(&relay) == usize::from(LANES)).await;
    relay
}

#[tokio::test(start_paused = true)]
async fn an_announced_row_is_sent_without_a_read_after_its_commit() {
    let world = world();
    let _relay = started(&world).await;
    let announced = world.announce_and_read("a").await;
    let reads = world.lane_reads();
    let row = announced.commit();
    let id = row.row.message_id;
    world.link.hand_over(vec![row]);
    assert_eq!(world.delivered(1).await, [id]);
    assert_eq!((world.lane_reads(), world.store.calls(Call::LaneRows)), (reads, 0));
    world.drained().await;
    assert_eq!(world.broker.sends(), 1);
}

/// Another process committed it, and the owner was not notified.
#[tokio::test(start_paused = true)]
async fn a_row_that_was_committed_earlier_goes_first() {
    let world = world();
    let _relay = started(&world).await;
    let before = world.commit_keyed("a");
    let announced = world.announce_and_read("a").await;
    let row = announced.commit();
    let expected = [before.message_id, row.row.message_id];
    world.link.hand_over(vec![row]);
    assert_eq!(world.delivered(2).await, expected);
}

/// Concurrent transactions have no order. If the hook of the earlier one reports first, its order is kept anyway.
#[tokio::test(start_paused = true)]
async fn a_row_that_the_read_missed_is_read() {
    let world = world();
    let _relay = started(&world).await;
    let slow = world.announce("a").expect("a relay runs");
    let fast = world.announce_and_read("a").await;
    let (slow, fast) = (slow.commit(), fast.commit());
    let expected = [slow.row.message_id, fast.row.message_id];
    let unnotified = HandedOver { inline: None, ..slow };
    world.link.hand_over(vec![unnotified, fast]);
    assert_eq!(world.delivered(2).await, expected);
}

/// The page showed the row before its hook reported it.
#[tokio::test(start_paused = true)]
async fn a_row_that_is_sent_before_its_hook_reports_it_is_sent_once() {
    let world = world();
    let relay = started(&world).await;
    let announced = world.announce_and_read("a").await;
    let row = announced.commit();
    let other = world.commit_keyed("a");
    world.hand_over_keyed(other, "a", true);
    assert_eq!(world.delivered(2).await, [row.row.message_id, other.message_id]);
    world.drained().await;
    world.link.hand_over(vec![row]);
    assert!(world.link.flush(DEADLINE).await.is_settled());
    assert_eq!(relay.status().in_flight, 0);
    assert_eq!(world.broker.sends(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_announced_row_that_is_rolled_back_is_not_sent() {
    let world = world();
    let _relay = started(&world).await;
    drop(world.announce_and_read("a").await);
    assert!(world.link.flush(DEADLINE).await.is_settled());
    let row = world.announce_and_read("a").await.commit();
    let id = row.row.message_id;
    world.link.hand_over(vec![row]);
    assert_eq!(world.delivered(1).await, [id]);
}

/// Another node may have owned the lane at the announcement, and may have sent the row after its commit.
#[tokio::test(start_paused = true)]
async fn a_row_announced_before_the_lane_was_taken_is_read() {
    let world = world();
    let relay = started(&world).await;
    let announced = world.announce_and_read("a").await;
    relay.shutdown(Duration::from_secs(10)).await;
    let _relay = started(&world).await;
    let reads = world.lane_reads();
    let row = announced.commit();
    let id = row.row.message_id;
    world.link.hand_over(vec![row]);
    assert_eq!(world.delivered(1).await, [id]);
    assert!(world.lane_reads() > reads);
}
