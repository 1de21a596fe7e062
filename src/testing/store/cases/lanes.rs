//! Who owns which lane, and what its owner may write.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::lane::{NodeId, lane_of};
use crate::message::Envelope;
use crate::store::{
    Failed, Held, InsertOptions, LaneBalanceSpec, LaneCount, LaneScan, LaneState, LaneStore, LaneView, Loaded, Locking,
    NewDeadLetter, OwnedLane, RowKey, SchemaProblem, StoreError, WithFence,
};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::{
    DUE, LEASE, TOPIC, claim_and_close, dead_letter_keys, decoded, insert, keys, live_keys, live_row, message,
    other_message, poll_spec, sorted, spec,
};

pub(super) const LANES: u16 = 4;
const QUIET: Duration = Duration::from_secs(20);

pub(super) fn topic() -> Arc<str> {
    TOPIC.into()
}

/// The lane operations, with the topic's lanes created.
pub(super) async fn lanes(under_test: &dyn StoreUnderTest) -> &dyn LaneStore {
    let lanes = under_test.store().lanes();
    lanes.prepare_lanes(&[count(LANES)]).await.expect("prepare the lanes");
    lanes
}

fn count(lanes: u16) -> LaneCount {
    LaneCount { topic: topic(), lanes }
}

fn joining(node: NodeId) -> LaneBalanceSpec {
    LaneBalanceSpec {
        topic: topic(),
        node,
        renew: Vec::new(),
        release: Vec::new(),
        joins: true,
        lease_duration: LEASE,
        quiet_duration: QUIET,
    }
}

fn owned(view: &LaneView, node: NodeId) -> Vec<OwnedLane> {
    let owned = view.lanes.iter().filter(|lane| lane.owner == Some(node));
    owned.map(|lane| OwnedLane { lane: lane.lane, fence: lane.fence }).collect()
}

/// A node that owns every lane.
pub(super) async fn sole_owner(lanes: &dyn LaneStore) -> (NodeId, Vec<OwnedLane>) {
    let node = NodeId::new();
    let view = lanes.balance_lanes(&joining(node)).await.expect("balance_lanes");
    let held = owned(&view, node);
    assert_eq!(held.len(), usize::from(LANES), "a single node takes every lane");
    (node, held)
}

fn keyed(key: &str) -> (Envelope, InsertOptions) {
    let mut envelope = message(TOPIC);
    envelope.key = Some(key.to_owned());
    (envelope, InsertOptions::default().in_lane(lane_of(key, LANES)))
}

pub(super) async fn insert_keyed(under_test: &dyn StoreUnderTest, key: &str) -> RowKey {
    let (envelope, options) = keyed(key);
    under_test.insert(&envelope, options).await
}

pub(super) fn fence_of(held: &[OwnedLane], key: &str) -> i64 {
    let lane = lane_of(key, LANES);
    held.iter().find(|held| held.lane == lane).expect("every lane is held").fence
}

pub(super) fn failed(row: RowKey, fence: i64) -> WithFence<Failed> {
    let held = Held { key: row, epoch: 0 };
    let wait = Duration::from_secs(10);
    let value = Failed { held, wait, spends_attempt: true, class: "record", error: "refused".to_owned() };
    WithFence { fence, value }
}

fn to_dead_letter(row: RowKey, fence: i64) -> WithFence<NewDeadLetter> {
    WithFence { fence, value: NewDeadLetter { held: Held { key: row, epoch: 0 }, reason: "attempts".to_owned() } }
}

/// Lanes are created once, and their number is fixed from then on.
pub async fn lanes_keep_their_number(under_test: &dyn StoreUnderTest) {
    let lanes = lanes(under_test).await;
    lanes.prepare_lanes(&[count(LANES)]).await.expect("the same number again");
    let view = lanes.read_lanes(&topic()).await.expect("read_lanes");
    let numbers: Vec<u16> = view.lanes.iter().map(|lane| lane.lane).collect();
    assert_eq!(numbers, [0, 1, 2, 3]);
    assert!(view.nodes.is_empty() && view.lanes.iter().all(|lane| lane.owner.is_none()), "{view:?}");
    for other in [LANES - 1, LANES + 1] {
        match lanes.prepare_lanes(&[count(other)]).await {
            Err(StoreError::Schema(SchemaProblem::LaneCount { found: 4, configured, .. })) => {
                assert_eq!(configured, other)
            }
            written => panic!("{other} lanes instead of {LANES}: {written:?}"),
        }
    }
}

