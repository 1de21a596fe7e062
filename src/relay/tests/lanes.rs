//! Ordered topics.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use super::{World, envelope};
use crate::lane::lane_of;
use crate::limits::LANES;
use crate::message::MessageId;
use crate::relay::direct::queue::HandedOver;
use crate::relay::{Relay, StartError};
use crate::retry::Fixed;
use crate::store::{Call, InsertOptions, LaneCount, LaneStore as _, RowKey, SchemaProblem};
use crate::topic::{OnFailedKey, Topic};
use crate::transport::{FailureClass, ScriptedResponse};

pub(super) const TOPIC: &str = "payments";

pub(super) fn world() -> World {
    world_with(Topic::new(TOPIC).ordered_by_key())
}

pub(super) fn world_with(topic: Topic) -> World {
    let mut world = World::new();
    world.topics.push(topic.retry(Fixed::seconds(&[1])).attempts_max(3));
    world
}

impl World {
    pub(super) fn commit_keyed(&self, key: &str) -> RowKey {
        let mut envelope = envelope(TOPIC);
        envelope.key = Some(key.to_owned());
        self.store.insert(envelope, InsertOptions::default().in_lane(lane_of(key, LANES)))
    }

    pub(super) fn commit_keyed_and_hand_over(&self, key: &str) -> RowKey {
        let row = self.commit_keyed(key);
        self.hand_over_keyed(row, key, true);
        row
    }

    pub(super) fn hand_over_keyed(&self, row: RowKey, key: &str, with_id: bool) {
        let mut handed = HandedOver { lane: Some(lane_of(key, LANES)), ..super::handed_over(row, TOPIC) };
        handed.row.id = handed.row.id.filter(|_| with_id);
        self.link.hand_over(vec![handed]);
    }

    /// By key: what the broker stored, each message where it first appeared.
    pub(super) fn first_appearances(&self) -> HashMap<String, Vec<MessageId>> {
        let (mut seen, mut by_key) = (HashSet::new(), HashMap::<String, Vec<MessageId>>::new());
        for envelope in self.broker.delivered_to(TOPIC) {
            if seen.insert(envelope.message_id) {
                by_key.entry(envelope.key.unwrap_or_default()).or_default().push(envelope.message_id);
            }
        }
        by_key
    }

    /// Another process on the same tables and broker.
    pub(super) fn neighbour(&self) -> World {
        let mut other = World::on(self.store.clone());
        other.broker = self.broker.clone();
        other.topics = self.topics.clone();
        other
    }
}

pub(super) fn owned(relay: &Relay) -> usize {
    let status = relay.status();
    status.lanes.iter().filter(|lane| lane.owner == Some(status.node)).count()
}

#[tokio::test(start_paused = true)]
async fn messages_of_a_key_leave_in_the_order_of_their_rows() {
    let world = world();
    world.broker.set_latency(Duration::from_millis(3));
    let keys = ["a", "b", "c", "d", "e"];
    let mut expected: HashMap<String, Vec<MessageId>> = HashMap::new();
    for round in 0..40 {
        let key = keys[(round * 7) % keys.len()];
        expected.entry(key.to_owned()).or_default().push(world.commit_keyed(key).message_id);
    }
    let _relay = world.start().await;
    world.delivered(40).await;
    assert_eq!(world.first_appearances(), expected);
    world.drained().await;
    assert_eq!(world.broker.sends(), 40, "each once");
}

#[tokio::test(start_paused = true)]
async fn one_message_of_a_key_is_in_flight_and_many_keys_are() {
    let world = world();
    world.broker.hold();
    for key in ["a", "b", "c", "a", "b", "a"] {
        world.commit_keyed(key);
    }
    let _relay = world.start().await;
    world.until("the first of each key is sent", || world.broker.sends() == 3).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.broker.sends(), 3, "the other rows wait for the outcomes of these");
    world.broker.release();
    world.delivered(6).await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_wakes_the_owner_of_its_lane() {
    for with_id in [true, false] {
        let world = world();
        let relay = world.start().await;
        world.until("every lane is owned", || owned(&relay) == usize::from(LANES)).await;
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(1_300)).await;
            let start = Instant::now();
            let row = world.commit_keyed("a");
            world.hand_over_keyed(row, "a", with_id);
            assert!(relay.flush(Duration::from_secs(5)).await.is_settled());
            assert!(start.elapsed() < Duration::from_millis(100), "it waited for a poll: {:?}", start.elapsed());
            assert_eq!(world.broker.delivered().last().map(|sent| sent.message_id), Some(row.message_id));
        }
    }
}

