//! What the tables say of themselves, for tools that do not know the application.

use crate::store::LaneCount;
use crate::testing::store::StoreUnderTest;

/// Freshly created tables are complete and of this version.
pub async fn tables_have_no_problems(under_test: &dyn StoreUnderTest) {
    let Some(admin) = under_test.store().admin() else { return };
    assert_eq!(admin.schema_problems().await.expect("schema_problems"), []);
}

/// Each topic is counted by itself, with its lanes and in the order of names.
pub async fn lanes_are_counted_by_topic(under_test: &dyn StoreUnderTest) {
    let lanes = under_test.store().lanes();
    assert_eq!(lanes.lane_counts().await.expect("lane_counts"), []);
    let count = |topic: &str, lanes| LaneCount { topic: topic.into(), lanes };
    // Bytes sort "Z" before "a".
    let topics = [count("Zebra", 1), count("orders", 4), count("payments", 2)];
    for topic in topics.iter().rev() {
        lanes.prepare_lanes(std::slice::from_ref(topic)).await.expect("prepare the lanes");
    }
    assert_eq!(lanes.lane_counts().await.expect("lane_counts"), topics);
}
