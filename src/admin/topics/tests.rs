use std::time::{Duration, SystemTime};

use super::*;
use crate::admin::{DeadLetterFilter, UnprocessedFilter};
use crate::lane::NodeId;
use crate::limits::POSITIONS_READ_MAX;
use crate::message::{Envelope, MessageId};
use crate::outbox::Outbox;
use crate::store::{
    Held, HistoryRow, HistoryStore as _, InsertOptions, Keep, LaneBalanceSpec, LaneStore as _, Locking, MemoryStore,
    NewDeadLetter, RowKey, Store as _,
};
use crate::topic::Topic;

fn insert(store: &MemoryStore, topic: &str, options: InsertOptions) -> RowKey {
    store.insert(Envelope::new(MessageId::new(), topic.into(), SystemTime::UNIX_EPOCH), options)
}

async fn dead_letter(store: &MemoryStore, topic: &str) {
    let key = insert(store, topic, InsertOptions::default());
    store.dead_letter(&[NewDeadLetter { held: Held { key, epoch: 0 }, reason: "refused".into() }]).await.unwrap();
}

/// An outbox that knows no topics.
fn tool(store: &MemoryStore) -> Admin {
    Outbox::builder().allow_no_topics().build().unwrap().admin(store.clone())
}

fn names(topics: &[TopicStatus]) -> Vec<&str> {
    topics.iter().map(|topic| &*topic.topic).collect()
}

#[tokio::test(start_paused = true)]
async fn topics_are_those_of_the_tables_and_of_the_configuration() {
    let store = MemoryStore::new();
    insert(&store, "orders", InsertOptions::default());
    insert(&store, "orders", InsertOptions::default().deliver_after(Duration::from_secs(60)));
    dead_letter(&store, "invoices").await;
    store.prepare_lanes(&[LaneCount { topic: "payments".into(), lanes: 4 }]).await.unwrap();
    tool(&store).pause("payments").await.unwrap();
    tokio::time::advance(Duration::from_secs(5)).await;
    let configured = [Topic::new("orders"), Topic::new("ledger").ordered_by_key().lanes(8)];
    let [orders, ledger] = configured;
    let admin = Outbox::builder().topic(orders).topic(ledger).build().unwrap().admin(store.clone());

    let topics = admin.topics().await.unwrap();
    assert_eq!(names(&topics), ["invoices", "ledger", "orders", "payments"]);
    let [invoices, ledger, orders, payments] = topics.as_slice() else { unreachable!() };
    let counts = |of: &TopicStatus| (of.live.count, of.due.count, of.dead.count);
    assert_eq!((counts(invoices), counts(ledger), counts(orders)), ((0, 0, 1), (0, 0, 0), (2, 1, 0)));
    assert!(orders.overdue_by >= Duration::from_secs(5) && invoices.overdue_by.is_zero());
    assert_eq!((ledger.lanes, payments.lanes, orders.lanes), (Some(8), Some(4), None));
    assert_eq!(topics.iter().map(|topic| topic.is_configured).collect::<Vec<_>>(), [false, true, true, false]);
    assert!(payments.paused_since.is_some_and(|since| since < store.now()) && orders.paused_since.is_none());
    assert!(topics.iter().all(|topic| !topic.live.more));
}

#[tokio::test]
async fn a_tool_pauses_topics_of_the_tables_only() {
    let store = MemoryStore::new();
    dead_letter(&store, "orders").await;
    let error = tool(&store).pause("order").await.unwrap_err();
    assert!(matches!(&error, AdminError::NoSuchTopic { known, .. } if known == &["orders"]), "{error}");
    tool(&store).pause("orders").await.unwrap();
    assert_eq!(tool(&store).paused().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_tool_gives_the_age_of_unprocessed_messages() {
    let store = MemoryStore::new();
    let key = insert(&store, "orders", InsertOptions::default());
    let keep = Keep { days: 30, awaits_processing: true };
    store.settle_into_history(&[HistoryRow { key, keep }], Locking::Skip).await.unwrap();
    let (tool, orders) = (tool(&store), UnprocessedFilter::of("orders"));
    let error = tool.count_unprocessed(&orders, 10).await.unwrap_err();
    assert!(matches!(error, AdminError::ReportsNotExpected { .. }), "{error}");
    let any = orders.older_than(Duration::ZERO);
    assert_eq!(tool.count_unprocessed(&any, 10).await.unwrap(), BoundedCount { count: 1, more: false });
    assert_eq!(tool.count_unprocessed(&any, 1).await.unwrap(), BoundedCount { count: 1, more: true });
    let unconfirmed = Outbox::builder().topic(Topic::new("orders")).build().unwrap().admin(store.clone());
    let error = unconfirmed.count_unprocessed(&any, 10).await.unwrap_err();
    assert!(matches!(error, AdminError::ReportsNotExpected { .. }), "{error}");
}

#[tokio::test]
async fn dead_letters_are_counted_up_to_a_bound_and_over_several_pages() {
    let store = MemoryStore::new();
    for _ in 0..=POSITIONS_READ_MAX {
        dead_letter(&store, "orders").await;
    }
    dead_letter(&store, "invoices").await;
    let admin = tool(&store);
    let orders = DeadLetterFilter::new().topic("orders");
    let count = async |filter: &DeadLetterFilter, max| admin.count_dead_letters_of(filter, max).await.unwrap();
    let all = POSITIONS_READ_MAX + 1;
    assert_eq!(count(&orders, usize::MAX).await, BoundedCount { count: all, more: false });
    assert_eq!(count(&orders, all).await, BoundedCount { count: all, more: true }, "it has read no further");
    assert_eq!(count(&orders, 2).await, BoundedCount { count: 2, more: true });
    assert_eq!(count(&DeadLetterFilter::new(), usize::MAX).await.count, all + 1);
    assert_eq!(count(&orders.kind("none"), usize::MAX).await.count, 0);
}

#[tokio::test(start_paused = true)]
async fn lanes_have_their_owners() {
    let (store, node) = (MemoryStore::new(), NodeId::new());
    store.prepare_lanes(&[LaneCount { topic: "payments".into(), lanes: 2 }]).await.unwrap();
    let lanes = tool(&store).lanes("payments").await.unwrap();
    assert_eq!(
        lanes.iter().map(|lane| (lane.lane, lane.owner, lane.nodes)).collect::<Vec<_>>(),
        [(0, None, 0), (1, None, 0)]
    );
    let spec = LaneBalanceSpec {
        topic: "payments".into(),
        node,
        renew: Vec::new(),
        release: Vec::new(),
        joins: true,
        lease_duration: Duration::from_secs(30),
        quiet_duration: Duration::from_secs(20),
    };
    store.balance_lanes(&spec).await.unwrap();
    let owned = async || {
        let lanes = tool(&store).lanes("payments").await.unwrap();
        lanes.iter().filter(|lane| lane.owner == Some(node)).map(|lane| lane.nodes).collect::<Vec<_>>()
    };
    assert_eq!(owned().await, [1, 1]);
    tokio::time::advance(Duration::from_secs(31)).await;
    assert_eq!(owned().await, [0; 0], "its lease has expired");
    assert_eq!(tool(&store).lanes("orders").await.unwrap(), []);
}

#[tokio::test]
async fn tables_in_memory_have_no_problem() {
    let admin = tool(&MemoryStore::new());
    assert_eq!((admin.check_tables().await.unwrap(), admin.check_settings().await.unwrap()), (vec![], vec![]));
}
