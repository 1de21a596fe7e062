use std::time::Duration;

use crate::store::Held;
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

/// Extend moves `due_at` to a lease from now, and nothing else: the holder keeps its epoch.
pub async fn extend_renews_the_lease(under_test: &dyn StoreUnderTest) {
    let born = Held { key: insert(under_test, leased(Duration::from_secs(3))).await, epoch: 0 };
    let held = insert_held(under_test, 1).await[0];
    for holder in [born, held] {
        let before = live_row(under_test, holder.key).await;
        let (window, extended) = WriteWindow::of(under_test, under_test.store().extend(&[holder], LEASE * 2)).await;
        assert_eq!(extended.expect("extend"), [holder.key]);
        let row = live_row(under_test, holder.key).await;
        window.assert_due_after(&row, LEASE * 2);
        assert_eq!(row, crate::store::LiveRow { due_at: row.due_at, ..before });
    }
}

/// A row with another epoch has another holder: extend changes nothing.
pub async fn extend_requires_its_epoch(under_test: &dyn StoreUnderTest) {
    let held = insert_held(under_test, 1).await[0];
    let before = under_test.live_rows().await;
    let stale = [stale(held), Held { key: other_message(held.key), ..held }];
    assert_eq!(under_test.store().extend(&stale, LEASE * 2).await.expect("extend"), []);
    assert_eq!(under_test.live_rows().await, before);
}

/// Extend never waits: the next tick tries again.
pub async fn extend_skips_locked_rows(under_test: &dyn StoreUnderTest) {
    let held = insert_held(under_test, 2).await;
    let Some(lock) = under_test.lock(held[0].key).await else { return };
    assert_eq!(under_test.store().extend(&held, LEASE * 2).await.expect("extend"), [held[1].key]);
    lock.roll_back().await;
}
