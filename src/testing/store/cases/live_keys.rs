use super::lanes::{LANES, failed, fence_of, insert_keyed, lanes, sole_owner, topic};
use crate::lane::lane_of;
use crate::store::{InsertOptions, KeyInLane, KeyNeighbours, LiveConditions, LiveRange, LiveScan, LiveState, RowKey};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::{DUE, insert, message};

/// Topics and lanes are those that have live rows, in their order.
pub async fn live_topics_and_lanes_are_found(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    assert_eq!(admin.live_topics(10).await.expect("topics"), []);
    for name in ["payments", "invoices", "payments"] {
        under_test.insert(&message(name), DUE).await;
    }
    for lane in [7, 3, 3] {
        insert(under_test, InsertOptions::default().in_lane(lane)).await;
    }
    let topics = admin.live_topics(10).await.expect("topics");
    assert_eq!(topics.iter().map(|topic| &**topic).collect::<Vec<_>>(), ["invoices", "orders", "payments"]);
    assert_eq!(admin.live_topics(2).await.expect("topics").len(), 2);
    for (from, expected) in [(0, Some(3)), (3, Some(3)), (4, Some(7)), (8, None)] {
        assert_eq!(admin.next_lane(&topic(), from).await.expect("a lane"), expected, "from {from}");
    }
    assert_eq!(admin.next_lane(&"payments".into(), 0).await.expect("a lane"), None, "it is not ordered");
}

/// The rows of a lane come by row id, in pages that join; all of them have the same `due_at`.
pub async fn live_lane_is_read_by_row_id(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    let mut expected = Vec::new();
    for _ in 0..5 {
        expected.push(insert(under_test, InsertOptions::default().in_lane(3)).await);
        insert(under_test, InsertOptions::default().in_lane(4)).await;
    }
    insert(under_test, DUE).await;
    let mut scan = LiveScan { topic: topic(), range: LiveRange::Lane(3), after: None, until: None };
    let mut seen = Vec::new();
    for rows in [2, 2, 1] {
        let end = admin.live_scan_end(&scan, 2).await.expect("the end").expect("there are rows");
        assert_eq!((end.rows, end.last.lane), (rows, 3));
        let page = admin.live_messages(&scan, &LiveConditions::default(), 2).await.expect("live messages");
        assert_eq!(page.last().map(|last| last.position), Some(end.last));
        assert!(page.iter().all(|message| message.lane == Some(3) && message.due_at.is_none()));
        seen.extend(page.iter().map(|message| RowKey { id: message.id, message_id: message.message_id }));
        scan.after = Some(end.last);
    }
    assert_eq!(seen, expected);
}

/// A failed message of a lane is told from those behind it, whose number is counted within the rows that are read.
pub async fn failed_key_has_its_neighbours(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    let lanes = lanes(under_test).await;
    let (node, held) = sole_owner(lanes).await;
    let lane = lane_of("a", LANES);
    let other = (0..).map(|n| n.to_string()).find(|key| lane_of(key, LANES) == lane).expect("a key of the same lane");
    let mut rows = Vec::new();
    for key in ["a", other.as_str(), "a", "a"] {
        rows.push(insert_keyed(under_test, key).await);
    }
    let fence = fence_of(&held, "a");
    for row in [rows[0], rows[2]] {
        assert_eq!(lanes.fail_in_lanes(&topic(), node, &[failed(row, fence)]).await.expect("fail"), [row]);
    }
    let conditions = LiveConditions { state: Some(LiveState::Retrying), ..LiveConditions::default() };
    let scan = LiveScan { topic: topic(), range: LiveRange::Lane(lane), after: None, until: None };
    let found = admin.live_messages(&scan, &conditions, 10).await.expect("live messages");
    assert_eq!(found.iter().map(|message| message.id).collect::<Vec<_>>(), [rows[0].id, rows[2].id]);
    assert!(found.iter().all(|message| message.state == LiveState::Retrying));

    let around = async |row: RowKey, rows_max| {
        let of = KeyInLane { topic: topic(), lane, key: "a".into(), id: row.id };
        admin.key_neighbours(&of, rows_max).await.expect("neighbours")
    };
    let neighbours = |failed_before, behind, more| KeyNeighbours { failed_before, behind, more };
    assert_eq!(around(rows[0], 10).await, neighbours(false, 2, false));
    assert_eq!(around(rows[0], 2).await, neighbours(false, 1, true));
    assert_eq!(around(rows[2], 10).await, neighbours(true, 1, false));
    assert_eq!(around(rows[2], 1).await, neighbours(false, 1, true), "only the row before it is read");
}
