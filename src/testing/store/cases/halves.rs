//! What becomes of half messages, by their marks.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use crate::message::MessageId;
use crate::store::{Decision, HalfStore};
use crate::testing::store::support::{TOPIC, eventually};
use crate::testing::store::{Marking, OpenTransaction, StoreUnderTest};

/// How long a broker that asks during a transaction may be kept waiting: it has others to ask.
const ANSWER: Duration = Duration::from_secs(3);

const OLD: Duration = Duration::from_secs(60);

/// The marks of the store; `None` where it keeps none.
async fn halves(under_test: &dyn StoreUnderTest) -> Option<&dyn HalfStore> {
    let halves = under_test.store().halves()?;
    halves.check_marks().await.expect("the table is there");
    Some(halves)
}

async fn decide(halves: &dyn HalfStore, message: MessageId) -> Decision {
    let topic: Arc<str> = TOPIC.into();
    let decided = timeout(ANSWER, halves.decide(message, &topic)).await.expect("an answer, and no waiting");
    decided.expect("decide")
}

/// Decides until it is decided: a transaction that was dropped may go on for a moment.
async fn decided(halves: &dyn HalfStore, message: MessageId) -> Decision {
    eventually("a decision", async || Some(decide(halves, message).await).filter(|it| *it != Decision::Open)).await
}

async fn open(under_test: &dyn StoreUnderTest, marking: Marking) -> (MessageId, Box<dyn OpenTransaction>) {
    let message = MessageId::new();
    let marked = under_test.mark(message, marking).await;
    (message, marked.expect("a message that nobody has asked about can be marked"))
}

async fn committed(under_test: &dyn StoreUnderTest) -> MessageId {
    let (message, transaction) = open(under_test, Marking::InTransaction).await;
    transaction.commit().await;
    message
}

/// A committed mark says so, however often it is asked.
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

/// A broker that asks while the transaction is open hears that it is, at once and as often as it asks: rolled back would
/// lose the message, and waiting for the end would keep others from their answer.
pub async fn half_message_of_an_open_transaction_is_open(under_test: &dyn StoreUnderTest) {
    let Some(halves) = halves(under_test).await else { return };
    let before = committed(under_test).await;
    for commits in [true, false] {
        let (message, transaction) = open(under_test, Marking::InTransaction).await;
        for _ in 0..3 {
            assert_eq!(decide(halves, message).await, Decision::Open);
        }
        let asked_at_once = join_all((0..4).map(|_| decide(halves, message))).await;
        assert_eq!(asked_at_once, [Decision::Open; 4]);
        // And the others are answered.
        let marked = timeout(ANSWER, halves.marked(&[message, before])).await.expect("it waits for nobody");
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

/// A mark that went with its savepoint is none, though the transaction commits.
pub async fn half_message_of_a_rolled_back_savepoint_is_rolled_back(under_test: &dyn StoreUnderTest) {
    let Some(halves) = halves(under_test).await else { return };
    let (message, transaction) = open(under_test, Marking::InRolledBackSavepoint).await;
    transaction.commit().await;
    assert_eq!(halves.marked(&[message]).await.expect("marked"), []);
    assert_eq!(decided(halves, message).await, Decision::RolledBack);
}

/// Where nobody has marked yet nobody can any more: the broker was told to drop the message.
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

/// Several who ask at once agree; one that had no time to look is asked again.
pub async fn half_message_is_decided_once_for_concurrent_checks(under_test: &dyn StoreUnderTest) {
    let Some(halves) = halves(under_test).await else { return };
    let (unmarked, marked) = (MessageId::new(), committed(under_test).await);
    for (message, became) in [(unmarked, Decision::RolledBack), (marked, Decision::Committed)] {
        let answers = join_all((0..8).map(|_| decide(halves, message))).await;
        assert!(answers.iter().all(|answer| [became, Decision::Open].contains(answer)), "{answers:?}");
        assert_eq!(decided(halves, message).await, became);
    }
}

/// A process that dies leaves what its transaction left.
pub async fn half_message_of_a_dead_process_is_rolled_back(under_test: &dyn StoreUnderTest) {
    let Some(halves) = halves(under_test).await else { return };
    let (message, transaction) = open(under_test, Marking::InTransaction).await;
    drop(transaction);
    assert_eq!(decided(halves, message).await, Decision::RolledBack);
}

/// Marks go when their broker knows, or when no broker asks any more.
pub async fn half_marks_are_removed(under_test: &dyn StoreUnderTest) {
    let Some(halves) = halves(under_test).await else { return };
    let [told, old, older] = [committed(under_test).await, committed(under_test).await, committed(under_test).await];
    assert_eq!(halves.remove_marks(&[told, MessageId::new()]).await.expect("remove_marks"), 1);
    assert_eq!(halves.remove_marks(&[told]).await.expect("remove_marks"), 0);
    assert_eq!(halves.remove_marks(&[]).await.expect("remove_marks"), 0);
    assert_eq!(halves.marked(&[]).await.expect("marked"), []);
    assert_eq!(halves.prune_marks(OLD, 10).await.expect("prune"), 0, "they are young");
    under_test.advance(OLD + Duration::from_secs(1)).await;
    let young = committed(under_test).await;
    assert_eq!(halves.prune_marks(OLD, 1).await.expect("prune"), 1);
    assert_eq!(halves.prune_marks(OLD, 10).await.expect("prune"), 1);
    assert_eq!(halves.marked(&[told, old, older, young]).await.expect("marked"), [young]);
}
