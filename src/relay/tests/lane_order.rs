//! Scenarios that the model found in the protocol of lanes, run against the engine.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::lanes::{TOPIC, owned, world, world_with};
use super::logged::Log;
use super::{DEADLINE, World, envelope};
use crate::lane::lane_of;
use crate::limits::{
    LANE_OPEN_TRANSACTION_DURATION, LANE_OPEN_TRANSACTION_DURATION_MAX, LANE_OPEN_TRANSACTION_ROWS_MAX, LANES,
};
use crate::relay::StartError;
use crate::store::{Call, InsertOptions, LaneStore as _, PendingRow, RowKey, SchemaProblem};
use crate::topic::Topic;

impl World {
    pub(super) fn begin_keyed(&self, key: &str) -> PendingRow {
        let mut envelope = envelope(TOPIC);
        envelope.key = Some(key.to_owned());
        self.store.insert_uncommitted(envelope, InsertOptions::default().in_lane(lane_of(key, LANES)))
    }
}

fn key_where(is_wanted: impl Fn(u16) -> bool) -> String {
    let mut keys = (0_u32..).map(|number| number.to_string());
    keys.find(|key| is_wanted(lane_of(key, LANES))).unwrap()
}

/// Commits a row of the key, and waits until nothing is left to send. Returns the row.
async fn sent(world: &World, key: &str) -> RowKey {
    let row = world.commit_keyed_and_hand_over(key);
    world.drained().await;
    row
}

/// Commits a row of key `a` whose process notifies nobody, and then the next row of that key.
async fn assert_goes_before_the_next(world: &World, hung: PendingRow) {
    let hung = hung.commit();
    let next = sent(world, "a").await;
    assert_eq!(world.first_appearances()["a"], [hung.message_id, next.message_id]);
}

/// Loses every lane, and takes it again, with what is in flight.
async fn lose_lanes_and_take_them_again(world: &World) {
    let before = fences(world).await;
    world.store.set_down(true);
    sleep(world.limits.lane_lease_duration + Duration::from_secs(2)).await;
    world.store.set_down(false);
    let deadline = Instant::now() + DEADLINE;
    while fences(world).await.iter().zip(&before).any(|(is, was)| is == was) {
        assert!(Instant::now() < deadline, "the lanes are not taken again");
        sleep(Duration::from_millis(10)).await;
    }
}

async fn fences(world: &World) -> Vec<i64> {
    let view = world.store.read_lanes(&TOPIC.into()).await.unwrap();
    view.lanes.iter().map(|lane| lane.fence).collect()
}

/// Ids are assigned before commits. In between, another process reads on, and the hook that sees the late commit is in
/// a process that does not own the lane.
#[tokio::test(start_paused = true)]
async fn a_row_passed_while_its_transaction_was_open_goes_before_the_next_of_its_key() {
    let world = world();
    let _relay = world.start().await;
    let beside = key_where(|lane| lane == lane_of("a", LANES));
    let slow = world.begin_keyed("a");
    let fast = world.commit_keyed(&beside);
    world.hand_over_keyed(fast, &beside, true);
    assert_eq!(world.delivered(1).await, [fast.message_id]);
    world.drained().await;
    sleep(LANE_OPEN_TRANSACTION_DURATION / 2).await;

    let slow = slow.commit();
    let next = world.commit_keyed("a");
    world.hand_over_keyed(next, "a", true);
    world.delivered(3).await;
    assert_eq!(world.first_appearances()["a"], [slow.message_id, next.message_id]);
}

/// A process hangs in the middle of a transaction, longer than any normal one lasts.
#[tokio::test(start_paused = true)]
async fn a_row_whose_transaction_hung_goes_before_the_next_of_its_key() {
    let world = world();
    let _relay = world.start().await;
    let beside = key_where(|lane| lane == lane_of("a", LANES));
    let hung = world.begin_keyed("a");
    let end = Instant::now() + LANE_OPEN_TRANSACTION_DURATION_MAX - Duration::from_secs(5);
    while Instant::now() < end {
        sent(&world, &beside).await;
        sleep(Duration::from_millis(300)).await;
    }
    assert_goes_before_the_next(&world, hung).await;
}

/// Everybody draws ids: other topics too, and transactions that are rolled back.
#[tokio::test(start_paused = true)]
async fn a_row_whose_transaction_hung_goes_before_the_next_of_its_key_however_many_ids_others_draw() {
    let world = world();
    let _relay = world.start().await;
    let beside = key_where(|lane| lane == lane_of("a", LANES));
    let hung = world.begin_keyed("a");
    sent(&world, &beside).await;
    for _ in 0..2 * LANE_OPEN_TRANSACTION_ROWS_MAX {
        drop(world.begin_keyed("b"));
    }
    for _ in 0..3 {
        sleep(LANE_OPEN_TRANSACTION_DURATION).await;
        sent(&world, &beside).await;
    }
    assert_goes_before_the_next(&world, hung).await;
}

