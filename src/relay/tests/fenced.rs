//! Fenced topics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep};

use super::World;
use super::lanes::{TOPIC, owned, world_with};
use super::several::{Few, both};
use crate::lane::lane_of;
use crate::limits::{LANE_FENCES_AT_ONCE_MAX, LANE_KEY_IN_FLIGHT_MAX, LANES};
use crate::message::{Envelope, MessageId};
use crate::relay::StartError;
use crate::store::{Call, Fault, RowKey};
use crate::topic::{OnFailedKey, Topic};
use crate::transport::{
    FailureClass, FencedLane, LaneName, MemoryTransport, OutcomeSender, ScriptedResponse, Transport, TransportError,
};

fn topic() -> Topic {
    Topic::new(TOPIC).ordered_by_key().fenced()
}

fn world() -> World {
    world_with(topic())
}

fn lane(key: &str) -> LaneName {
    LaneName { outbox: "outbox_messages".into(), topic: TOPIC.into(), lane: lane_of(key, LANES) }
}

fn commit(world: &World, count: usize) -> Vec<RowKey> {
    (0..count).map(|_| world.commit_keyed("a")).collect()
}

fn ids(rows: &[RowKey]) -> Vec<MessageId> {
    rows.iter().map(|row| row.message_id).collect()
}

#[tokio::test(start_paused = true)]
async fn several_messages_of_a_key_are_in_flight_and_leave_in_order() {
    let world = world();
    world.broker.hold();
    let rows = commit(&world, 50);
    let _relay = world.start().await;
    world.until("all are under way at once", || world.broker.sends() == 50).await;
    world.broker.release();
    assert_eq!(world.delivered(50).await, ids(&rows));
    world.drained().await;
    assert_eq!(world.broker.sends(), 50, "each once");
}

#[tokio::test(start_paused = true)]
async fn no_more_messages_of_a_key_are_in_flight_than_allowed() {
    let world = world();
    world.broker.hold();
    let rows = commit(&world, 2 * LANE_KEY_IN_FLIGHT_MAX + 50);
    let _relay = world.start().await;
    world.until("as many as may be are under way", || world.broker.sends() >= LANE_KEY_IN_FLIGHT_MAX).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(world.broker.sends(), LANE_KEY_IN_FLIGHT_MAX);
    world.broker.release();
    assert_eq!(world.delivered(rows.len()).await, ids(&rows));
}

#[tokio::test(start_paused = true)]
async fn no_more_lanes_are_fenced_at_once_than_may_be() {
    let lanes = 2 * LANE_FENCES_AT_ONCE_MAX + 3;
    let world = world_with(topic().lanes(u16::try_from(lanes).unwrap()));
    let slow = Slow::new(&world, Duration::from_secs(1), 0);
    let fences = Arc::clone(&slow.fences);
    let _relay = world.relay().transport(slow).start().await.unwrap();
    world.until("each is fenced", || fences.made.load(Ordering::Acquire) == lanes).await;
    assert_eq!(fences.most_at_once.load(Ordering::Acquire), LANE_FENCES_AT_ONCE_MAX);
}

