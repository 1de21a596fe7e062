use std::time::Duration;

use crate::store::{Held, HistoryRow, HistoryStore, Keep, Locking, NewDeadLetter, RowKey};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

const DAY: Duration = Duration::from_secs(24 * 3_600);

async fn settle_for(under_test: &dyn StoreUnderTest, history: &dyn HistoryStore, days: u32) -> RowKey {
    let key = insert(under_test, DUE).await;
    let keep = Keep { days, awaits_processing: false };
    history.settle_into_history(&[HistoryRow { key, keep }], Locking::Skip).await.expect("settle");
    key
}

async fn prune_all(history: &dyn HistoryStore) {
    while history.prune(100).await.expect("prune").more {}
}

/// A message is kept as long as its topic was configured when it was sent, and less than a day longer.
pub async fn prune_removes_expired_messages(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    let short = settle_for(under_test, history, 2).await;
    let long = settle_for(under_test, history, 5).await;
    let is_there = async |key: RowKey| history.sent(key.message_id).await.expect("sent").is_some();
    for (passed, short_is_there) in [(Duration::ZERO, true), (DAY * 2, true), (DAY, false)] {
        under_test.advance(passed).await;
        prune_all(history).await;
        assert_eq!((is_there(short).await, is_there(long).await), (short_is_there, true), "after {passed:?}");
    }
    under_test.advance(DAY * 3).await;
    prune_all(history).await;
    assert!(!is_there(long).await);
}

/// A step is bounded, and says whether more is left.
pub async fn prune_is_bounded(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    for _ in 0..3 {
        settle_for(under_test, history, 1).await;
    }
    under_test.advance(DAY * 2).await;
    let first = history.prune(2).await.expect("prune");
    assert_eq!((first.rows, first.more), (2, true));
    let second = history.prune(2).await.expect("prune");
    assert_eq!((second.rows, second.more), (1, false));
    assert_eq!(history.prune(2).await.expect("prune").rows, 0);
}

/// Concurrent calls remove every row once, and none fails.
pub async fn concurrent_prunes_share_the_work(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    for _ in 0..20 {
        settle_for(under_test, history, 1).await;
    }
    under_test.advance(DAY * 2).await;
    let (one, other) = tokio::join!(history.prune(100), history.prune(100));
    let rows = one.expect("prune").rows + other.expect("prune").rows;
    prune_all(history).await;
    assert!(rows <= 20, "{rows} of 20 were removed");
    assert_eq!(history.count_sent(&TOPIC.into(), 100).await.expect("count").sent, 0);
}

/// Partitions may be created at any time, repeatedly, and for several numbers of days.
pub async fn ensure_partitions_can_be_repeated(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    let before = settle_for(under_test, history, 1).await;
    for _ in 0..2 {
        history.ensure_partitions(&[2, 30]).await.expect("ensure_partitions");
    }
    let (one, other) = tokio::join!(history.ensure_partitions(&[9]), history.ensure_partitions(&[9]));
    one.and(other).expect("ensure_partitions");
    for key in [before, settle_for(under_test, history, 2).await, settle_for(under_test, history, 30).await] {
        assert!(history.sent(key.message_id).await.expect("sent").is_some());
    }
    assert_eq!(history.count_sent(&TOPIC.into(), 10).await.expect("count").sent, 3);
}

/// Dead letters of the topic are removed when they are too old, and no others.
pub async fn old_dead_letters_are_pruned(under_test: &dyn StoreUnderTest) {
    let history = under_test.store().history();
    let dead_letter = async |topic: &str| {
        let key = under_test.insert(&message(topic), DUE).await;
        let dead = NewDeadLetter { held: Held { key, epoch: 0 }, reason: "refused".to_owned() };
        assert_eq!(under_test.store().dead_letter(&[dead]).await.expect("dead_letter"), [key]);
        key
    };
    for _ in 0..3 {
        dead_letter(TOPIC).await;
    }
    let other = dead_letter("invoices").await;
    under_test.advance(DAY * 2).await;
    let young = dead_letter(TOPIC).await;
    let topic = TOPIC.into();
    assert_eq!(history.prune_dead_letters(&topic, DAY * 3, 100).await.expect("prune"), 0);
    assert_eq!(history.prune_dead_letters(&topic, DAY, 2).await.expect("prune"), 2);
    assert_eq!(history.prune_dead_letters(&topic, DAY, 2).await.expect("prune"), 1);
    assert_eq!(history.prune_dead_letters(&topic, DAY, 2).await.expect("prune"), 0);
    assert_eq!(dead_letter_keys(under_test).await, sorted([other, young]));
}