/// A full page of young rows is not skipped before they are old enough, or gone.
#[tokio::test(start_paused = true)]
async fn a_row_passed_in_a_backlog_goes_before_the_next_of_its_key() {
    let world = world();
    world.broker.hold();
    let slow = world.begin_keyed("a");
    let lane = lane_of("a", LANES);
    for key in (0_u32..).map(|number| format!("b{number}")).filter(|key| lane_of(key, LANES) == lane).take(400) {
        world.commit_keyed(&key);
    }
    let _relay = world.start().await;
    world.until("a page is sent", || world.broker.sends() > 0).await;
    let slow = slow.commit();
    let next = world.commit_keyed("a");
    world.hand_over_keyed(next, "a", true);
    sleep(Duration::from_millis(50)).await;
    world.broker.release();
    world.delivered(402).await;
    assert_eq!(world.first_appearances()["a"], [slow.message_id, next.message_id]);
}

#[tokio::test(start_paused = true)]
async fn a_lane_taken_again_waits_for_older_rows_in_flight() {
    let world = world();
    let relay = world.start().await;
    world.until("every lane is owned", || owned(&relay) == usize::from(LANES)).await;
    world.broker.hold();
    let rows = [(); 2].map(|()| world.commit_keyed("a"));
    world.until("the first is sent", || world.broker.sends() == 1).await;
    let reads = world.store.calls(Call::LaneRows);

    lose_lanes_and_take_them_again(&world).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(world.broker.sends(), 1, "neither the row in flight nor the next one of its key is sent");
    assert_eq!(
        world.store.calls(Call::LaneRows),
        reads,
        "read before its answer is there, it may be settled by the send"
    );

    world.broker.release();
    world.drained().await;
    assert_eq!(world.first_appearances()["a"], rows.map(|row| row.message_id));
    assert_eq!(world.broker.sends(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_lane_is_not_handed_over_with_older_rows_in_flight() {
    let world = world();
    let relay = world.start().await;
    world.until("every lane is owned", || owned(&relay) == usize::from(LANES)).await;
    world.broker.hold();
    // A lane of the upper half, which goes to the joining node.
    let key = key_where(|lane| lane >= LANES / 2);
    world.commit_keyed(&key);
    world.until("it is sent", || world.broker.sends() == 1).await;
    lose_lanes_and_take_them_again(&world).await;

    let neighbour = world.neighbour();
    let other = neighbour.start().await;
    world.until("the rest is handed over", || owned(&other) == usize::from(LANES / 2) - 1).await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(owned(&other), usize::from(LANES / 2) - 1);
    world.broker.release();
    world.until("it is handed over", || owned(&other) == usize::from(LANES / 2)).await;
    world.drained().await;
    assert_eq!(world.broker.sends(), 1);
}

/// Its rows would stay where they are, and nobody would report it.
#[tokio::test(start_paused = true)]
async fn a_topic_that_is_ordered_no_more_leaves_no_row_behind() {
    let (ordered, plain) = (world(), world_with(Topic::new(TOPIC)));
    let unordered = World { store: ordered.store.clone(), ..plain };
    let row = ordered.commit_keyed("a");
    match unordered.relay().start().await {
        Err(StartError::Schema(problem @ SchemaProblem::OrderedRows { .. })) => {
            assert!(problem.to_string().contains("ordered_by_key()"), "{problem}");
        }
        other => panic!("row {row:?} would be left: {other:?}"),
    }
    let relay = ordered.start().await;
    ordered.drained().await;
    assert!(relay.shutdown(Duration::from_secs(30)).await.is_clean());
    drop(unordered.start().await);
}

/// The start could not check.
#[tokio::test(start_paused = true)]
async fn orphaned_rows_are_reported_when_the_database_is_back() {
    let (log, _logging) = Log::begin();
    let times = || log.times("has messages that were enqueued while it was");
    let (ordered, plain) = (world(), world_with(Topic::new(TOPIC)));
    let unordered = World { store: ordered.store.clone(), ..plain };
    ordered.commit_keyed("a");
    ordered.store.set_down(true);
    let _relay = unordered.start().await;
    assert_eq!(times(), 0);
    ordered.store.set_down(false);
    unordered.until("it is logged", || times() > 0).await;
    let polls = ordered.store.calls(Call::Poll);
    unordered.until("it polls on", || ordered.store.calls(Call::Poll) > polls + 2).await;
    assert_eq!(times(), 1);
}
