//! Several messages in one statement.

use diesel_outbox::MessageId;
use diesel_outbox::inbox::{Claim, InboxError, InboxKey, Once};

use super::on_each_database;
use crate::inbox::inbox;
use crate::inbox::node::{Failed, NEVER, Node, Place, key_of};

on_each_database! {
    a_batch_handles_what_is_new,
    a_repeated_id_is_new_once,
    a_failing_batch_goes_one_by_one,
    one_old_message_does_not_hold_up_its_batch,
    a_batch_may_have_any_size,
}

fn keys(count: usize) -> Vec<InboxKey> {
    // In no order, as they arrive from several partitions.
    let mut keys: Vec<InboxKey> = (0..count).map(|_| MessageId::new().into()).collect();
    fastrand::shuffle(&mut keys);
    keys
}

fn handled(outcomes: Vec<Result<Once<()>, Failed>>) -> Vec<Option<Once<()>>> {
    outcomes.into_iter().map(Result::ok).collect()
}

fn a_batch_handles_what_is_new<N: Node>() {
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    let (mut node, keys) = (place.node(), keys(5));
    for key in [keys[1], keys[3]] {
        node.once(&inbox, key, NEVER).expect("once");
    }
    let (done, duplicate) = (Some(Once::Done(())), Some(Once::Duplicate));
    let outcomes = node.once_many(&inbox, &keys, NEVER).expect("a batch");
    assert_eq!(handled(outcomes), [done, duplicate, done, duplicate, done]);
    let outcomes = node.once_many(&inbox, &keys, &|_| panic!("nothing is new")).expect("a batch");
    assert_eq!(handled(outcomes), [duplicate; 5]);
    assert_eq!(handled(node.once_many(&inbox, &[], NEVER).expect("a batch")), []);
    assert_eq!(keys.map_effects(&place), [1; 5]);
}

fn a_repeated_id_is_new_once<N: Node>() {
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    let (mut node, key, other) = (place.node(), MessageId::new().into(), MessageId::new().into());
    node.begin();
    let claims = node.claim_many(&inbox, &[key, other, key]).expect("claim");
    assert_eq!(claims, [Claim::New, Claim::New, Claim::Duplicate]);
    let claims = node.claim_many(&inbox, &[other, key]).expect("claim");
    assert_eq!(claims, [Claim::Duplicate; 2]);
    assert_eq!(node.claim_many(&inbox, &[]).expect("claim"), []);
    node.commit().expect("commit");
}

fn a_failing_batch_goes_one_by_one<N: Node>() {
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    let (mut node, keys) = (place.node(), keys(4));
    let bad = keys[2];
    let outcomes = node.once_many(&inbox, &keys, &|key| *key == bad).expect("a batch");
    let done = Some(Once::Done(()));
    assert_eq!(handled(outcomes), [done, done, None, done]);
    assert_eq!(keys.map_effects(&place), [1, 1, 0, 1]);
    assert_eq!(node.once(&inbox, bad, NEVER).expect("once"), Once::Done(()));
}

fn one_old_message_does_not_hold_up_its_batch<N: Node>() {
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    node_prunes(&place, &inbox);
    let (mut node, mut keys) = (place.node(), keys(3));
    keys[1] = key_of(place.kept_from() - 1, "old");
    node.begin();
    let error = node.claim_many(&inbox, &keys).expect_err("one is too old");
    assert!(matches!(&error, InboxError::TooOld { key, .. } if *key == keys[1]), "{error}");
    node.roll_back();
    let outcomes = node.once_many(&inbox, &keys, NEVER).expect("a batch");
    assert!(matches!(outcomes[1], Err(Failed::Inbox(InboxError::TooOld { .. }))), "{outcomes:?}");
    assert_eq!(keys.map_effects(&place), [1, 0, 1]);
}

fn node_prunes<N: Node>(place: &Place<N>, inbox: &diesel_outbox::inbox::Inbox) {
    place.node().prune(inbox).expect("prune");
}

/// More than one statement takes.
fn a_batch_may_have_any_size<N: Node>() {
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    let (mut node, keys) = (place.node(), keys(2_345));
    for expected in [Claim::New, Claim::Duplicate] {
        node.begin();
        let claims = node.claim_many(&inbox, &keys).expect("claim");
        assert!(claims.len() == keys.len() && claims.iter().all(|claim| *claim == expected), "{expected:?}");
        node.commit().expect("commit");
    }
    assert_eq!(place.entries(), 2_345);
}

trait Effects {
    fn map_effects<N: Node>(&self, place: &Place<N>) -> Vec<i64>;
}

impl Effects for Vec<InboxKey> {
    fn map_effects<N: Node>(&self, place: &Place<N>) -> Vec<i64> {
        self.iter().map(|key| place.effects(*key)).collect()
    }
}
