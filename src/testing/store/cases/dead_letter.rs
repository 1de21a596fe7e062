use crate::store::{DeadLetterRow, Held, NewDeadLetter};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

/// A dead-lettered row moves to the dead letters once, with its reason and its failures.
pub async fn dead_letter_keeps_reason_and_failures(under_test: &dyn StoreUnderTest) {
    let held = insert_held(under_test, 1).await[0];
    under_test.store().fail(&[failed(held, "too large")]).await.expect("fail");
    let row = live_row(under_test, held.key).await;
    let new_dead_letter = to_dead_letter(Held { epoch: row.epoch, ..held });
    assert_eq!(
        under_test.store().dead_letter(std::slice::from_ref(&new_dead_letter)).await.expect("dead_letter"),
        [held.key]
    );
    assert!(under_test.live_rows().await.is_empty());
    let expected = DeadLetterRow {
        key: row.key,
        topic: row.topic,
        epoch: row.epoch,
        attempts: 1,
        failures: 1,
        errors: row.errors,
        reason: new_dead_letter.reason.clone(),
    };
    assert_eq!(under_test.dead_letter_rows().await, std::slice::from_ref(&expected));

    assert_eq!(
        under_test.store().dead_letter(&[new_dead_letter]).await.expect("dead_letter"),
        [],
        "it is gone already"
    );
    assert_eq!(under_test.dead_letter_rows().await, [expected]);
}

/// If the message is a dead letter already, that one stays; the row is removed all the same, with the rest of its batch.
pub async fn dead_letter_of_an_existing_dead_letter_removes_the_row(under_test: &dyn StoreUnderTest) {
    let message = message(TOPIC);
    let first = Held { key: under_test.insert(&message, leased(LEASE)).await, epoch: 0 };
    under_test.store().dead_letter(&[to_dead_letter(first)]).await.expect("dead_letter");
    let before = under_test.dead_letter_rows().await;

    let again = Held { key: under_test.insert(&message, leased(LEASE)).await, epoch: 0 };
    let other = Held { key: insert(under_test, leased(LEASE)).await, epoch: 0 };
    let batch = [NewDeadLetter { reason: "again".to_owned(), ..to_dead_letter(again) }, to_dead_letter(other)];
    let moved = under_test.store().dead_letter(&batch).await.expect("an existing dead letter is no error");
    assert_eq!(sorted(moved), [again.key, other.key]);
    assert!(under_test.live_rows().await.is_empty());
    let mut after = under_test.dead_letter_rows().await;
    after.retain(|row| row.key != other.key);
    assert_eq!(after, before);
}

/// A reason may be any foreign text.
pub async fn dead_letter_stores_any_reason(under_test: &dyn StoreUnderTest) {
    let held = insert_held(under_test, 1).await[0];
    let new_dead_letter = NewDeadLetter { reason: "nul \0 and 错误".to_owned(), ..to_dead_letter(held) };
    assert_eq!(
        under_test.store().dead_letter(&[new_dead_letter]).await.expect("one bad text must not fail the batch"),
        [held.key]
    );
    assert_eq!(under_test.dead_letter_rows().await[0].reason, "nul  and 错误");
}

/// Dead-lettering under an outdated epoch changes nothing.
pub async fn dead_letter_requires_its_epoch(under_test: &dyn StoreUnderTest) {
    let held = insert_held(under_test, 1).await[0];
    let before = under_test.live_rows().await;
    let late = [to_dead_letter(stale(held)), to_dead_letter(Held { key: other_message(held.key), ..held })];
    assert_eq!(under_test.store().dead_letter(&late).await.expect("dead_letter"), []);
    assert_eq!(under_test.live_rows().await, before);
    assert!(under_test.dead_letter_rows().await.is_empty());
}

/// A row that cannot be decoded can be dead-lettered.
pub async fn dead_letter_accepts_a_poisoned_row(under_test: &dyn StoreUnderTest) {
    let held = insert_held(under_test, 1).await[0];
    under_test.poison(held.key).await;
    assert_eq!(under_test.store().dead_letter(&[to_dead_letter(held)]).await.expect("dead_letter"), [held.key]);
    assert_eq!(dead_letter_keys(under_test).await, [held.key]);
}
