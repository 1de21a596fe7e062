use std::time::Duration;

use futures_util::future::join_all;

use crate::store::{ClaimMode, ClaimSpec, InsertOptions};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

/// A claim returns the rows first that were due first.
pub async fn claim_takes_the_oldest_first(under_test: &dyn StoreUnderTest) {
    let third = insert(under_test, leased(Duration::from_secs(3))).await;
    let first = insert(under_test, leased(Duration::from_secs(1))).await;
    let second = insert(under_test, leased(Duration::from_secs(2))).await;
    under_test.advance(Duration::from_secs(4)).await;
    assert_eq!(claim_and_close(under_test, &spec(TOPIC)).await, [first, second, third]);
    let oldest = claim_and_close(under_test, &ClaimSpec { rows_max: 1, ..spec(TOPIC) }).await;
    assert_eq!(oldest.len(), 1);
}

/// The oldest first, even if not all are taken.
pub async fn claim_takes_at_most_rows_max(under_test: &dyn StoreUnderTest) {
    let third = insert(under_test, leased(Duration::from_secs(3))).await;
    let first = insert(under_test, leased(Duration::from_secs(1))).await;
    let second = insert(under_test, leased(Duration::from_secs(2))).await;
    under_test.advance(Duration::from_secs(4)).await;
    let two = claim(under_test, &ClaimSpec { rows_max: 2, ..spec(TOPIC) }).await;
    assert_eq!(keys(&two.rows), [first, second]);
    assert!(!two.found_all, "there may be more");
    let rest = claim(under_test, &spec(TOPIC)).await;
    assert_eq!(keys(&rest.rows), [third], "what one claim left is free for the next");
    rest.handle.close(&[], &[]).await.expect("close");
    two.handle.close(&[], &[]).await.expect("close");
}

/// A claim stays within its byte limit; the rows left out are free.
pub async fn claim_takes_at_most_bytes_max(under_test: &dyn StoreUnderTest) {
    let mut large = message(TOPIC);
    large.payload = Some(vec![b'x'; 1_000]);
    let mut inserted = Vec::new();
    for _ in 0..3 {
        inserted.push(under_test.insert(&large, DUE).await);
        large.message_id = crate::MessageId::new();
    }
    let claim = claim(under_test, &ClaimSpec { bytes_max: 2_500, ..spec(TOPIC) }).await;
    assert_eq!(claim.rows.len(), 2);
    assert!(!claim.found_all, "there may be more");
    let taken = keys(&claim.rows);
    claim.handle.close(&taken, &[]).await.expect("close");
    let rest = claim_and_close(under_test, &ClaimSpec { bytes_max: 2_500, ..spec(TOPIC) }).await;
    assert_eq!(sorted(taken.into_iter().chain(rest)), inserted);
}

/// One row is always taken: otherwise a row above the limit would never be.
pub async fn claim_takes_one_row_above_bytes_max(under_test: &dyn StoreUnderTest) {
    let mut large = message(TOPIC);
    large.payload = Some(vec![b'x'; 1_000]);
    let first = under_test.insert(&large, DUE).await;
    under_test.advance(Duration::from_secs(1)).await;
    insert(under_test, DUE).await;
    assert_eq!(claim_and_close(under_test, &ClaimSpec { bytes_max: 10, ..spec(TOPIC) }).await, [first]);
}

/// Until its `due_at` a row belongs to whoever set it: a claim neither takes nor writes it.
pub async fn claim_leaves_rows_that_are_not_due(under_test: &dyn StoreUnderTest) {
    insert(under_test, leased(LEASE)).await;
    insert(under_test, InsertOptions::default().deliver_after(LEASE)).await;
    let before = under_test.live_rows().await;
    let claimed = claim_and_close(under_test, &spec(TOPIC)).await;
    assert!(claimed.is_empty(), "claimed before it was due");
    assert_eq!(under_test.live_rows().await, before);
}

/// Anybody may claim a delayed row once its time has come, and the row has that time.
pub async fn claim_takes_a_delayed_row_in_time(under_test: &dyn StoreUnderTest) {
    let key = insert(under_test, leased(LEASE * 10).deliver_after(LEASE)).await;
    under_test.advance(LEASE).await;
    let claim = claim(under_test, &spec(TOPIC)).await;
    assert_eq!(keys(&claim.rows), [key]);
    for envelope in claim.rows.into_iter().map(|row| decoded(row).envelope) {
        let waited = envelope.deliver_at.and_then(|at| at.duration_since(envelope.created_at).ok());
        // Some databases read their clock for each of the two values.
        assert!(
            waited.is_some_and(|waited| waited.abs_diff(LEASE) < Duration::from_secs(1)),
            "{envelope:?} {waited:?}"
        );
    }
    claim.handle.close(&[key], &[]).await.expect("close");
}

/// A claim takes rows of one topic only.
pub async fn claim_takes_only_its_topic(under_test: &dyn StoreUnderTest) {
    let order = insert(under_test, DUE).await;
    let payment = under_test.insert(&message("payments"), DUE).await;
    assert_eq!(claim_and_close(under_test, &spec("payments")).await, [payment]);
    assert_eq!(claim_and_close(under_test, &spec(TOPIC)).await, [order]);
    assert!(claim_and_close(under_test, &spec("order")).await.is_empty(), "the beginning of a name is no name");
}

