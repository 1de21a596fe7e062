use std::time::Duration;

use crate::store::{ClaimMode, ClaimSpec, Closed};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

/// Close removes delivered rows, and returns them.
pub async fn close_removes_delivered_rows(under_test: &dyn StoreUnderTest) {
    let inserted = insert_due(under_test, 3).await;
    let claim = claim(under_test, &spec(TOPIC)).await;
    let closed = claim.handle.close(&inserted[..2], &[]).await.expect("close");
    assert_eq!(sorted(closed.settled), inserted[..2]);
    assert_eq!(live_keys(under_test).await, inserted[2..]);
    assert!(under_test.dead_letter_rows().await.is_empty());
}

/// Rows in flight are leased from the close on, under the next epoch.
pub async fn close_leases_held_rows(under_test: &dyn StoreUnderTest) {
    let key = insert(under_test, DUE).await;
    let claim = claim(under_test, &spec(TOPIC)).await;
    let read = claim.rows.into_iter().map(decoded).next().expect("the row");
    let (window, closed) = WriteWindow::of(under_test, claim.handle.close(&[], &[key])).await;
    let closed = closed.expect("close");
    assert_eq!(closed.settled, []);
    assert_eq!(closed.held.iter().map(|held| (held.key, held.epoch)).collect::<Vec<_>>(), [(key, read.epoch + 1)]);
    let row = live_row(under_test, key).await;
    assert_eq!((row.epoch, row.attempts, row.failures), (read.epoch + 1, 0, 0));
    window.assert_due_after(&row, LEASE);
    assert!(claim_and_close(under_test, &spec(TOPIC)).await.is_empty(), "a held row was claimed");
}

/// Unused rows are due at once: unwritten if they were locked, under the next epoch if they were leased.
pub async fn close_releases_unused_rows(under_test: &dyn StoreUnderTest) {
    let key = insert(under_test, DUE).await;
    let before = live_row(under_test, key).await;
    let claim = claim(under_test, &spec(TOPIC)).await;
    let (mode, read) = (claim.mode, claim.rows.into_iter().map(decoded).next().expect("the row"));
    let (window, closed) = WriteWindow::of(under_test, claim.handle.close(&[], &[])).await;
    assert_eq!(closed.expect("close"), Closed::default());
    let row = live_row(under_test, key).await;
    match mode {
        ClaimMode::Locked => assert_eq!(row, before),
        ClaimMode::Leased => {
            assert_eq!((row.epoch, row.attempts, row.failures), (read.epoch + 1, 0, 0));
            window.assert_due_after(&row, Duration::ZERO);
        }
    }
    assert_eq!(claim_and_close(under_test, &spec(TOPIC)).await, [key]);
}

/// If a row's lease expired and somebody else took it, the close does not release it.
pub async fn close_releases_no_row_of_another_holder(under_test: &dyn StoreUnderTest) {
    let key = insert(under_test, DUE).await;
    let late = claim(under_test, &ClaimSpec { lease_duration: Duration::ZERO, ..spec(TOPIC) }).await;
    let next = claim(under_test, &spec(TOPIC)).await;
    if late.mode == ClaimMode::Locked {
        assert!(next.rows.is_empty(), "a lock lasts as long as its claim");
        return;
    }
    assert_eq!(keys(&next.rows), [key]);
    let before = live_row(under_test, key).await;
    late.handle.close(&[], &[]).await.expect("close");
    assert_eq!(live_row(under_test, key).await, before);
}

/// Delivered, held and unused rows of one claim do not affect each other.
pub async fn close_treats_each_row_by_itself(under_test: &dyn StoreUnderTest) {
    let inserted = insert_due(under_test, 6).await;
    let claim = claim(under_test, &spec(TOPIC)).await;
    let (delivered, held, unused) = (&inserted[..2], &inserted[2..4], &inserted[4..]);
    let closed = claim.handle.close(delivered, held).await.expect("close");
    assert_eq!(sorted(closed.settled), delivered);
    assert_eq!(sorted(closed.held.into_iter().map(|held| held.key)), held);
    assert_eq!(live_keys(under_test).await, inserted[2..]);
    assert_eq!(sorted(claim_and_close(under_test, &spec(TOPIC)).await), unused);
}

/// A claim that found nothing closes like any other.
pub async fn close_without_rows_does_nothing(under_test: &dyn StoreUnderTest) {
    let claim = claim(under_test, &spec(TOPIC)).await;
    assert!(claim.rows.is_empty());
    assert_eq!(claim.handle.close(&[], &[]).await.expect("close"), Closed::default());
}