/// The rows that the dead node's client still holds arrive after the new owner began, and the broker refuses them.
#[tokio::test(start_paused = true)]
async fn a_dead_node_is_followed_within_its_lease_and_its_messages_are_refused() {
    let world = world();
    let other = world.neighbour();
    let first = world.start().await;
    world.until("one owns all", || owned(&first) == 16).await;
    world.broker.hold();
    let rows = commit(&world, 3);
    world.until("they are under way", || world.broker.in_flight() == 3).await;
    drop(first);
    let died = Instant::now();
    let _second = other.start().await;
    world.until("the new owner sends them, too", || world.broker.in_flight() == 6).await;
    assert!(died.elapsed() <= Duration::from_secs(31 + 1), "{:?}", died.elapsed());
    world.broker.release();
    world.drained().await;
    assert_eq!(ids(&rows), world.broker.delivered().iter().map(|sent| sent.message_id).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_failed_message_takes_back_later_ones_and_holds_its_key() {
    for policy in [OnFailedKey::BlockKey, OnFailedKey::DeadLetter] {
        let world = world_with(topic().on_failed_key(policy));
        let rows = commit(&world, 10);
        let bad = rows[4].message_id;
        world.broker.respond_when(ScriptedResponse::Fail(FailureClass::Record), move |sent| sent.message_id == bad);
        let _relay = world.start().await;
        let beside = world.commit_keyed("b");
        let before: Vec<MessageId> = ids(&rows[..4]);
        if policy == OnFailedKey::BlockKey {
            world.delivered(5).await;
            sleep(Duration::from_secs(30)).await;
            assert_eq!(world.first_appearances()["a"], before);
            assert_eq!(world.store.live_rows().len(), 6);
            let row = world.store.live_rows().into_iter().find(|row| row.key == rows[4]).unwrap();
            assert!(row.attempts > 3 && world.store.live_rows()[1].failures == 0, "{row:?}");
            world.broker.clear_responses();
        }
        world.drained().await;
        let expected: Vec<_> =
            ids(&rows).into_iter().filter(|id| *id != bad || policy == OnFailedKey::BlockKey).collect();
        assert_eq!(world.first_appearances()["a"], expected);
        assert_eq!(world.first_appearances()["b"], [beside.message_id]);
        assert_eq!(world.store.dead_letter_rows().len(), usize::from(policy == OnFailedKey::DeadLetter));
    }
}

/// The broker refuses whole requests, as Kafka does.
#[tokio::test(start_paused = true)]
async fn a_refused_message_is_found_among_those_of_its_key() {
    let world = world_with(topic().on_failed_key(OnFailedKey::DeadLetter));
    let rows = commit(&world, 10);
    let bad = rows[3].message_id;
    world.broker.respond_next(1, ScriptedResponse::Fail(FailureClass::RecordRefused));
    world.broker.respond_when(ScriptedResponse::Fail(FailureClass::RecordRefused), move |sent| sent.message_id == bad);
    let _relay = world.start().await;
    world.drained().await;
    let expected: Vec<_> = ids(&rows).into_iter().filter(|id| *id != bad).collect();
    assert_eq!(world.first_appearances()["a"], expected);
    assert_eq!(world.store.dead_letter_rows().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_decoded_stops_those_behind_it() {
    let world = world();
    let rows = commit(&world, 5);
    world.store.poison(rows[2]);
    let _relay = world.start().await;
    assert_eq!(world.delivered(2).await, ids(&rows[..2]));
    sleep(Duration::from_secs(120)).await;
    assert_eq!((world.broker.sends(), world.store.live_rows().len()), (2, 3));
}

/// Another outbox of the same name, or an owner that was slow to fence a lane it had already lost.
#[tokio::test(start_paused = true)]
async fn a_lane_that_somebody_else_fenced_is_taken_again() {
    let world = world();
    let relay = world.start().await;
    world.until("every lane is owned", || owned(&relay) == 16).await;
    let first = commit(&world, 1);
    world.delivered(1).await;
    world.broker.fence(lane("a")).await.unwrap();
    let rows = commit(&world, 20);
    world.delivered(21).await;
    world.drained().await;
    assert_eq!(world.first_appearances()["a"], ids(&[first, rows].concat()));
    assert_eq!(world.broker.delivered().len(), 21, "a refused message is not stored");
}

#[tokio::test(start_paused = true)]
async fn an_outage_closes_the_producer_and_the_lane_is_fenced_again() {
    let world = world();
    let _relay = world.start().await;
    let first = commit(&world, 5);
    world.delivered(5).await;
    world.broker.go_down();
    let rows = commit(&world, 30);
    sleep(Duration::from_secs(20)).await;
    assert!(world.store.live_rows().iter().all(|row| row.attempts == 0 && row.failures == 0));
    world.broker.go_up();
    world.drained().await;
    assert_eq!(world.first_appearances()["a"], ids(&[first, rows].concat()));
}

/// The key waits even if its failures cannot be written.
#[tokio::test(start_paused = true)]
async fn a_failed_message_goes_before_later_ones_whatever_the_database_does() {
    let world = world();
    let rows = commit(&world, 30);
    for (place, class) in [(2, FailureClass::Record), (7, FailureClass::Temporary), (8, FailureClass::Record)] {
        let (failing, mut times) = (rows[place].message_id, 2);
        world.broker.respond_when(ScriptedResponse::Fail(class), move |sent| {
            times -= i32::from(sent.message_id == failing && times > 0);
            sent.message_id == failing && times > 0
        });
    }
    for _ in 0..2 {
        let error = crate::store::StoreError::Statement("scheduled".into());
        world.store.inject(Call::FailInLanes, crate::store::Fault::Refused(error));
    }
    let _relay = world.start().await;
    world.drained().await;
    assert_eq!(world.first_appearances()["a"], ids(&rows));
}

#[tokio::test(start_paused = true)]
async fn nodes_that_join_and_leave_double_nothing() {
    let world = world();
    let other = world.neighbour();
    world.broker.set_latency(Duration::from_millis(20));
    let first = world.start().await;
    world.until("one owns all", || owned(&first) == 16).await;
    let mut rows = 0;
    let mut commit = |count: usize| {
        for key in 0..count {
            world.commit_keyed(&(key % 40).to_string());
        }
        rows += count;
    };
    commit(400);
    let second = other.start().await;
    world.until("both own a half", || owned(&first) == 8 && owned(&second) == 8).await;
    commit(400);
    assert!(second.shutdown(Duration::from_secs(20)).await.is_clean());
    world.until("one owns all again", || owned(&first) == 16).await;
    commit(400);
    world.delivered(rows).await;
    world.drained().await;
    assert_eq!(world.broker.sends(), rows, "a hand-over without a fault sends nothing twice");
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_cannot_fence_refuses_to_start() {
    let world = world();
    match world.relay().transport(Few(MemoryTransport::new())).start().await {
        Err(error @ StartError::CannotFence { .. }) => {
            let text = error.to_string();
            assert!(text.contains(TOPIC) && text.contains("\"default\""), "{text}");
        }
        answer => panic!("{answer:?}"),
    }
}

/// The relays share one transport, and their tables and topics have the same names.
#[tokio::test(start_paused = true)]
async fn relays_of_several_databases_do_not_fence_each_other() {
    let (north, mut south) = (world(), world());
    south.broker = north.broker.clone();
    let relays = both(&north, &south).start().await.unwrap();
    north.until("each owns all", || relays.iter().all(|(_, relay)| owned(relay) == 16)).await;
    for _ in 0..3 {
        commit(&north, 1);
        commit(&south, 1);
        north.drained().await;
        south.drained().await;
    }
    assert_eq!(north.broker.sends(), 6, "nothing was refused");
}

/// Is slow to fence, and panics before that.
#[derive(Debug)]
struct Slow {
    broker: MemoryTransport,
    takes: Duration,
    panics: AtomicU32,
    fences: Arc<Fences>,
}

#[derive(Debug, Default)]
struct Fences {
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    made: AtomicUsize,
}

impl Slow {
    fn new(world: &World, takes: Duration, panics: u32) -> Self {
        Self { broker: world.broker.clone(), takes, panics: AtomicU32::new(panics), fences: Arc::default() }
    }
}

#[async_trait]
impl Transport for Slow {
    fn delivery_timeout(&self) -> Duration {
        self.broker.delivery_timeout()
    }

    async fn prepare(&self, topics: &[Topic]) -> Result<(), TransportError> {
        self.broker.prepare(topics).await
    }

    fn send(&self, envelope: Envelope, sender: OutcomeSender) {
        self.broker.send(envelope, sender);
    }

    async fn probe(&self) -> Result<(), TransportError> {
        self.broker.probe().await
    }

    fn supports_fencing(&self) -> bool {
        true
    }

    async fn fence(&self, lane: LaneName) -> Result<Arc<dyn FencedLane>, TransportError> {
        let panics = self.panics.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1)).is_ok();
        assert!(!panics, "a bug in the transport");
        let at_once = self.fences.at_once.fetch_add(1, Ordering::AcqRel) + 1;
        self.fences.most_at_once.fetch_max(at_once, Ordering::AcqRel);
        sleep(self.takes).await;
        self.fences.at_once.fetch_sub(1, Ordering::AcqRel);
        self.fences.made.fetch_add(1, Ordering::AcqRel);
        self.broker.fence(lane).await
    }

    async fn flush(&self, within: Duration) -> usize {
        self.broker.flush(within).await
    }
}

/// Later, it would fence the next owner.
#[tokio::test(start_paused = true)]
async fn a_lane_is_not_handed_over_while_it_is_being_fenced() {
    let world = world();
    let other = world.neighbour();
    let slow = Slow::new(&world, Duration::from_secs(5), 0);
    let first = world.relay().transport(slow).start().await.unwrap();
    world.until("one owns all", || owned(&first) == 16).await;
    let second = other.start().await;
    world.until("both own a half", || owned(&first) == 8 && owned(&second) == 8).await;
    // Until everything in flight has arrived.
    sleep(Duration::from_secs(10)).await;
    for key in 0..40 {
        world.commit_keyed(&key.to_string());
    }
    world.drained().await;
    assert_eq!(world.broker.sends(), 40, "nothing was refused");
}

#[tokio::test(start_paused = true)]
async fn a_fence_that_panics_is_retried_and_delays_no_other() {
    let world = world();
    let slow = Slow::new(&world, Duration::from_secs(1), 2);
    for key in 0..40 {
        world.commit_keyed(&key.to_string());
    }
    let _relay = world.relay().transport(slow).start().await.unwrap();
    world.drained().await;
    assert_eq!(world.broker.sends(), 40);
}

/// The answer to a message that the broker has is lost.
#[tokio::test(start_paused = true)]
async fn what_an_exactly_once_lane_has_delivered_is_settled_and_not_sent_again() {
    for (topic, copies) in [(topic(), 2), (topic().exactly_once(), 1)] {
        let world = world_with(topic);
        world.broker.respond_next(1, ScriptedResponse::StoreThenFail(FailureClass::Temporary));
        let row = world.commit_keyed("a");
        let _relay = world.start().await;
        world.drained().await;
        let delivered: Vec<MessageId> = world.broker.delivered().iter().map(|sent| sent.message_id).collect();
        assert_eq!(delivered, vec![row.message_id; copies]);
    }
}

/// Its rows are settled by the next owner, which has not sent them.
#[tokio::test(start_paused = true)]
async fn what_a_dead_owner_of_an_exactly_once_lane_has_delivered_is_not_sent_again() {
    let world = world_with(topic().exactly_once());
    let other = world.neighbour();
    let first = world.start().await;
    world.until("one owns all", || owned(&first) == 16).await;
    // The next owner's settles are slow, too, and end in time.
    (0..9).for_each(|_| world.store.inject(Call::Settle, Fault::Slow(Duration::from_secs(5))));
    let rows = commit(&world, 3);
    world.delivered(3).await;
    drop(first);
    assert_eq!(world.store.live_rows().len(), 3, "settled, so the test shows nothing");
    let _second = other.start().await;
    world.drained().await;
    assert_eq!(ids(&rows), world.broker.delivered().iter().map(|sent| sent.message_id).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_transport_without_exactly_once_lanes_is_refused_at_start() {
    let world = world_with(topic().exactly_once());
    let slow = Slow::new(&world, Duration::ZERO, 0);
    let refused = world.relay().transport(slow).start().await.unwrap_err();
    assert!(matches!(refused, StartError::CannotSendOnce { .. }), "{refused}");
}
