use std::time::{Duration, SystemTime};

use super::*;
use crate::admin::BlockedKey;
use crate::lane::NodeId;
use crate::limits::{BLOCKED_KEYS_MAX, LIVE_RANGES_READ_MAX, LIVE_ROWS_READ_MAX};
use crate::message::Envelope;
use crate::outbox::Outbox;
use crate::store::{
    Failed, Held, InsertOptions, LaneBalanceSpec, LaneCount, LaneStore as _, MemoryStore, RowKey, WithFence,
};

const LANES: u16 = 4;

fn admin(store: &MemoryStore) -> Admin {
    let outbox =
        Outbox::builder().topic(Topic::new("orders")).topic(Topic::new("payments").ordered_by_key().lanes(LANES));
    outbox.build().unwrap().admin(store.clone())
}

fn insert(store: &MemoryStore, topic: &str, key: &str, options: InsertOptions) -> RowKey {
    let mut envelope = Envelope::new(MessageId::new(), topic.into(), SystemTime::UNIX_EPOCH);
    envelope.key = Some(key.to_owned());
    store.insert(envelope, options)
}

fn insert_payment(store: &MemoryStore, key: &str) -> RowKey {
    insert(store, "payments", key, InsertOptions::default().in_lane(lane_of(key, LANES)))
}

/// A store with a node that owns the lanes of the payments.
async fn with_owner() -> (MemoryStore, NodeId) {
    let (store, node) = (MemoryStore::new(), NodeId::new());
    store.prepare_lanes(&[LaneCount { topic: "payments".into(), lanes: LANES }]).await.unwrap();
    let spec = LaneBalanceSpec {
        topic: "payments".into(),
        node,
        renew: Vec::new(),
        release: Vec::new(),
        joins: true,
        lease_duration: Duration::from_secs(30),
        quiet_duration: Duration::ZERO,
    };
    store.balance_lanes(&spec).await.unwrap();
    (store, node)
}

async fn fail(store: &MemoryStore, node: NodeId, key: RowKey) {
    let view = store.read_lanes(&"payments".into()).await.unwrap();
    let lane = admin(store).live_message(key.message_id).await.unwrap().lane;
    let fence = view.lanes.iter().find(|owned| Some(owned.lane) == lane).unwrap().fence;
    let (held, wait) = (Held { key, epoch: 0 }, Duration::from_secs(10));
    let value = Failed { held, wait, spends_attempt: true, class: "record", error: "refused".to_owned() };
    assert_eq!(store.fail_in_lanes(&"payments".into(), node, &[WithFence { fence, value }]).await.unwrap(), [key]);
}

/// The row ids of all pages, and how many pages there were.
async fn all(admin: &Admin, filter: &LiveFilter, messages_max: usize) -> (Vec<i64>, usize) {
    let (mut ids, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = admin.live_messages(filter, after.as_ref(), messages_max).await.unwrap();
        assert!(page.items.len() <= messages_max);
        ids.extend(page.items.iter().map(|message| message.id));
        (after, pages) = (page.next, pages + 1);
        if after.is_none() {
            return (ids, pages);
        }
    }
}

#[tokio::test]
async fn pages_go_on_from_range_to_range() {
    let (store, node) = with_owner().await;
    let mut expected: Vec<RowKey> = (0..3).map(|_| insert(&store, "payments", "a", InsertOptions::default())).collect();
    for key in ["a", "b", "c", "d", "a", "b"] {
        expected.push(insert_payment(&store, key));
    }
    insert(&store, "orders", "a", InsertOptions::default());
    let admin = admin(&store);
    let lane_and_id = |row: &RowKey| {
        let lane = expected.iter().position(|known| known == row).filter(|at| *at >= 3);
        (lane.map(|at| lane_of(["a", "b", "c", "d", "a", "b"][at - 3], LANES)), row.id)
    };
    let mut sorted = expected.clone();
    sorted.sort_by_key(lane_and_id);
    let sorted: Vec<i64> = sorted.iter().map(|row| row.id).collect();
    for messages_max in [1, 2, 4, 100] {
        assert_eq!(all(&admin, &LiveFilter::of("payments"), messages_max).await.0, sorted);
    }
    assert_eq!(all(&admin, &LiveFilter::of("payments").state(LiveState::InLane), 2).await.0, sorted[3..]);
    let of_key = LiveFilter::of("payments").state(LiveState::InLane).key("b");
    assert_eq!(all(&admin, &of_key, 100).await.0, [expected[4].id, expected[8].id]);
    let first = admin.live_message(expected[3].message_id).await.unwrap();
    assert_eq!(first.owner, Some(node));
    assert!(first.leased_until.is_some_and(|until| until > store.now()));
    store.advance(Duration::from_secs(31));
    let first = admin.live_message(expected[3].message_id).await.unwrap();
    assert_eq!((first.owner, first.leased_until), (None, None), "its lease is over");
}