/// If two nodes create different numbers of lanes at once, one finds the other's.
pub async fn lanes_are_made_by_one_node(under_test: &dyn StoreUnderTest) {
    let lanes = under_test.store().lanes();
    for round in 0..10 {
        let topic: Arc<str> = format!("{TOPIC}-{round}").into();
        let count = |lanes| [LaneCount { topic: Arc::clone(&topic), lanes }];
        let (few, many) = (count(LANES), count(LANES * 2));
        let (few, many) = tokio::join!(lanes.prepare_lanes(&few), lanes.prepare_lanes(&many));
        assert!(few.is_err() || many.is_err(), "both created their lanes");
        let made = lanes.read_lanes(&topic).await.expect("read_lanes").lanes.len();
        assert!([0, usize::from(LANES), usize::from(LANES * 2)].contains(&made), "{made} lanes");
        assert!(few.is_err() || made == usize::from(LANES), "{made} lanes, but the call for {LANES} succeeded");
        assert!(
            many.is_err() || made == usize::from(LANES * 2),
            "{made} lanes, but the call for {} succeeded",
            LANES * 2
        );
    }
}

/// A topic with rows that were enqueued for another number of lanes gets none.
pub async fn lanes_are_checked_against_existing_rows(under_test: &dyn StoreUnderTest) {
    let lanes = under_test.store().lanes();
    insert(under_test, DUE).await;
    let has_ordered_rows = async || lanes.has_ordered_rows(&TOPIC.into()).await.expect("has_ordered_rows");
    assert!(!has_ordered_rows().await, "the row is in no lane");
    for key in 0..20 {
        insert_keyed(under_test, &key.to_string()).await;
    }
    match lanes.prepare_lanes(&[count(LANES + 1)]).await {
        Err(StoreError::Schema(SchemaProblem::LaneOfRow { configured, .. })) => assert_eq!(configured, LANES + 1),
        written => panic!("rows of {LANES} lanes in {}: {written:?}", LANES + 1),
    }
    lanes.prepare_lanes(&[count(LANES)]).await.expect("the number that they were enqueued with");
    assert!(has_ordered_rows().await);
}

/// Even if only a few do not fit, after many that do.
pub async fn lanes_are_checked_against_the_last_rows_too(under_test: &dyn StoreUnderTest) {
    let lanes = under_test.store().lanes();
    let in_lane = |lane: u16, of: u16| move |key: &String| lane_of(key, of) == lane;
    let key = |is_meant: &dyn Fn(&String) -> bool| (0..).map(|key| key.to_string()).find(is_meant).expect("some key");
    let anyhow = key(&in_lane(0, LANES * 2));
    for _ in 0..1_000 {
        insert_keyed(under_test, &anyhow).await;
    }
    let other = key(&in_lane(LANES + 1, LANES * 2));
    let is_refused = async |wanted: u16| match lanes.prepare_lanes(&[count(wanted)]).await {
        Err(StoreError::Schema(SchemaProblem::LaneOfRow { configured, .. })) => configured == wanted,
        written => panic!("rows of another count in {wanted} lanes: {written:?}"),
    };
    let few = insert_keyed(under_test, &other).await;
    assert!(is_refused(LANES * 2).await, "it is in lane 1, but belongs to one beyond the old {LANES}");
    under_test.store().settle(&[few], Locking::Skip).await.expect("settle");
    let mut envelope = message(TOPIC);
    envelope.key = Some(other);
    under_test.insert(&envelope, InsertOptions::default().in_lane(LANES + 1)).await;
    assert!(is_refused(LANES).await, "nobody would read it");
}

/// Each node takes its share of the free lanes, and no more.
pub async fn lanes_are_shared_fairly(under_test: &dyn StoreUnderTest) {
    let lanes = lanes(under_test).await;
    let (first, held) = sole_owner(lanes).await;
    let second = NodeId::new();
    let view = lanes.balance_lanes(&joining(second)).await.expect("join");
    assert!(owned(&view, second).is_empty(), "nothing is free");
    assert_eq!(view.nodes.len(), 2);
    assert_eq!(view.share_of(first), 2);
    let give_up = LaneBalanceSpec { renew: held[..2].to_vec(), release: held[2..].to_vec(), ..joining(first) };
    let view = lanes.balance_lanes(&give_up).await.expect("release");
    assert_eq!(owned(&view, first), held[..2]);
    let view = lanes.balance_lanes(&joining(second)).await.expect("take");
    let taken = owned(&view, second);
    assert_eq!(taken.iter().map(|lane| lane.lane).collect::<Vec<_>>(), [2, 3]);
    assert!(taken.iter().zip(&held[2..]).all(|(new, old)| new.fence > old.fence), "every ownership has its own fence");
    assert!(
        view.lanes.iter().all(|lane| lane.quiet_for.is_zero()),
        "rows of a released lane may be sent at once: {view:?}"
    );
    assert_eq!(lanes.read_lanes(&topic()).await.expect("read_lanes").nodes, view.nodes);
}

