use crate::store::{Dead, DeadRow, Held};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

/// A row that is given up moves to the dead letters, once, with its reason and its history.
pub async fn dead_moves_with_reason_and_history(under_test: &dyn StoreUnderTest) {
    let held = insert_held(under_test, 1).await[0];
    under_test.store().fail(&[failed(held, "too large")]).await.expect("fail");
    let row = live_row(under_test, held.key).await;
    let given_up = dead(Held { epoch: row.epoch, ..held });
    assert_eq!(under_test.store().dead(std::slice::from_ref(&given_up)).await.expect("dead"), [held.key]);
    assert!(under_test.live_rows().await.is_empty());
    let expected = DeadRow {
        key: row.key,
        topic: row.topic,
        epoch: row.epoch,
        attempts: 1,
        failures: 1,
        errors: row.errors,
        reason: given_up.reason.clone(),
    };
    assert_eq!(under_test.dead_rows().await, std::slice::from_ref(&expected));

    assert_eq!(under_test.store().dead(&[given_up]).await.expect("dead"), [], "it is gone already");
    assert_eq!(under_test.dead_rows().await, [expected]);
}

/// Where the message is a dead letter already, that one stays and the row goes all the same, with its group.
pub async fn dead_meets_a_dead_letter(under_test: &dyn StoreUnderTest) {
    let message = message(TOPIC);
    let first = Held { key: under_test.insert(&message, leased(LEASE)).await, epoch: 0 };
    under_test.store().dead(&[dead(first)]).await.expect("dead");
    let before = under_test.dead_rows().await;

    let again = Held { key: under_test.insert(&message, leased(LEASE)).await, epoch: 0 };
    let other = Held { key: insert(under_test, leased(LEASE)).await, epoch: 0 };
    let group = [Dead { reason: "again".to_owned(), ..dead(again) }, dead(other)];
    let moved = under_test.store().dead(&group).await.expect("an existing dead letter is no error");
    assert_eq!(sorted(moved), [again.key, other.key]);
    assert!(under_test.live_rows().await.is_empty());
    let mut after = under_test.dead_rows().await;
    after.retain(|row| row.key != other.key);
    assert_eq!(after, before);
}

/// A reason is somebody else's text.
pub async fn dead_keeps_any_reason(under_test: &dyn StoreUnderTest) {
    let held = insert_held(under_test, 1).await[0];
    let given_up = Dead { reason: "nul \0 and 错误".to_owned(), ..dead(held) };
    assert_eq!(under_test.store().dead(&[given_up]).await.expect("one bad text fails no group"), [held.key]);
    assert_eq!(under_test.dead_rows().await[0].reason, "nul  and 错误");
}

/// Giving up late, under an epoch that is over, changes nothing.
pub async fn dead_wants_its_epoch(under_test: &dyn StoreUnderTest) {
    let held = insert_held(under_test, 1).await[0];
    let before = under_test.live_rows().await;
    let late = [dead(stale(held)), dead(Held { key: other_message(held.key), ..held })];
    assert_eq!(under_test.store().dead(&late).await.expect("dead"), []);
    assert_eq!(under_test.live_rows().await, before);
    assert!(under_test.dead_rows().await.is_empty());
}

/// A row that cannot be decoded can be given up.
pub async fn dead_takes_a_poisoned_row(under_test: &dyn StoreUnderTest) {
    let held = insert_held(under_test, 1).await[0];
    under_test.poison(held.key).await;
    assert_eq!(under_test.store().dead(&[dead(held)]).await.expect("dead"), [held.key]);
    assert_eq!(dead_keys(under_test).await, [held.key]);
}