#[tokio::test]
async fn a_filter_without_an_index_reads_a_bounded_number_of_rows_per_page() {
    let store = MemoryStore::new();
    for _ in 0..LIVE_ROWS_READ_MAX {
        insert(&store, "orders", "a", InsertOptions::default());
    }
    let last = insert(&store, "orders", "b", InsertOptions::default());
    let (admin, of_b) = (admin(&store), LiveFilter::of("orders").key("b"));
    let first = admin.live_messages(&of_b, None, 10).await.unwrap();
    assert_eq!(first.items, []);
    let second = admin.live_messages(&of_b, first.next.as_ref(), 10).await.unwrap();
    assert_eq!((second.items[0].id, second.items.len(), second.next), (last.id, 1, None));
    let counted = admin.count_live("orders").await.unwrap();
    assert_eq!((counted.due.to_string(), counted.due.more), (format!("at least {LIVE_COUNT_MAX}"), true));
    assert_eq!(admin.live_messages(&LiveFilter::of("orders"), None, 10).await.unwrap().items.len(), 10);
}

#[tokio::test]
async fn a_page_reads_a_bounded_number_of_lanes() {
    let store = MemoryStore::new();
    let lanes = u16::try_from(LIVE_RANGES_READ_MAX).unwrap() * 2;
    let rows: Vec<i64> =
        (0..lanes).map(|lane| insert(&store, "orders", "a", InsertOptions::default().in_lane(lane)).id).collect();
    let (found, pages) = all(&admin(&store), &LiveFilter::of("orders").state(LiveState::InLane), 1_000).await;
    assert_eq!((found, pages), (rows, 2));
}

async fn blocked(admin: &Admin, keys_max: usize) -> Vec<BlockedKey> {
    let (mut keys, mut after) = (Vec::new(), None);
    loop {
        let Page { items: found, next } = admin.blocked_keys("payments", after.as_ref(), keys_max).await.unwrap();
        assert!(found.len() <= keys_max);
        keys.extend(found);
        after = next;
        if after.is_none() {
            return keys;
        }
    }
}

#[tokio::test]
async fn blocked_keys_and_what_waits_behind_them_are_found() {
    let (store, node) = with_owner().await;
    let admin = admin(&store);
    assert_eq!(blocked(&admin, 1).await, []);
    let (mut heads, mut waiting) = (Vec::new(), Vec::new());
    for key in ["a", "b", "c"] {
        heads.push(insert_payment(&store, key));
    }
    for key in ["a", "free", "b", "a", "free", "a"] {
        let row = insert_payment(&store, key);
        if key != "free" {
            waiting.push((key, row.id));
        }
    }
    for head in &heads {
        fail(&store, node, *head).await;
    }
    // As on a fenced lane, where several messages of a key may be in flight.
    let second_of_a = admin.live_messages(&LiveFilter::of("payments").key("a"), None, 100).await.unwrap();
    let second_of_a = second_of_a.items.iter().find(|message| message.id == waiting[0].1).unwrap();
    fail(&store, node, RowKey { id: second_of_a.id, message_id: second_of_a.message_id }).await;

    let expected = [("a", 3), ("b", 1), ("c", 0)];
    for keys_max in [1, 2, 100] {
        let mut found: Vec<_> = blocked(&admin, keys_max).await;
        found.sort_by_key(|blocked| blocked.head.key.clone());
        let found: Vec<_> = found.iter().map(|key| (key.head.key.as_deref().unwrap(), key.behind.count)).collect();
        assert_eq!(found, expected);
    }
    let head = &blocked(&admin, 100).await[0].head;
    assert_eq!((head.state, head.owner, head.failures), (LiveState::Retrying, Some(node), 1));
    waiting.sort_unstable();
    for messages_max in [1, 2, 3, 100] {
        let (mut found, _) = all(&admin, &LiveFilter::of("payments").state(LiveState::Blocked), messages_max).await;
        found.sort_unstable();
        let mut expected: Vec<i64> = waiting.iter().map(|(_, id)| *id).collect();
        expected.sort_unstable();
        assert_eq!(found, expected, "each once, in pages of {messages_max}");
    }
    let of_b = LiveFilter::of("payments").state(LiveState::Blocked).key("b");
    let page = admin.live_messages(&of_b, None, 10).await.unwrap();
    assert_eq!(
        page.items.iter().map(|message| (message.state, message.id)).collect::<Vec<_>>(),
        [(LiveState::Blocked, waiting.iter().find(|(key, _)| *key == "b").unwrap().1)]
    );
    let retrying = all(&admin, &LiveFilter::of("payments").state(LiveState::Retrying), 1).await.0;
    assert_eq!(retrying.len(), 4, "three heads, and one behind another");
    let counted = admin.count_live("payments").await.unwrap();
    assert_eq!((counted.retrying.count, counted.in_lanes.count), (4, 5));
}

