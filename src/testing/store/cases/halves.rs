//! What becomes of half messages, according to their marks.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use crate::message::MessageId;
use crate::store::{Decision, HalfStore};
use crate::testing::store::support::{TOPIC, eventually};
use crate::testing::store::{Marking, OpenTransaction, StoreUnderTest};

/// How long a broker may wait that asks during a transaction: it has others to ask about.
const TIMEOUT: Duration = Duration::from_secs(3);

const OLD: Duration = Duration::from_secs(60);

/// The half-message operations; `None` if the store has none.
async fn halves(under_test: &dyn StoreUnderTest) -> Option<&dyn HalfStore> {
    let halves = under_test.store().halves()?;
    halves.check_marks().await.expect("the table is there");
    Some(halves)
}

async fn decide(halves: &dyn HalfStore, message: MessageId) -> Decision {
    let topic: Arc<str> = TOPIC.into();
    let decided = timeout(TIMEOUT, halves.decide(message, &topic)).await.expect("an answer, and no waiting");
    decided.expect("decide")
}

/// Repeats until there is a decision: a dropped transaction may go on for a moment.
async fn decided(halves: &dyn HalfStore, message: MessageId) -> Decision {
    eventually("a decision", async || Some(decide(halves, message).await).filter(|it| *it != Decision::Open)).await
}

async fn open(under_test: &dyn StoreUnderTest, marking: Marking) -> (MessageId, Box<dyn OpenTransaction>) {
    let message = MessageId::new();
    let marked = under_test.mark(message, marking).await;
    (message, marked.expect("a message that no broker has asked about can be marked"))
}

async fn committed(under_test: &dyn StoreUnderTest) -> MessageId {
    let (message, transaction) = open(under_test, Marking::InTransaction).await;
    transaction.commit().await;
    message
}

/// A committed mark is reported, however often it is checked.
pub async fn half_message_follows_its_transaction(under_test: &dyn StoreUnderTest) {
    let Some(halves) = halves(under_test).await else { return };
    let message = committed(under_test).await;
    let (lost, transaction) = open(under_test, Marking::InTransaction).await;
    transaction.roll_back().await;
    for _ in 0..2 {
        assert_eq!(decide(halves, message).await, Decision::Committed);
        assert_eq!(decide(halves, lost).await, Decision::RolledBack);
    }
    assert_eq!(halves.marked(&[message, lost]).await.expect("marked"), [message], "what is void is not marked");
}

/// A broker that asks while the transaction is open is told so, at once and as often as it asks. "Rolled back" would lose the
/// message, and waiting for the end would delay the answers for others.
pub async fn half_message_of_an_open_transaction_is_open(under_test: &dyn StoreUnderTest) {
    let Some(halves) = halves(under_test).await else { return };
    let before = committed(under_test).await;
    for commits in [true, false] {
        let (message, transaction) = open(under_test, Marking::InTransaction).await;
        for _ in 0..3 {
            assert_eq!(decide(halves, message).await, Decision::Open);
        }
        let decided_at_once = join_all((0..4).map(|_| decide(halves, message))).await;
        assert_eq!(decided_at_once, [Decision::Open; 4]);
        // The others are answered meanwhile.
        let marked = timeout(TIMEOUT, halves.marked(&[message, before])).await.expect("it waits for nobody");
        assert_eq!(marked.expect("marked"), [before]);
        assert_eq!(decide(halves, before).await, Decision::Committed);
        let became = if commits {
            transaction.commit().await;
            Decision::Committed
        } else {
            transaction.roll_back().await;
            Decision::RolledBack
        };
        assert_eq!(decided(halves, message).await, became);
    }
}

/// A mark that was rolled back with its savepoint does not count, even if the transaction commits.
pub async fn half_message_of_a_rolled_back_savepoint_is_rolled_back(under_test: &dyn StoreUnderTest) {
    let Some(halves) = halves(under_test).await else { return };
    let (message, transaction) = open(under_test, Marking::InRolledBackSavepoint).await;
    transaction.commit().await;
    assert_eq!(halves.marked(&[message]).await.expect("marked"), []);
    assert_eq!(decided(halves, message).await, Decision::RolledBack);
}

/// A message without a mark can no longer be marked: the broker was told to drop it.
pub async fn half_message_without_a_mark_is_void_for_good(under_test: &dyn StoreUnderTest) {
    let Some(halves) = halves(under_test).await else { return };
    let message = MessageId::new();
    assert_eq!(decide(halves, message).await, Decision::RolledBack);
    assert!(
        under_test.mark(message, Marking::InTransaction).await.is_none(),
        "it was marked after the broker dropped it"
    );
    assert_eq!(decide(halves, message).await, Decision::RolledBack);
    assert_eq!(halves.marked(&[message]).await.expect("marked"), []);
}

/// Concurrent checks agree; one that had no time gets "open" and asks again.
pub async fn half_message_is_decided_once_for_concurrent_checks(under_test: &dyn StoreUnderTest) {
    let Some(halves) = halves(under_test).await else { return };
    let (unmarked, marked) = (MessageId::new(), committed(under_test).await);
    for (message, became) in [(unmarked, Decision::RolledBack), (marked, Decision::Committed)] {
        let decisions = join_all((0..8).map(|_| decide(halves, message))).await;
        assert!(decisions.iter().all(|decision| [became, Decision::Open].contains(decision)), "{decisions:?}");
        assert_eq!(decided(halves, message).await, became);
    }
}

/// The transaction of a dead process is rolled back.
pub async fn half_message_of_a_dead_process_is_rolled_back(under_test: &dyn StoreUnderTest) {
    let Some(halves) = halves(under_test).await else { return };
    let (message, transaction) = open(under_test, Marking::InTransaction).await;
    drop(transaction);
    assert_eq!(decided(halves, message).await, Decision::RolledBack);
}

/// Marks are removed when their broker knows the outcome, or when no broker asks any more.
pub async fn half_marks_are_removed(under_test: &dyn StoreUnderTest) {
    let Some(halves) = halves(under_test).await else { return };
    let [reported, old, older] =
        [committed(under_test).await, committed(under_test).await, committed(under_test).await];
    assert_eq!(halves.remove_marks(&[reported, MessageId::new()]).await.expect("remove_marks"), 1);
    assert_eq!(halves.remove_marks(&[reported]).await.expect("remove_marks"), 0);
    assert_eq!(halves.remove_marks(&[]).await.expect("remove_marks"), 0);
    assert_eq!(halves.marked(&[]).await.expect("marked"), []);
    assert_eq!(halves.prune_marks(OLD, 10).await.expect("prune"), 0, "they are young");
    under_test.advance(OLD + Duration::from_secs(1)).await;
    let young = committed(under_test).await;
    assert_eq!(halves.prune_marks(OLD, 1).await.expect("prune"), 1);
    assert_eq!(halves.prune_marks(OLD, 10).await.expect("prune"), 1);
    assert_eq!(halves.marked(&[reported, old, older, young]).await.expect("marked"), [young]);
}