/// Many nodes that balance at once own every lane exactly once.
pub async fn concurrent_balances_share_no_lane(under_test: &dyn StoreUnderTest) {
    let lanes = lanes(under_test).await;
    let nodes: Vec<NodeId> = (0..3).map(|_| NodeId::new()).collect();
    let keeps = nodes
        .iter()
        .map(|node| async move { lanes.balance_lanes(&joining(*node)).await.map(|view| owned(&view, *node)) });
    let taken: Vec<OwnedLane> = futures_util::future::try_join_all(keeps).await.expect("balance_lanes").concat();
    let mut numbers: Vec<u16> = taken.iter().map(|lane| lane.lane).collect();
    numbers.sort_unstable();
    let given = numbers.len();
    numbers.dedup();
    assert_eq!(numbers.len(), given, "a lane has one owner: {taken:?}");
}

/// A lane stays its owner's until its lease ends. The next owner sends nothing for a while.
pub async fn lane_is_taken_over_when_its_lease_ends(under_test: &dyn StoreUnderTest) {
    let lanes = lanes(under_test).await;
    let (first, held) = sole_owner(lanes).await;
    under_test.advance(LEASE / 2).await;
    let renew = LaneBalanceSpec { renew: held[..1].to_vec(), ..joining(first) };
    // The node does not lose a lane by not renewing it: it takes it again, under the next fence.
    let view = lanes.balance_lanes(&renew).await.expect("renew");
    assert_eq!(view.lanes[0].fence, held[0].fence);
    assert_eq!(owned(&view, first).len(), usize::from(LANES));
    under_test.advance(LEASE + Duration::from_secs(1)).await;
    let second = NodeId::new();
    let view = lanes.balance_lanes(&joining(second)).await.expect("take over");
    assert_eq!(view.nodes, [second], "a node that does not renew is gone");
    let is_quiet = |lane: &LaneState| lane.quiet_for > QUIET - Duration::from_secs(10) && lane.quiet_for <= QUIET;
    assert!(view.lanes.iter().all(|lane| lane.owner == Some(second) && is_quiet(lane)), "{view:?}");
    let view = lanes.balance_lanes(&LaneBalanceSpec { renew: held, ..joining(first) }).await.expect("renew too late");
    assert!(owned(&view, first).is_empty(), "another node owns them");
}

/// Every lane returned as a node's own was leased by that call, even one it no longer knew of or beyond its share: the node relies on it.
pub async fn owned_lanes_are_renewed_by_each_balance(under_test: &dyn StoreUnderTest) {
    let lanes = lanes(under_test).await;
    let (node, _) = sole_owner(lanes).await;
    lanes.balance_lanes(&joining(NodeId::new())).await.expect("another joins");
    let longer = LaneBalanceSpec { lease_duration: LEASE * 2, ..joining(node) };
    let view = lanes.balance_lanes(&longer).await.expect("balance_lanes");
    assert!(!owned(&view, node).is_empty(), "{view:?}");
    for lane in view.lanes.iter().filter(|lane| lane.owner == Some(node)) {
        assert!(lane.expires_in > LEASE, "{lane:?} is returned as the node's, but was not renewed");
    }
}

/// A node that leaves releases its lanes, and is no longer counted.
pub async fn leaving_node_is_no_longer_counted(under_test: &dyn StoreUnderTest) {
    let lanes = lanes(under_test).await;
    let (node, held) = sole_owner(lanes).await;
    let leave = LaneBalanceSpec { release: held, joins: false, ..joining(node) };
    let view = lanes.balance_lanes(&leave).await.expect("leave");
    assert!(view.nodes.is_empty() && view.lanes.iter().all(|lane| lane.owner.is_none()), "{view:?}");
    assert_eq!(view.share_of(node), 0);
}