#[tokio::test]
async fn a_page_of_blocked_keys_is_bounded() {
    let (store, node) = with_owner().await;
    for key in 0..BLOCKED_KEYS_MAX + 1 {
        let row = insert_payment(&store, &key.to_string());
        fail(&store, node, row).await;
    }
    let admin = admin(&store);
    let first = admin.blocked_keys("payments", None, usize::MAX).await.unwrap();
    let second = admin.blocked_keys("payments", first.next.as_ref(), usize::MAX).await.unwrap();
    assert_eq!((first.items.len(), second.items.len(), second.next), (BLOCKED_KEYS_MAX, 1, None));
}

#[tokio::test]
async fn a_topic_that_nobody_knows_is_an_error_and_a_filter_that_matches_nothing_is_none() {
    let store = MemoryStore::new();
    insert(&store, "returns", "a", InsertOptions::default());
    let admin = admin(&store);
    for topic in ["order", "or\0ders", ""] {
        for error in [
            admin.live_messages(&LiveFilter::of(topic), None, 10).await.map(drop),
            admin.live_messages(&LiveFilter::of(topic).state(LiveState::Blocked), None, 10).await.map(drop),
            admin.count_live(topic).await.map(drop),
            admin.blocked_keys(topic, None, 10).await.map(drop),
        ] {
            let error = error.unwrap_err();
            assert!(!error.is_retriable());
            let AdminError::NoSuchTopic { known, .. } = &error else { panic!("{error}") };
            assert_eq!(known, &["orders", "payments", "returns"]);
        }
    }
    let nothing = Page::default();
    for filter in [
        LiveFilter::of("orders"),
        LiveFilter::of("returns").state(LiveState::Delayed),
        LiveFilter::of("returns").key("no\0"),
        LiveFilter::of("returns").header("a", "\0"),
        LiveFilter::of("returns").state(LiveState::Blocked),
    ] {
        assert_eq!(admin.live_messages(&filter, None, 10).await.unwrap(), nothing);
    }
    let empty = admin.live_messages(&LiveFilter::of("orders"), None, 0).await;
    assert!(matches!(empty, Err(AdminError::EmptyPage)));
    assert!(matches!(admin.blocked_keys("payments", None, 0).await, Err(AdminError::EmptyPage)));
    assert!(matches!(admin.live_message(MessageId::new()).await, Err(AdminError::NotLive { .. })));
}

#[tokio::test]
async fn only_what_nobody_holds_is_cancelled() {
    let store = MemoryStore::new();
    let admin = admin(&store);
    let due = insert(&store, "orders", "a", InsertOptions::default()).message_id;
    let leased = insert(&store, "orders", "a", InsertOptions::default().leased_for(Duration::from_secs(3))).message_id;
    let in_lane = insert_payment(&store, "a").message_id;
    admin.cancel_waiting(due).await.unwrap();
    assert!(matches!(admin.cancel_waiting(due).await, Err(AdminError::NotWaiting { .. })));
    assert!(matches!(admin.cancel_waiting(leased).await, Err(AdminError::AlreadyClaimed { .. })));
    assert!(matches!(admin.cancel_waiting(in_lane).await, Err(AdminError::NotWaiting { .. })));
    assert_eq!(store.live_rows().len(), 2);
}
