//! Inline rows of ordered topics.

use std::time::Duration;

use super::lanes::{TOPIC, owned, world};
use super::{World, envelope, handed_over, inline};
use crate::clock::BootInstant;
use crate::lane::lane_of;
use crate::limits::{LANE_INLINE_AGE_MAX, LANES};
use crate::message::MessageId;
use crate::relay::Relay;
use crate::relay::direct::queue::HandedOver;
use crate::store::{Call, Fault, InsertOptions, Locking, Store as _};
use crate::transport::{FailureClass, ScriptedResponse};

impl World {
    /// Commits a row that was written at `inserted_at`. Returns what the hook hands over, with the inline row.
    pub(super) fn commit_inline(&self, key: &str, inserted_at: BootInstant) -> HandedOver {
        let mut message = envelope(TOPIC);
        message.key = Some(key.to_owned());
        let lane = lane_of(key, LANES);
        let row = self.store.insert(message.clone(), InsertOptions::default().in_lane(lane));
        HandedOver { lane: Some(lane), ..inline(row, message, inserted_at) }
    }

    /// Deletes it, as an operator would by hand.
    async fn delete(&self, message: MessageId) {
        let live = self.store.live_rows();
        let row = live.iter().find(|row| row.key.message_id == message).expect("it is there").key;
        assert_eq!(self.store.settle(&[row], Locking::Skip).await.unwrap(), [row]);
    }

    async fn start_with_lanes(&self) -> Relay {
        let relay = self.start().await;
        self.until("every lane is owned", || owned(&relay) == usize::from(LANES)).await;
        relay
    }
}

fn message_ids(rows: &[HandedOver]) -> Vec<MessageId> {
    rows.iter().map(|row| row.row.message_id).collect()
}

#[tokio::test(start_paused = true)]
async fn an_inline_row_is_sent_at_its_turn_and_not_read_again() {
    let world = world();
    let _relay = world.start_with_lanes().await;
    let rows: Vec<_> = (0..5).map(|_| world.commit_inline("a", world.now())).collect();
    let ids = message_ids(&rows);
    // Not in commit order: only the lane determines their order.
    rows.into_iter().rev().for_each(|row| world.link.hand_over(vec![row]));
    assert_eq!(world.delivered(5).await, ids);
    world.drained().await;
    assert_eq!((world.broker.sends(), world.store.calls(Call::LaneRows)), (5, 0));
}

#[tokio::test(start_paused = true)]
async fn a_row_written_before_the_lane_was_taken_is_read() {
    let world = world();
    let before = BootInstant::from_boot(Duration::ZERO);
    let _relay = world.start_with_lanes().await;
    let row = world.commit_inline("a", before);
    let id = row.row.message_id;
    world.link.hand_over(vec![row]);
    assert_eq!(world.delivered(1).await, [id]);
    assert_eq!(world.store.calls(Call::LaneRows), 1, "it is read, because an earlier owner may have changed it");
}

#[tokio::test(start_paused = true)]
async fn a_failed_row_is_read_before_it_is_sent_again() {
    let world = world();
    let _relay = world.start_with_lanes().await;
    world.broker.respond_next(1, ScriptedResponse::Fail(FailureClass::Record));
    let rows: Vec<_> = (0..2).map(|_| world.commit_inline("a", world.now())).collect();
    let ids = message_ids(&rows);
    world.link.hand_over(rows);
    assert_eq!(world.delivered(2).await, ids);
    assert_eq!(
        world.store.calls(Call::LaneRows),
        2,
        "the row behind it is read too, because it has waited for a second"
    );
    let attempts: Vec<_> = world.broker.delivered().iter().map(|sent| sent.attempt).collect();
    assert_eq!(attempts, [2, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_row_deleted_by_hand_while_it_waited_in_a_lane_is_not_sent() {
    let world = world();
    let _relay = world.start_with_lanes().await;
    world.broker.hold();
    let rows: Vec<_> = (0..3).map(|_| world.commit_inline("a", world.now())).collect();
    let ids = message_ids(&rows);
    world.link.hand_over(rows);
    world.until("the first of the key is under way", || world.broker.sends() == 1).await;
    world.delete(ids[1]).await;
    tokio::time::sleep(LANE_INLINE_AGE_MAX).await;
    world.broker.release();
    assert_eq!(world.delivered(2).await, [ids[0], ids[2]]);
    world.drained().await;
    assert_eq!(world.broker.sends(), 2);
}

/// Rows that are not inline, and whose turn it is too, are read first.
#[tokio::test(start_paused = true)]
async fn a_row_deleted_by_hand_during_a_slow_read_of_others_is_not_sent() {
    let world = world();
    let _relay = world.start_with_lanes().await;
    let other = world.commit_keyed("b");
    let other_handed = HandedOver { lane: Some(lane_of("b", LANES)), ..handed_over(other, TOPIC) };
    let row = world.commit_inline("a", world.now());
    let id = row.row.message_id;
    world.store.inject(Call::LaneRows, Fault::Slow(LANE_INLINE_AGE_MAX));
    world.link.hand_over(vec![other_handed, row]);
    world.until("the others are being read", || world.store.calls(Call::LaneRows) == 1).await;
    world.delete(id).await;
    assert_eq!(world.delivered(1).await, [other.message_id]);
    world.drained().await;
    assert_eq!((world.broker.sends(), world.store.calls(Call::LaneRows)), (1, 2));
}