/// Two claims that are open at once share no row, and neither waits for the other.
pub async fn claims_share_no_row(under_test: &dyn StoreUnderTest) {
    let inserted = insert_due(under_test, 4).await;
    let first = claim(under_test, &ClaimSpec { rows_max: 2, ..spec(TOPIC) }).await;
    let second = claim(under_test, &spec(TOPIC)).await;
    let third = claim(under_test, &spec(TOPIC)).await;
    assert_eq!(sorted([keys(&first.rows), keys(&second.rows)].concat()), inserted);
    assert!(third.rows.is_empty(), "all were taken");
    for claim in [first, second, third] {
        claim.handle.close(&keys(&claim.rows), &[]).await.expect("close");
    }
    assert!(under_test.live_rows().await.is_empty());
}

/// A claim skips rows that others have locked, and uncommitted rows.
pub async fn claim_skips_locked_rows(under_test: &dyn StoreUnderTest) {
    let inserted = insert_due(under_test, 2).await;
    let Some(lock) = under_test.lock(inserted[0]).await else { return };
    let (_, uncommitted) = under_test.insert_uncommitted(&message(TOPIC)).await;
    assert_eq!(claim_and_close(under_test, &spec(TOPIC)).await, [inserted[1]]);
    uncommitted.roll_back().await;
    lock.roll_back().await;
    assert_eq!(claim_and_close(under_test, &spec(TOPIC)).await.len(), 2);
}

/// A claim holds its rows by its mode: locked rows are not written; leased rows are due after the lease and already have the epoch
/// that was returned.
pub async fn claim_holds_rows_by_its_mode(under_test: &dyn StoreUnderTest) {
    let key = insert(under_test, DUE).await;
    let before = live_row(under_test, key).await;
    let (window, claim) = WriteWindow::of(under_test, claim(under_test, &spec(TOPIC))).await;
    let row = live_row(under_test, key).await;
    match claim.mode {
        ClaimMode::Locked => assert_eq!(row, before),
        ClaimMode::Leased => {
            assert_eq!(row.epoch, before.epoch + 1);
            window.assert_due_after(&row, LEASE);
        }
    }
    let loaded = claim.rows.into_iter().map(decoded).next().expect("the row");
    assert_eq!((loaded.epoch, loaded.failures, loaded.envelope.attempt), (row.epoch, 0, 1));
    claim.handle.close(&[], &[]).await.expect("close");
}

/// While a claim is open, the application's transactions are not blocked.
pub async fn open_claim_blocks_no_insert(under_test: &dyn StoreUnderTest) {
    let first = insert(under_test, DUE).await;
    let claim = claim(under_test, &spec(TOPIC)).await;
    let second = insert(under_test, DUE).await;
    claim.handle.close(&[first], &[]).await.expect("close");
    assert_eq!(live_keys(under_test).await, [second]);
}

/// A dropped claim releases its rows: locked ones soon, leased ones when the lease ends.
pub async fn dropped_claim_releases_its_rows(under_test: &dyn StoreUnderTest) {
    let inserted = insert_due(under_test, 3).await;
    // Longer than the suite waits, so that only the drop can release them.
    let lock_duration = Duration::from_secs(120);
    let dropped = claim(under_test, &ClaimSpec { lock_duration, ..spec(TOPIC) }).await;
    let mode = dropped.mode;
    drop(dropped);
    if mode == ClaimMode::Leased {
        under_test.advance(LEASE + Duration::from_millis(1)).await;
    }
    let mut back = Vec::new();
    eventually("every row of the dropped claim", async || {
        let claimed = claim(under_test, &spec(TOPIC)).await;
        back.extend(keys(&claimed.rows));
        claimed.handle.close(&keys(&claimed.rows), &[]).await.expect("close");
        (back.len() == inserted.len()).then_some(())
    })
    .await;
    assert_eq!(sorted(back), inserted);
}

/// The database ends a claim whose process hangs: others get its rows, and its close has no effect.
pub async fn stalled_claim_is_ended_by_the_database(under_test: &dyn StoreUnderTest) {
    let key = insert(under_test, DUE).await;
    let lock_duration = Duration::from_millis(50);
    let forgotten = claim(under_test, &ClaimSpec { lock_duration, ..spec(TOPIC) }).await;
    assert_eq!(keys(&forgotten.rows), [key]);
    if forgotten.mode == ClaimMode::Leased {
        under_test.advance(LEASE + Duration::from_millis(1)).await;
    }
    let next = eventually("the row of the forgotten claim", async || {
        let next = claim(under_test, &spec(TOPIC)).await;
        (!next.rows.is_empty()).then_some(next)
    })
    .await;
    let closed = forgotten.handle.close(&[], &[key]).await;
    assert!(closed.is_err() || closed.is_ok_and(|closed| closed.held.is_empty()), "two claims hold one row");
    let closed = next.handle.close(&[], &[key]).await.expect("close");
    assert_eq!(closed.held.len(), 1, "the second claim is undisturbed");
}

/// Concurrent claims share no row, and together leave none.
pub async fn concurrent_claims_share_no_row(under_test: &dyn StoreUnderTest) {
    let inserted = insert_due(under_test, 80).await;
    let quarter = ClaimSpec { rows_max: 20, ..spec(TOPIC) };
    let claims = join_all((0..4).map(|_| claim(under_test, &quarter))).await;
    let claimed = claims.iter().flat_map(|claim| keys(&claim.rows));
    assert_eq!(sorted(claimed), inserted);
    let closed = join_all(claims.into_iter().map(|claim| async move {
        let claimed = keys(&claim.rows);
        claim.handle.close(&claimed, &[]).await.expect("close").settled
    }))
    .await;
    assert_eq!(sorted(closed.concat()), inserted);
}
