use crate::store::{Locking, PollSpec};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

/// The largest batch that a relay makes with the default limits.
const BATCH: usize = 1_000;

/// A thousand rows are confirmed, claimed, held, extended, failed and settled in one call each.
pub async fn a_thousand_rows_are_settled_in_one_call(under_test: &dyn StoreUnderTest) {
    let inserted = insert_due(under_test, BATCH).await;
    let store = under_test.store();
    let refs: Vec<_> = inserted.iter().copied().map(row_ref).collect();
    assert_eq!(confirmed_keys(&store.confirm(&refs).await.expect("confirm")), inserted);

    let claim = claim(under_test, &spec(TOPIC)).await;
    assert_eq!(sorted(keys(&claim.rows)), inserted);
    let (delivered, kept) = inserted.split_at(BATCH / 2);
    let closed = claim.handle.close(delivered, kept).await.expect("close");
    assert_eq!(sorted(closed.settled), delivered);
    assert_eq!(sorted(closed.held.iter().map(|held| held.key)), kept);

    let extended = store.extend(&closed.held, LEASE).await.expect("extend");
    assert_eq!(sorted(extended), kept);
    let failures: Vec<_> = closed.held.iter().map(|&held| failed(held, "timed out")).collect();
    assert_eq!(sorted(store.fail(&failures).await.expect("fail")), kept);
    assert_eq!(sorted(store.settle(kept, Locking::Skip).await.expect("settle")), kept);
    assert!(under_test.live_rows().await.is_empty());
}

/// A thousand rows are released, and dead-lettered, in one call each.
pub async fn a_thousand_rows_are_dead_lettered_in_one_call(under_test: &dyn StoreUnderTest) {
    let every = insert_due(under_test, BATCH).await;
    assert_eq!(sorted(claim_and_close(under_test, &spec(TOPIC)).await), every);
    let claim = claim(under_test, &spec(TOPIC)).await;
    assert_eq!(sorted(keys(&claim.rows)), every);
    let held = claim.handle.close(&[], &every).await.expect("close").held;
    let store = under_test.store();
    let batch: Vec<_> = held.into_iter().map(to_dead_letter).collect();
    assert_eq!(sorted(store.dead_letter(&batch).await.expect("dead_letter")), every);
    assert_eq!(dead_letter_keys(under_test).await, every);
    assert_eq!(store.settle_dead_letters(&every).await.expect("settle_dead_letters"), BATCH);
}

/// Empty calls do nothing.
pub async fn empty_calls_do_nothing(under_test: &dyn StoreUnderTest) {
    let inserted = insert_due(under_test, 2).await;
    let before = under_test.live_rows().await;
    let store = under_test.store();
    assert!(store.confirm(&[]).await.expect("confirm").is_empty());
    assert!(store.settle(&[], Locking::Skip).await.expect("settle").is_empty());
    assert!(store.settle(&[], Locking::Wait).await.expect("settle").is_empty());
    assert_eq!(store.settle_dead_letters(&[]).await.expect("settle_dead_letters"), 0);
    assert!(store.extend(&[], LEASE).await.expect("extend").is_empty());
    assert!(store.fail(&[]).await.expect("fail").is_empty());
    assert!(store.dead_letter(&[]).await.expect("dead_letter").is_empty());
    assert!(store.poll(&PollSpec::everything([])).await.expect("poll").due.is_empty());
    assert_eq!(under_test.live_rows().await, before);
    assert_eq!(live_keys(under_test).await, inserted);
}

/// The store finds nothing wrong with freshly created tables.
pub async fn check_finds_nothing_wrong(under_test: &dyn StoreUnderTest) {
    under_test.store().check().await.expect("the tables of a store under test are of its version");
}
