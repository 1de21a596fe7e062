//! Messages that operators put back among the live ones beside a running relay.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::World;
use super::lanes::{TOPIC, owned, world_with};
use crate::lane::lane_of;
use crate::limits::LANES;
use crate::relay::Relay;
use crate::store::{AdminStore as _, HistoryStore as _, Requeue, RowKey};
use crate::topic::{OnFailedKey, Topic};
use crate::transport::{FailureClass, ScriptedResponse};

impl World {
    /// Commits a message that the broker refuses until it is dead-lettered.
    async fn dead_letter_keyed(&self, key: &str) -> RowKey {
        let row = self.commit_keyed(key);
        self.broker
            .respond_when(ScriptedResponse::Fail(FailureClass::Record), move |sent| sent.message_id == row.message_id);
        self.hand_over_keyed(row, key, true);
        self.until("it is dead", || self.store.dead_letter_rows().len() == 1).await;
        self.broker.clear_responses();
        row
    }

    /// Wakes the relay, as putting something back does, and waits for it no longer than for a commit.
    async fn wake_and_flush(&self, relay: &Relay, expected: RowKey) {
        let began = Instant::now();
        self.link.wake();
        assert!(relay.flush(Duration::from_secs(5)).await.is_settled());
        assert!(began.elapsed() < Duration::from_millis(100), "it waited for a poll: {:?}", began.elapsed());
        let last = self.broker.delivered().last().map(|sent| sent.message_id);
        assert_eq!(last, Some(expected.message_id), "a flush waits for it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_requeued_row_wakes_the_owner_of_its_lane() {
    let topic = Topic::new(TOPIC).ordered_by_key().on_failed_key(OnFailedKey::DeadLetter);
    let world = world_with(topic.keep_sent_days(1).processed_within(Duration::from_secs(60)));
    let relay = world.start().await;
    world.until("every lane is owned", || owned(&relay) == usize::from(LANES)).await;
    for _ in 0..5 {
        let row = world.dead_letter_keyed("a").await;
        let back = Requeue { message_id: row.message_id, lane: Some(lane_of("a", LANES)) };
        sleep(Duration::from_millis(1_300)).await;
        assert_eq!(world.store.redrive(&[back], None).await.unwrap().len(), 1);
        world.wake_and_flush(&relay, row).await;
        world.drained().await;
        sleep(Duration::from_millis(1_300)).await;
        assert_eq!(world.store.resend(&[back], None).await.unwrap(), [row.message_id]);
        world.wake_and_flush(&relay, row).await;
    }
}