/// Rows of a lane come by id, after the given id, and at most as many as each scan asks for.
pub async fn lane_entries_come_by_id(under_test: &dyn StoreUnderTest) {
    let lanes = lanes(under_test).await;
    let mut rows = Vec::new();
    for key in ["a", "b", "a", "c", "a"] {
        rows.push((lane_of(key, LANES), insert_keyed(under_test, key).await, key));
    }
    insert(under_test, DUE).await;
    under_test.insert(&message("payments"), InsertOptions::default().in_lane(rows[0].0)).await;
    let lane = rows[0].0;
    let expected: Vec<_> = rows.iter().filter(|row| row.0 == lane).collect();
    let scan = |after, rows_max| LaneScan { lane, after, rows_max };
    let entries = lanes.lane_entries(&topic(), &[scan(0, 100)]).await.expect("entries");
    let found: Vec<_> = entries.iter().map(|entry| (entry.row, entry.key.as_deref())).collect();
    assert_eq!(found, expected.iter().map(|row| (row.1, Some(row.2))).collect::<Vec<_>>());
    assert!(entries.iter().all(|entry| entry.bytes == 15), "{entries:?}");
    let is_young = |age| age < Duration::from_secs(60) || age == Duration::MAX;
    assert!(entries.iter().all(|entry| is_young(entry.age)), "{entries:?}");
    let behind = expected[0].1.id;
    let nothing = LaneScan { lane: LANES - 1 - lane, ..scan(i64::MAX - 1, 9) };
    let scans = [scan(behind, 1), nothing, scan(0, 1), scan(0, 100)];
    let entries = lanes.lane_entries(&topic(), &scans).await.expect("entries");
    let found: Vec<_> = entries.iter().map(|entry| (entry.scan, entry.row)).collect();
    let mut wanted = vec![(0, expected[1].1), (2, expected[0].1)];
    wanted.extend(expected.iter().map(|row| (3, row.1)));
    assert_eq!(found, wanted);
}

/// Rows of lanes are read by their identity, and only those that still exist.
pub async fn lane_rows_are_those_still_there(under_test: &dyn StoreUnderTest) {
    let lanes = lanes(under_test).await;
    let (envelope, options) = keyed("a");
    let row = under_test.insert(&envelope, options).await;
    let gone = insert_keyed(under_test, "a").await;
    let poisoned = insert_keyed(under_test, "b").await;
    under_test.poison(poisoned).await;
    let settled = under_test.store().settle(&[gone], Locking::Skip).await.expect("settle");
    assert_eq!(settled, [gone], "a lane's row is settled like any other");
    let wanted = [row, gone, poisoned, other_message(row)];
    let mut found = lanes.lane_rows(&topic(), &wanted).await.expect("rows");
    assert_eq!(sorted(keys(&found)), [row, poisoned]);
    assert!(found.iter().any(|row| matches!(row, Loaded::Poisoned(_))));
    found.retain(|loaded| loaded.key() == row);
    let read = decoded(found.remove(0));
    assert_eq!((read.epoch, read.failures, read.is_suspect, read.envelope.attempt), (0, 0, false, 1));
    assert_eq!((read.envelope.key, read.envelope.payload), (envelope.key, envelope.payload));
}

/// Only a lane's owner sends its rows: no claim takes them, and no poll reports them as due.
pub async fn lane_rows_are_no_claims(under_test: &dyn StoreUnderTest) {
    insert_keyed(under_test, "a").await;
    let unordered = insert(under_test, DUE).await;
    assert_eq!(claim_and_close(under_test, &spec(TOPIC)).await, [unordered]);
    under_test.store().settle(&[unordered], Locking::Skip).await.expect("settle");
    let due = under_test.store().poll(&poll_spec(&[TOPIC])).await.expect("read_lanes").due;
    assert!(due.is_empty(), "{due:?}");
}

/// A failure is counted under owner and fence, and does not move the row: its key waits behind it.
pub async fn lane_failure_leaves_the_row_in_its_place(under_test: &dyn StoreUnderTest) {
    let lanes = lanes(under_test).await;
    let (node, held) = sole_owner(lanes).await;
    let row = insert_keyed(under_test, "a").await;
    let fence = fence_of(&held, "a");
    let mut refused = failed(row, fence);
    refused.value.class = "record_refused";
    let noted = lanes.fail_in_lanes(&topic(), node, &[refused]).await.expect("fail");
    assert_eq!(noted, [row]);
    let read = lanes.lane_rows(&topic(), &[row]).await.expect("rows").remove(0);
    assert!(decoded(read).is_suspect, "its last failure was a refusal");
    let live = live_row(under_test, row).await;
    assert_eq!((live.epoch, live.attempts, live.failures, live.errors.len()), (1, 1, 1, 1));
    assert_eq!(live.due_at, SystemTime::UNIX_EPOCH);
    let entries = lanes.lane_entries(&topic(), &[LaneScan { lane: lane_of("a", LANES), after: 0, rows_max: 9 }]).await;
    assert_eq!(entries.expect("entries").len(), 1);
}

