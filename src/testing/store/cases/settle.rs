use crate::store::{Held, HistoryRow, Keep, Locking, RowKey};
use crate::testing::store::StoreUnderTest;
use crate::testing::store::support::*;

/// Delivered rows are removed, whatever their epoch.
pub async fn settle_removes_whatever_the_epoch(under_test: &dyn StoreUnderTest) {
    let born = insert(under_test, leased(LEASE)).await;
    let failing = insert(under_test, leased(LEASE)).await;
    let noted = under_test.store().fail(&[failed(Held { key: failing, epoch: 0 }, "timed out")]).await.expect("fail");
    assert_eq!(noted, [failing]);
    let settled = under_test.store().settle(&[born, failing], Locking::Skip).await.expect("settle");
    assert_eq!(sorted(settled), [born, failing]);
    assert!(under_test.live_rows().await.is_empty());
    assert!(under_test.dead_letter_rows().await.is_empty());
}

/// Settle returns each row that it removed once, and no others.
pub async fn settle_returns_what_it_removed(under_test: &dyn StoreUnderTest) {
    let [first, second] = [insert(under_test, DUE).await, insert(under_test, DUE).await];
    for locking in [Locking::Skip, Locking::Wait] {
        let settled = under_test.store().settle(&[first], locking).await.expect("settle");
        assert_eq!(settled, if locking == Locking::Skip { vec![first] } else { vec![] });
    }
    assert_eq!(under_test.store().settle(&[second], Locking::Wait).await.expect("settle"), [second]);
}

/// A late settle removes no other message that got the same id.
pub async fn settle_requires_id_and_message_id(under_test: &dyn StoreUnderTest) {
    let key = insert(under_test, DUE).await;
    for locking in [Locking::Skip, Locking::Wait] {
        let settled = under_test.store().settle(&[other_message(key)], locking).await.expect("settle");
        assert!(settled.is_empty(), "{settled:?} was settled by its id alone");
    }
    assert_eq!(live_keys(under_test).await, [key]);
}

/// [`Locking::Skip`] waits for nobody.
pub async fn settle_skips_locked_rows(under_test: &dyn StoreUnderTest) {
    let inserted = insert_due(under_test, 2).await;
    let Some(lock) = under_test.lock(inserted[0]).await else { return };
    let settled = under_test.store().settle(&inserted, Locking::Skip).await.expect("settle");
    assert_eq!(settled, [inserted[1]]);
    lock.roll_back().await;
    assert_eq!(live_keys(under_test).await, [inserted[0]]);
}

/// [`Locking::Wait`] removes rows as soon as they are free.
pub async fn settle_waits_for_locked_rows(under_test: &dyn StoreUnderTest) {
    let inserted = insert_due(under_test, 2).await;
    let Some(lock) = under_test.lock(inserted[0]).await else { return };
    let mut settle = under_test.store().settle(&inserted, Locking::Wait);
    let early = tokio::time::timeout(SHORT_WAIT, &mut settle).await;
    assert!(early.is_err(), "it did not wait: {early:?}");
    let (settled, ()) = tokio::join!(settle, lock.roll_back());
    assert_eq!(sorted(settled.expect("settle")), inserted);
    assert!(under_test.live_rows().await.is_empty());
}

/// A message that was delivered after all is no longer a dead letter.
pub async fn settle_dead_letters_removes_them(under_test: &dyn StoreUnderTest) {
    let dead = insert_held(under_test, 2).await;
    let moved =
        under_test.store().dead_letter(&[to_dead_letter(dead[0]), to_dead_letter(dead[1])]).await.expect("dead_letter");
    assert_eq!(moved.len(), 2);
    let live = insert(under_test, leased(LEASE)).await;
    let rows = [dead[0].key, live];
    assert_eq!(under_test.store().settle_dead_letters(&rows).await.expect("settle_dead_letters"), 1);
    assert_eq!(under_test.store().settle_dead_letters(&rows).await.expect("settle_dead_letters"), 0);
    assert_eq!(dead_letter_keys(under_test).await, [dead[1].key]);
    assert_eq!(live_keys(under_test).await, [live], "a live row is not removed with the dead letters");
}

/// A requeued message is another row, and its dead letter has that row's id. A late acknowledgement of the first copy does not
/// remove it.
pub async fn settle_dead_letters_requires_id_and_message_id(under_test: &dyn StoreUnderTest) {
    let letter = insert_dead_letter(under_test, TOPIC, "42", "attempts").await;
    let first_copy = RowKey { id: letter.id + 1, ..letter };
    let rows = [first_copy, other_message(letter)];
    assert_eq!(under_test.store().settle_dead_letters(&rows).await.expect("settle_dead_letters"), 0);
    let history = under_test.store().history();
    let kept = rows.map(|key| HistoryRow { key, keep: Keep { days: 1, awaits_processing: false } });
    assert_eq!(history.settle_dead_letters_into_history(&kept).await.expect("settle_dead_letters"), 0);
    assert_eq!(history.count_sent(&TOPIC.into(), 10).await.expect("count").sent, 0, "nothing is kept of it, either");
    assert_eq!(dead_letter_keys(under_test).await, [letter]);
}