/// Ids are assigned before commits, so a row can appear behind one with a higher id.
#[tokio::test(start_paused = true)]
async fn a_row_that_commits_late_is_found() {
    for wakes in [true, false] {
        let world = world();
        let mut slow = envelope(TOPIC);
        slow.key = Some("a".to_owned());
        let slow = world.store.insert_uncommitted(slow, InsertOptions::default().in_lane(lane_of("a", LANES)));
        let fast = world.commit_keyed("a");
        let _relay = world.start().await;
        assert_eq!(world.delivered(1).await, [fast.message_id]);
        world.drained().await;
        let start = Instant::now();
        let slow = slow.commit();
        if wakes {
            world.hand_over_keyed(slow, "a", true);
        }
        assert_eq!(world.delivered(2).await[1], slow.message_id);
        let bound = if wakes { Duration::from_millis(100) } else { Duration::from_millis(1_100) };
        assert!(start.elapsed() < bound, "{:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_message_holds_its_key_and_no_other() {
    let world = world();
    let first = world.commit_keyed("a");
    world
        .broker
        .respond_when(ScriptedResponse::Fail(FailureClass::Record), move |sent| sent.message_id == first.message_id);
    let second = world.commit_keyed("a");
    let relay = world.start().await;
    for _ in 0..50 {
        for key in ["b", "c", "a"] {
            world.commit_keyed_and_hand_over(key);
        }
    }
    assert_eq!(world.delivered(100).await.len(), 100);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let appeared = world.first_appearances();
    assert_eq!((appeared.get("a"), appeared["b"].len(), appeared["c"].len()), (None, 50, 50));
    assert!(world.store.dead_letter_rows().is_empty(), "a key that holds dead-letters nothing, whatever the attempts");
    let row = &world.store.live_rows()[0];
    assert_eq!(row.key, first);
    assert!(row.attempts > 3 && row.errors.len() == 10, "{row:?}");
    assert!(relay.flush(Duration::from_secs(1)).await.is_settled(), "a flush does not wait for held rows");
    world.broker.clear_responses();
    world.drained().await;
    let appeared = &world.first_appearances()["a"];
    assert_eq!((appeared[0], appeared[1], appeared.len()), (first.message_id, second.message_id, 52));
}

#[tokio::test(start_paused = true)]
async fn a_topic_can_go_on_behind_a_dead_letter() {
    let world = world_with(Topic::new(TOPIC).ordered_by_key().on_failed_key(OnFailedKey::DeadLetter));
    let rows: Vec<RowKey> = (0..3).map(|_| world.commit_keyed("a")).collect();
    let bad = rows[0].message_id;
    world.broker.respond_when(ScriptedResponse::Fail(FailureClass::Record), move |sent| sent.message_id == bad);
    let _relay = world.start().await;
    assert_eq!(world.delivered(2).await, [rows[1].message_id, rows[2].message_id]);
    world.drained().await;
    let dead = world.store.dead_letter_rows();
    assert_eq!((dead.len(), dead[0].key), (1, rows[0]));
    assert!(dead[0].reason.starts_with("attempts"), "{}", dead[0].reason);
}

/// The broker refuses every batch with the bad record in it, as Kafka does.
#[tokio::test(start_paused = true)]
async fn a_refused_record_is_tried_alone_before_its_key_is_held() {
    for policy in [OnFailedKey::BlockKey, OnFailedKey::DeadLetter] {
        let world = world_with(Topic::new(TOPIC).ordered_by_key().on_failed_key(policy));
        let rows: Vec<RowKey> = (0..10).map(|key| world.commit_keyed(&key.to_string())).collect();
        let bad = rows[4].message_id;
        world.broker.respond_next(10, ScriptedResponse::Fail(FailureClass::RecordRefused));
        world
            .broker
            .respond_when(ScriptedResponse::Fail(FailureClass::RecordRefused), move |sent| sent.message_id == bad);
        let _relay = world.start().await;
        assert_eq!(world.delivered(9).await.len(), 9);
        let is_dead = policy == OnFailedKey::DeadLetter;
        world.until("the others are settled", || world.store.live_rows().len() == usize::from(!is_dead)).await;
        assert_eq!(world.store.dead_letter_rows().len(), usize::from(is_dead));
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_that_cannot_be_decoded_holds_its_key() {
    let world = world();
    let bad = world.commit_keyed("a");
    world.store.poison(bad);
    world.commit_keyed("a");
    let other = world.commit_keyed("b");
    let _relay = world.start().await;
    assert_eq!(world.delivered(1).await, [other.message_id]);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!((world.broker.sends(), world.store.live_rows().len()), (1, 2));
}

/// One key has more rows than are kept in memory, and rows of other keys are behind them.
#[tokio::test(start_paused = true)]
async fn a_key_with_a_long_backlog_keeps_its_order_and_stops_no_other() {
    let world = world();
    world.broker.set_latency(Duration::from_millis(1));
    let hot: Vec<MessageId> = (0..2_500).map(|_| world.commit_keyed("hot").message_id).collect();
    let same_lane = (0..).map(|key| format!("cold-{key}")).find(|key| lane_of(key, LANES) == lane_of("hot", LANES));
    let cold = world.commit_keyed(&same_lane.unwrap_or_default());
    let _relay = world.start().await;
    world
        .until("the other key has its turn", || {
            world.broker.delivered().iter().any(|sent| sent.message_id == cold.message_id)
        })
        .await;
    assert!(world.broker.delivered().len() < 1_500, "it waited for the whole backlog before it");
    world.delivered(2_501).await;
    world.drained().await;
    assert_eq!(world.first_appearances()["hot"], hot);
    assert_eq!(world.broker.sends(), 2_501, "each once");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_read_while_the_broker_is_down() {
    let world = world();
    let relay = world.start().await;
    world.broker.go_down();
    for key in ["a", "b", "a"] {
        world.commit_keyed_and_hand_over(key);
    }
    world.until("the outage is noticed", || relay.status().transport != crate::relay::TransportStatus::Up).await;
    let sends = world.broker.sends();
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(world.broker.sends() <= sends + 1, "{} sends into an outage", world.broker.sends());
    assert!(world.store.live_rows().iter().all(|row| row.attempts == 0 && row.failures == 0));
    world.broker.go_up();
    world.delivered(3).await;
    world.drained().await;
    assert_eq!(world.first_appearances()["a"].len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_joins_gets_its_share_and_one_that_leaves_gives_it_back_without_a_duplicate() {
    let world = world();
    let other = world.neighbour();
    world.broker.set_latency(Duration::from_millis(20));
    let first = world.start().await;
    world.until("one owns all", || owned(&first) == 16).await;
    let mut rows = 0;
    let mut commit = |count: usize| {
        for key in 0..count {
            world.commit_keyed_and_hand_over(&(key % 40).to_string());
        }
        rows += count;
    };
    commit(400);
    let second = other.start().await;
    let joined = Instant::now();
    world.until("both own a half", || owned(&first) == 8 && owned(&second) == 8).await;
    assert!(joined.elapsed() < Duration::from_secs(10), "{:?}", joined.elapsed());
    commit(400);
    let left = Instant::now();
    assert!(second.shutdown(Duration::from_secs(20)).await.is_clean());
    assert!(left.elapsed() < Duration::from_secs(5), "{:?}", left.elapsed());
    world.until("one owns all again", || owned(&first) == 16).await;
    commit(400);
    assert_eq!(world.delivered(rows).await.len(), rows);
    world.drained().await;
    assert_eq!(world.broker.sends(), rows, "a hand-over without a fault sends nothing twice");
    let sent: Vec<_> = world.first_appearances().into_values().flatten().collect();
    assert_eq!(sent.len(), rows);
    assert_eq!(first.status().lanes[0].nodes, 1);
}

#[tokio::test(start_paused = true)]
async fn a_dead_node_is_followed_within_its_lease_and_the_delivery_time_out() {
    let world = world();
    let other = world.neighbour();
    let first = world.start().await;
    world.until("one owns all", || owned(&first) == 16).await;
    drop(first);
    let died = Instant::now();
    let row = world.commit_keyed("a");
    let second = other.start().await;
    assert_eq!(world.delivered(1).await, [row.message_id]);
    // Lane lease, poll, delivery time-out and margin.
    let bound = Duration::from_secs(30) + Duration::from_secs(1) + Duration::from_millis(25_500);
    assert!(died.elapsed() <= bound + Duration::from_secs(1), "{:?}", died.elapsed());
    assert!(
        died.elapsed() > Duration::from_secs(40),
        "nothing is sent before the dead node's messages can no longer arrive"
    );
    assert_eq!(owned(&second), 16);
}

/// A node that cannot reach its database stops sending when its leases may have ended.
#[tokio::test(start_paused = true)]
async fn lanes_are_lost_with_the_database_and_taken_again() {
    let world = world();
    let relay = world.start().await;
    world.until("every lane is owned", || owned(&relay) == 16).await;
    world.store.set_down(true);
    tokio::time::sleep(Duration::from_secs(40)).await;
    world.store.set_down(false);
    let row = world.commit_keyed("a");
    assert_eq!(world.delivered(1).await, [row.message_id]);
}

#[tokio::test(start_paused = true)]
async fn another_number_of_lanes_refuses_to_start() {
    let world = world();
    world.store.prepare_lanes(&[LaneCount { topic: TOPIC.into(), lanes: 8 }]).await.unwrap();
    match world.relay().start().await {
        Err(StartError::Schema(problem @ SchemaProblem::LaneCount { found: 8, configured: 16, .. })) => {
            assert!(problem.to_string().contains("Configure .lanes(8)"), "{problem}");
        }
        answer => panic!("{answer:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_database_that_is_away_at_start_gets_its_lanes_later() {
    let world = world();
    world.store.set_down(true);
    let _relay = world.start().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    world.store.set_down(false);
    world.commit_keyed("a");
    world.delivered(1).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_topic_costs_two_statements_a_second() {
    let world = world();
    let relay = world.start().await;
    world.until("every lane is owned", || owned(&relay) == 16).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let calls = || {
        let of = [Call::ReadLanes, Call::LaneEntries, Call::LaneRows, Call::BalanceLanes];
        of.map(|call| world.store.calls(call)).into_iter().sum::<u64>()
    };
    let before = calls();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let a_minute = calls() - before;
    assert!(a_minute <= 2 * 60 + 8, "{a_minute} calls");
}

/// Its own broker connection fails; the other node's does not.
#[tokio::test(start_paused = true)]
async fn a_node_whose_broker_fails_yields_sleeps_and_wakes() {
    let world = world();
    let mut other = world.neighbour();
    other.broker = crate::transport::MemoryTransport::new();
    other.broker.set_delivery_timeout(Duration::from_secs(25));
    let (first, second) = (world.start().await, other.start().await);
    world.until("each owns a half", || owned(&first) == 8 && owned(&second) == 8).await;
    other.broker.go_down();
    let failed = Instant::now();
    let rows: Vec<RowKey> = (0..50).map(|key| world.commit_keyed_and_hand_over(&key.to_string())).collect();
    world.until("one gave its lanes up", || owned(&second) == 0 && owned(&first) == 16).await;
    assert!(failed.elapsed() < Duration::from_secs(20), "{:?}", failed.elapsed());
    assert_eq!(second.status().asleep_topics.len(), 1);
    assert_eq!(world.delivered(rows.len()).await.len(), rows.len());
    world.drained().await;
    other.broker.go_up();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(owned(&second), 0, "it sleeps");
    world.until("it is back", || owned(&first) == 8 && owned(&second) == 8).await;
    assert!(second.status().asleep_topics.is_empty());
}
