//! What becomes of messages that a receiver refuses, for a while and for ever.

use std::collections::BTreeSet;
use std::time::Duration;

use diesel_outbox::Topic;
use diesel_outbox::internals::limits::HTTP_REFUSALS_MAX;
use diesel_outbox::internals::store::InsertOptions;
use diesel_outbox::retry::Fixed;
use diesel_outbox::store::MemoryStore;
use diesel_outbox::transport::{FailureClass, HttpTarget};

use super::relayed::{commit, ids, relay_of, to_http, until};
use super::{DEADLINE, Receiver, Reply, envelope};

const AT_ONCE: Duration = Duration::from_millis(20);

fn waits() -> Fixed {
    Fixed::from(vec![AT_ONCE])
}

/// A wrong deployment answers every request so, and is taken back.
#[tokio::test]
async fn a_receiver_that_refuses_for_a_while_dead_letters_nothing() {
    for status in [400, 409, 413, 415, 422] {
        let (store, receiver) = (MemoryStore::new(), Receiver::start());
        receiver.reply_by(move |_| Some(Reply::Status(status)));
        let committed = commit(&store, 20);
        // Whatever the topic says: its attempts are for what fails otherwise.
        let topic = Topic::new("webhooks").attempts_max(1);
        let (relay, _broker) = relay_of(&store, topic, to_http(&receiver)).await;
        receiver.until_received(1).await;
        until("each refusal is noted, or its topic left alone", || {
            status == 415 || store.live_rows().iter().all(|row| row.attempts > 0)
        })
        .await;
        assert_eq!(store.dead_letter_rows().len(), 0, "dead letters by a minute of {status}");
        receiver.reply_by(|_| None);
        until("everything is settled", || store.live_rows().is_empty()).await;
        assert_eq!((ids(&receiver), store.dead_letter_rows().len()), (committed, 0), "{status}");
        assert!(relay.shutdown(DEADLINE).await.is_clean());
    }
}

/// More refusals than the topic has attempts.
#[tokio::test]
async fn a_message_outlives_refusals_up_to_the_last() {
    let (store, receiver) = (MemoryStore::new(), Receiver::start());
    receiver.reply_next((1..HTTP_REFUSALS_MAX).map(|_| Reply::Status(422)));
    let committed = commit(&store, 1);
    let http = to_http(&receiver).refusal_retries(HTTP_REFUSALS_MAX, waits());
    let (relay, _broker) = relay_of(&store, Topic::new("webhooks"), http).await;
    until("it is settled", || store.live_rows().is_empty()).await;
    assert_eq!((ids(&receiver), store.dead_letter_rows().len()), (committed, 0));
    assert_eq!(receiver.received().len(), HTTP_REFUSALS_MAX as usize);
    assert!(relay.shutdown(DEADLINE).await.is_clean());
}

#[tokio::test]
async fn a_message_refused_to_the_end_is_a_dead_letter_with_its_history() {
    let (store, receiver) = (MemoryStore::new(), Receiver::start());
    let refused = commit(&store, 1);
    let id = refused.first().unwrap().to_string();
    receiver.reply_by(move |received| (received.header("idempotency-key") == Some(&id)).then_some(Reply::Status(422)));
    let healthy = commit(&store, 50);
    let (relay, _broker) =
        relay_of(&store, Topic::new("webhooks"), to_http(&receiver).refusal_retries(4, waits())).await;
    until("everything is settled or dead", || store.live_rows().is_empty()).await;
    let dead = store.dead_letter_rows();
    assert_eq!(dead.iter().map(|dead| dead.key.message_id).collect::<BTreeSet<_>>(), refused);
    assert!(dead[0].reason.starts_with("attempts: ") && dead[0].reason.ends_with("answered 422"), "{dead:?}");
    let history: Vec<&str> = dead[0].errors.iter().map(|error| error.class.as_str()).collect();
    assert_eq!(history, [FailureClass::Record.as_str(); 3], "one for each refusal before the last");
    let received = receiver.received();
    let of_it =
        |received: &&super::Received| refused.contains(&received.header("idempotency-key").unwrap().parse().unwrap());
    assert_eq!(received.iter().filter(of_it).count(), 4);
    assert!(healthy.is_subset(&ids(&receiver)));
    assert!(relay.shutdown(DEADLINE).await.is_clean());
}

/// A status that somebody treats otherwise has nothing of this.
#[tokio::test]
async fn a_status_classified_as_record_uses_the_attempts_of_its_topic() {
    let (store, receiver) = (MemoryStore::new(), Receiver::start());
    receiver.reply_by(|_| Some(Reply::Status(409)));
    commit(&store, 1);
    let target = HttpTarget::new(receiver.url("/")).classify_status(409, FailureClass::Record);
    let topic = Topic::new("webhooks").attempts_max(2).retry(waits());
    let (relay, _broker) = relay_of(&store, topic, to_http(&receiver).default_target(target)).await;
    until("it is dead-lettered", || !store.dead_letter_rows().is_empty()).await;
    assert_eq!(receiver.received().len(), 2);
    assert!(relay.shutdown(DEADLINE).await.is_clean());
}

/// On an ordered topic what is refused holds its key up, and no other.
#[tokio::test]
async fn a_refused_message_of_an_ordered_topic_holds_its_key_until_it_is_taken() {
    let (store, receiver) = (MemoryStore::new(), Receiver::start());
    let insert = |key: &str| {
        let mut message = envelope("webhooks");
        message.key = Some(key.to_owned());
        store.insert(message, InsertOptions::default().in_lane(0)).message_id
    };
    let (head, behind, other) = (insert("a"), insert("a"), insert("b"));
    let id = head.to_string();
    receiver.reply_by(move |received| {
        let attempt = received.header("outbox-attempt").map_or(1, |attempt| attempt.parse().unwrap());
        (received.header("idempotency-key") == Some(&id) && attempt < 4).then_some(Reply::Status(422))
    });
    let topic = Topic::new("webhooks").ordered_by_key().lanes(1);
    let (relay, _broker) = relay_of(&store, topic, to_http(&receiver).refusal_retries(10, waits())).await;
    until("everything is settled", || store.live_rows().is_empty()).await;
    let received = receiver.received();
    let came: Vec<_> =
        received.iter().map(|request| request.header("idempotency-key").unwrap().parse().unwrap()).collect();
    let of_a: Vec<_> = came.iter().copied().filter(|id| *id != other).collect();
    assert_eq!(of_a, [head, head, head, head, behind]);
    assert!(came.contains(&other) && came.last() != Some(&other), "the other key waited: {came:?}");
    assert!(relay.shutdown(DEADLINE).await.is_clean());
}