/// Concurrent writes of failures in one lane, and a concurrent lane balancer, wait for each other and skip nothing.
pub async fn concurrent_lane_failures_are_all_recorded(under_test: &dyn StoreUnderTest) {
    let lanes = lanes(under_test).await;
    let (node, held) = sole_owner(lanes).await;
    let fence = fence_of(&held, "a");
    for _ in 0..5 {
        let mut rows = Vec::new();
        for _ in 0..6 {
            rows.push(insert_keyed(under_test, "a").await);
        }
        let fails = rows.iter().map(|row| async move {
            let written = lanes.fail_in_lanes(&topic(), node, &[failed(*row, fence)]).await;
            written.map(|noted| assert_eq!(noted, [*row]))
        });
        let renew = LaneBalanceSpec { renew: held.clone(), ..joining(node) };
        let (failed, kept) = tokio::join!(futures_util::future::try_join_all(fails), lanes.balance_lanes(&renew));
        failed.expect("fail");
        assert_eq!(owned(&kept.expect("balance_lanes"), node), held);
    }
}

/// Only its lane's owner can record a row's failure or dead-letter it.
pub async fn lane_writes_require_owner_and_fence(under_test: &dyn StoreUnderTest) {
    let lanes = lanes(under_test).await;
    let (node, held) = sole_owner(lanes).await;
    let row = insert_keyed(under_test, "a").await;
    let fence = fence_of(&held, "a");
    let mut late = failed(row, fence);
    late.value.held.epoch = 1;
    let wrong = [(NodeId::new(), failed(row, fence)), (node, failed(row, fence + 1)), (node, late)];
    for (node, failed) in wrong {
        let written = lanes.fail_in_lanes(&topic(), node, &[failed]).await.expect("fail");
        assert!(written.is_empty(), "{written:?}");
    }
    for (node, dead) in [(NodeId::new(), to_dead_letter(row, fence)), (node, to_dead_letter(row, fence - 1))] {
        let written = lanes.dead_letter_from_lanes(&topic(), node, &[dead]).await.expect("dead_letter_from_lanes");
        assert!(written.is_empty(), "{written:?}");
    }
    under_test.advance(LEASE + Duration::from_secs(1)).await;
    let written = lanes.fail_in_lanes(&topic(), node, &[failed(row, fence)]).await.expect("fail");
    assert!(written.is_empty(), "the lease is over: {written:?}");
    assert_eq!(live_row(under_test, row).await.failures, 0);
}

/// A dead-lettered row of a lane becomes a dead letter, and the next one of its key is free.
pub async fn lane_row_becomes_a_dead_letter(under_test: &dyn StoreUnderTest) {
    let lanes = lanes(under_test).await;
    let (node, held) = sole_owner(lanes).await;
    let row = insert_keyed(under_test, "a").await;
    let next = insert_keyed(under_test, "a").await;
    let moved = lanes
        .dead_letter_from_lanes(&topic(), node, &[to_dead_letter(row, fence_of(&held, "a"))])
        .await
        .expect("dead_letter_from_lanes");
    assert_eq!(moved, [row]);
    assert_eq!((live_keys(under_test).await, dead_letter_keys(under_test).await), (vec![next], vec![row]));
}

/// Calls without lanes or rows do nothing.
pub async fn empty_lane_calls_do_nothing(under_test: &dyn StoreUnderTest) {
    let lanes = lanes(under_test).await;
    lanes.prepare_lanes(&[]).await.expect("prepare");
    assert!(lanes.lane_entries(&topic(), &[]).await.expect("entries").is_empty());
    assert!(lanes.lane_rows(&topic(), &[]).await.expect("rows").is_empty());
    assert!(lanes.fail_in_lanes(&topic(), NodeId::new(), &[]).await.expect("fail").is_empty());
    assert!(
        lanes.dead_letter_from_lanes(&topic(), NodeId::new(), &[]).await.expect("dead_letter_from_lanes").is_empty()
    );
    let nobody = lanes.read_lanes(&"nobody's".into()).await.expect("read_lanes");
    assert_eq!(nobody, LaneView::default());
}
