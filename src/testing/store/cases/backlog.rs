use std::time::Duration;

use crate::store::{Held, InsertOptions, TopicBacklog};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

/// More than any case writes.
const ALL: usize = 1_000;

/// The backlog by the names of its topics.
async fn backlog(under_test: &dyn StoreUnderTest, count_max: usize) -> Vec<TopicBacklog> {
    let mut topics = under_test.store().backlog(count_max).await.expect("backlog");
    topics.sort_unstable_by(|one, other| one.topic.cmp(&other.topic));
    topics
}

fn counts(topics: &[TopicBacklog]) -> Vec<(&str, usize, usize, usize)> {
    topics.iter().map(|of| (&*of.topic, of.live, of.due, of.dead)).collect()
}

/// Every topic that has rows is reported, with how many are due and since when. A topic without rows is not.
pub async fn backlog_counts_each_topic(under_test: &dyn StoreUnderTest) {
    assert_eq!(backlog(under_test, ALL).await, []);
    insert_due(under_test, 3).await;
    insert(under_test, leased(LEASE)).await;
    insert(under_test, InsertOptions::default().deliver_after(LEASE * 2)).await;
    under_test.insert(&message("payments"), leased(LEASE)).await;
    under_test.advance(Duration::from_secs(5)).await;
    let topics = backlog(under_test, ALL).await;
    assert_eq!(counts(&topics), [(TOPIC, 5, 3, 0), ("payments", 1, 0, 0)]);
    assert!(topics[0].overdue_by >= Duration::from_secs(5) && topics[0].overdue_by < LEASE, "{topics:?}");
    assert_eq!(topics[1].overdue_by, Duration::ZERO, "nothing of it is due");
}

/// A row that somebody holds is live. If it is leased, it is not due.
pub async fn backlog_counts_held_rows(under_test: &dyn StoreUnderTest) {
    insert_held(under_test, 2).await;
    assert_eq!(counts(&backlog(under_test, ALL).await), [(TOPIC, 2, 0, 0)]);
    let key = insert_due(under_test, 1).await[0];
    let claim = claim(under_test, &spec(TOPIC)).await;
    assert_eq!(keys(&claim.rows), [key]);
    assert_eq!(backlog(under_test, ALL).await[0].live, 3, "a claim hides no row");
    claim.handle.close(&[key], &[]).await.expect("close");
    assert_eq!(counts(&backlog(under_test, ALL).await), [(TOPIC, 2, 0, 0)]);
}

/// Dead letters are counted separately, even if their topic has no live rows, and wherever its name sorts.
pub async fn backlog_reports_topics_with_dead_letters_only(under_test: &dyn StoreUnderTest) {
    for topic in ["a-first", TOPIC, "payments", "z-last"] {
        let key = under_test.insert(&message(topic), leased(LEASE)).await;
        under_test.store().dead_letter(&[to_dead_letter(Held { key, epoch: 0 })]).await.expect("dead_letter");
    }
    insert_due(under_test, 1).await;
    let expected = [("a-first", 0, 0, 1), (TOPIC, 1, 1, 1), ("payments", 0, 0, 1), ("z-last", 0, 0, 1)];
    assert_eq!(counts(&backlog(under_test, ALL).await), expected);
}

/// Counting stops at the limit, for each topic separately. The age of the oldest row is reported all the same.
pub async fn backlog_stops_at_count_max(under_test: &dyn StoreUnderTest) {
    for topic in [TOPIC, "payments"] {
        for _ in 0..4 {
            under_test.insert(&message(topic), DUE).await;
            under_test.insert(&message(topic), leased(LEASE)).await;
            let key = under_test.insert(&message(topic), leased(LEASE)).await;
            under_test.store().dead_letter(&[to_dead_letter(Held { key, epoch: 0 })]).await.expect("dead_letter");
        }
    }
    under_test.advance(Duration::from_secs(5)).await;
    for (count_max, [live, due, dead]) in [(3, [3, 3, 3]), (6, [6, 4, 4]), (8, [8, 4, 4])] {
        let topics = backlog(under_test, count_max).await;
        assert_eq!(counts(&topics), [(TOPIC, live, due, dead), ("payments", live, due, dead)], "at most {count_max}");
        assert!(topics.iter().all(|of| of.overdue_by >= Duration::from_secs(5)), "{topics:?}");
    }
}

/// Uncommitted rows are not counted.
pub async fn backlog_sees_no_open_transaction(under_test: &dyn StoreUnderTest) {
    let (_, transaction) = under_test.insert_uncommitted(&message(TOPIC)).await;
    assert_eq!(backlog(under_test, ALL).await, []);
    transaction.commit().await;
    assert_eq!(counts(&backlog(under_test, ALL).await), [(TOPIC, 1, 1, 0)]);
}

/// A row in a lane is live, and never due: it belongs to the lane's owner.
pub async fn backlog_counts_rows_in_lanes(under_test: &dyn StoreUnderTest) {
    insert_due(under_test, 2).await;
    for lane in [0, 0, 3] {
        under_test.insert(&message(TOPIC), InsertOptions::default().in_lane(lane)).await;
    }
    under_test.insert(&message("payments"), InsertOptions::default().in_lane(1)).await;
    let topics = backlog(under_test, ALL).await;
    assert_eq!(counts(&topics), [(TOPIC, 5, 2, 0), ("payments", 1, 0, 0)]);
    assert!(topics.iter().all(|topic| topic.overdue_by < LEASE), "a due date of 1970 is not counted: {topics:?}");
    assert_eq!(counts(&backlog(under_test, 3).await), [(TOPIC, 3, 2, 0), ("payments", 1, 0, 0)]);
}
