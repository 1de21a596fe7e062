//! One message at a time, on one node.

use diesel_outbox::MessageId;
use diesel_outbox::inbox::{Claim, InboxError, InboxKey, Once};

use super::on_each_database;
use crate::inbox::inbox;
use crate::inbox::node::{Failed, NEVER, Node, Place};

on_each_database! {
    each_message_is_handled_once,
    a_failed_handler_leaves_nothing,
    an_outer_rollback_undoes_the_claim,
    consumers_do_not_see_each_other,
    ids_of_every_kind_are_recognised,
    a_claim_needs_a_transaction,
    a_claim_of_its_own_transaction_is_a_duplicate,
    a_lost_connection_frees_its_claims,
    a_missing_start_is_an_error,
}

fn each_message_is_handled_once<N: Node>() {
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    let (mut node, key) = (place.node(), MessageId::new().into());
    assert_eq!(node.once(&inbox, key, NEVER).expect("once"), Once::Done(()));
    for mut node in [node, place.node()] {
        assert_eq!(node.once(&inbox, key, NEVER).expect("once"), Once::Duplicate);
    }
    assert_eq!(place.effects(key), 1);
}

fn a_failed_handler_leaves_nothing<N: Node>() {
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    let (mut node, key) = (place.node(), MessageId::new().into());
    let failed = node.once(&inbox, key, &|_| true).expect_err("it fails");
    assert!(matches!(failed, Failed::OnPurpose), "{failed}");
    assert_eq!((place.effects(key), place.entries()), (0, 0));
    assert_eq!(node.once(&inbox, key, NEVER).expect("once"), Once::Done(()));
    assert_eq!(place.effects(key), 1);
}

fn an_outer_rollback_undoes_the_claim<N: Node>() {
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    let (mut node, key) = (place.node(), MessageId::new().into());
    node.begin();
    assert_eq!(node.once(&inbox, key, NEVER).expect("in a savepoint"), Once::Done(()));
    let failed = node.once(&inbox, MessageId::new().into(), &|_| true).expect_err("it fails");
    assert!(matches!(failed, Failed::OnPurpose), "{failed}");
    node.roll_back();
    assert_eq!((place.effects(key), place.entries()), (0, 0));
    node.begin();
    assert_eq!(node.once(&inbox, key, NEVER).expect("in a savepoint"), Once::Done(()));
    node.once(&inbox, MessageId::new().into(), &|_| true).expect_err("it fails");
    node.commit().expect("commit");
    assert_eq!((place.effects(key), place.entries()), (1, 1), "the failed one left its savepoint only");
}

fn consumers_do_not_see_each_other<N: Node>() {
    let (billing, shipping) = (inbox("billing"), inbox("shipping"));
    let Some(place) = Place::<N>::fresh(&billing) else { return };
    let (mut node, key) = (place.node(), MessageId::new().into());
    for inbox in [&billing, &shipping] {
        assert_eq!(node.once(inbox, key, NEVER).expect("once"), Once::Done(()));
        assert_eq!(node.once(inbox, key, NEVER).expect("once"), Once::Duplicate);
    }
    node.prune(&shipping).expect("prune");
    let names = node.texts("SELECT name FROM outbox_inbox_consumers ORDER BY name");
    assert_eq!(names, ["billing", "shipping"], "an operator can tell whose entries are whose");
}

fn ids_of_every_kind_are_recognised<N: Node>() {
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    let mut node = place.node();
    let random = uuid::Uuid::from_u128(0x67e5_5044_10b1_426f_9247_bb68_0e5f_e0c8);
    let keys = [
        MessageId::new().into(),
        random.into(),
        InboxKey::of_text("order-17"),
        InboxKey::of_offset("orders", 3, 17),
        InboxKey::of_offset("orders", 3, 18),
        InboxKey::of_text("order-17").dated(std::time::SystemTime::UNIX_EPOCH),
    ];
    for key in keys {
        assert_eq!(node.once(&inbox, key, NEVER).expect("once"), Once::Done(()), "{key}");
        assert_eq!(node.once(&inbox, key, NEVER).expect("once"), Once::Duplicate, "{key}");
    }
}

fn a_claim_needs_a_transaction<N: Node>() {
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    let (mut node, key) = (place.node(), MessageId::new().into());
    for refused in [node.claim(&inbox, key).map(drop), node.claim_many(&inbox, &[key]).map(drop)] {
        let error = refused.expect_err("outside a transaction");
        assert!(matches!(error, InboxError::NotInTransaction { .. }), "{error}");
    }
    node.begin();
    for refused in [node.prune(&inbox).map(drop), node.once_many(&inbox, &[key], NEVER).map(drop)] {
        let error = refused.expect_err("inside a transaction");
        assert!(matches!(error, InboxError::InTransaction { .. }), "{error}");
    }
    node.roll_back();
    assert_eq!(place.entries(), 0);
}

fn a_claim_of_its_own_transaction_is_a_duplicate<N: Node>() {
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    let (mut node, key) = (place.node(), MessageId::new().into());
    node.begin();
    assert_eq!(node.claim(&inbox, key).expect("claim"), Claim::New);
    assert_eq!(node.claim(&inbox, key).expect("claim"), Claim::Duplicate);
    node.commit().expect("commit");
    node.begin();
    assert_eq!(node.claim(&inbox, key).expect("claim"), Claim::Duplicate);
    node.roll_back();
}

/// A process that is killed between claim and COMMIT.
fn a_lost_connection_frees_its_claims<N: Node>() {
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    let (mut node, key) = (place.node(), MessageId::new().into());
    node.begin();
    assert_eq!(node.claim(&inbox, key).expect("claim"), Claim::New);
    drop(node);
    assert_eq!(place.node().once(&inbox, key, NEVER).expect("once"), Once::Done(()));
    assert_eq!(place.effects(key), 1);
}

/// Without it nobody knows what was removed.
fn a_missing_start_is_an_error<N: Node>() {
    use crate::inbox::node::Database;
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    let mut node = place.node();
    if N::DATABASE == Database::Postgres {
        return; // A sequence cannot be empty.
    }
    node.run("DELETE FROM outbox_inbox_start").expect("delete");
    let failed = node.once(&inbox, MessageId::new().into(), NEVER).expect_err("no start");
    assert!(matches!(failed, Failed::Inbox(InboxError::StartMissing { .. })), "{failed}");
    let error = node.prune(&inbox).expect_err("no start");
    assert!(matches!(error, InboxError::StartMissing { .. }), "{error}");
    assert_eq!(place.entries(), 0);
}
