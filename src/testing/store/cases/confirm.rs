use std::time::Duration;

use crate::store::RowRef;
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

/// Confirm finds rows that exist, and skips others without an error.
pub async fn confirm_finds_committed_rows(under_test: &dyn StoreUnderTest) {
    let first = insert(under_test, leased(LEASE)).await;
    let second = insert(under_test, leased(LEASE)).await;
    let gone = insert(under_test, leased(LEASE)).await;
    under_test.store().settle(&[gone], crate::store::Locking::Skip).await.expect("settle");

    let refs = [first, gone, second].map(row_ref);
    let confirmed = under_test.store().confirm(&refs).await.expect("confirm");
    assert_eq!(confirmed_keys(&confirmed), [first, second]);
}

/// A transaction that has not committed has no rows for confirm; one that was rolled back never has.
pub async fn confirm_sees_no_open_transaction(under_test: &dyn StoreUnderTest) {
    let (rolled_back, transaction) = under_test.insert_uncommitted(&message(TOPIC)).await;
    let confirmed = under_test.store().confirm(&[row_ref(rolled_back)]).await.expect("confirm");
    assert!(confirmed.is_empty(), "a row of an open transaction was confirmed");
    transaction.roll_back().await;
    let confirmed = under_test.store().confirm(&[row_ref(rolled_back)]).await.expect("confirm");
    assert!(confirmed.is_empty(), "a row that was rolled back was confirmed");

    let (committed, transaction) = under_test.insert_uncommitted(&message(TOPIC)).await;
    transaction.commit().await;
    let confirmed = under_test.store().confirm(&[row_ref(committed)]).await.expect("confirm");
    assert_eq!(confirmed_keys(&confirmed), [committed]);
}

/// A row that a claim left leased belongs to that claim's process, even after the lease.
pub async fn confirm_skips_a_claimed_row(under_test: &dyn StoreUnderTest) {
    let held = insert_held(under_test, 1).await[0];
    let confirmed = under_test.store().confirm(&[row_ref(held.key)]).await.expect("confirm");
    assert!(confirmed.is_empty(), "a row of epoch {} was confirmed", held.epoch);
}

/// A failed row waits for its time: a late ref must not send it early and spend its attempts twice.
pub async fn confirm_skips_a_failed_row(under_test: &dyn StoreUnderTest) {
    let key = insert(under_test, leased(LEASE)).await;
    let born = crate::store::Held { key, epoch: 0 };
    assert_eq!(under_test.store().fail(&[failed(born, "timed out")]).await.expect("fail"), [key]);
    let confirmed = under_test.store().confirm(&[row_ref(key)]).await.expect("confirm");
    assert!(confirmed.is_empty(), "a row in its back-off was confirmed");
}

/// A delayed row belongs to nobody before its time.
pub async fn confirm_skips_a_delayed_row(under_test: &dyn StoreUnderTest) {
    let key = insert(under_test, leased(LEASE).deliver_after(Duration::from_secs(3_600))).await;
    let confirmed = under_test.store().confirm(&[row_ref(key)]).await.expect("confirm");
    assert!(confirmed.is_empty(), "a row was confirmed an hour before its delivery");
}

/// A reused id leads to no other message.
pub async fn confirm_requires_id_and_message_id(under_test: &dyn StoreUnderTest) {
    let key = insert(under_test, leased(LEASE)).await;
    let confirmed = under_test.store().confirm(&[row_ref(other_message(key))]).await.expect("confirm");
    assert!(confirmed.is_empty(), "a message was confirmed by the id of another one");
}

/// Returns rows in any state, but none that is gone, uncommitted or another message's.
pub async fn remaining_rows_are_those_still_there(under_test: &dyn StoreUnderTest) {
    let store = under_test.store();
    let held = insert_held(under_test, 2).await;
    assert_eq!(store.fail(&[failed(held[0], "timed out")]).await.expect("fail"), [held[0].key]);
    let delayed = insert(under_test, leased(LEASE).deliver_after(Duration::from_secs(3_600))).await;
    let rows = insert_due(under_test, 3).await;
    let [fresh, gone, dead_lettered] = [rows[0], rows[1], rows[2]];
    store.settle(&[gone], crate::store::Locking::Skip).await.expect("settle");
    let letter = crate::store::Held { key: dead_lettered, epoch: 0 };
    assert_eq!(store.dead_letter(&[to_dead_letter(letter)]).await.expect("dead_letter"), [dead_lettered]);
    let there = [held[0].key, held[1].key, delayed, fresh];
    let refs: Vec<RowRef> = there.into_iter().chain([gone, dead_lettered, other_message(fresh)]).map(row_ref).collect();
    assert_eq!(sorted(store.remaining(&refs).await.expect("remaining")), sorted(there));
    let found = store.remaining(&[RowRef { id: None, ..row_ref(fresh) }]).await.expect("remaining");
    assert!(
        found.is_empty() || found == [fresh],
        "a store whose INSERT returns ids need not search by message id: {found:?}"
    );
    assert!(store.remaining(&[]).await.expect("remaining").is_empty());
}

/// Confirm returns how much of the initial lease was left; zero if it had expired.
pub async fn confirm_reports_the_remaining_lease(under_test: &dyn StoreUnderTest) {
    let key = insert(under_test, leased(LEASE)).await;
    let due_at = live_row(under_test, key).await.due_at;
    let began_at = under_test.now().await;
    let left = under_test.store().confirm(&[row_ref(key)]).await.expect("confirm")[0].lease_left;
    let ended_at = under_test.now().await;
    // A store may count whole milliseconds.
    let latest = due_at.duration_since(began_at).expect("not over yet") + Duration::from_millis(1);
    let earliest = due_at.duration_since(ended_at).expect("not over yet").saturating_sub(Duration::from_millis(1));
    assert!(earliest <= left && left <= latest, "{left:?} left, not from {earliest:?} to {latest:?}");

    under_test.advance(LEASE * 2).await;
    let confirmed = under_test.store().confirm(&[row_ref(key)]).await.expect("confirm");
    assert_eq!(confirmed.first().map(|confirmed| confirmed.lease_left), Some(Duration::ZERO));
}

/// Confirm is a plain read: locks of others do not block it.
pub async fn confirm_reads_a_locked_row(under_test: &dyn StoreUnderTest) {
    let key = insert(under_test, leased(LEASE)).await;
    let Some(lock) = under_test.lock(key).await else { return };
    let confirmed = under_test.store().confirm(&[row_ref(key)]).await.expect("confirm");
    assert_eq!(confirmed_keys(&confirmed), [key]);
    lock.roll_back().await;
}
