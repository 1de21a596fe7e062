//! What is removed, and what is refused.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::SystemTime;

use diesel_outbox::MessageId;
use diesel_outbox::inbox::{Claim, Inbox, InboxError, InboxKey, Once};

use super::on_each_database;
use crate::inbox::inbox;
use crate::inbox::node::{Database, Failed, NEVER, Node, Place, key_of};

const DAY_MS: i64 = 24 * 3_600 * 1_000;

on_each_database! {
    what_is_too_old_is_refused_from_one_millisecond_to_the_next,
    nothing_is_refused_before_the_first_prune,
    a_start_that_moves_between_two_claims_is_seen,
    a_prune_removes_what_is_refused_and_no_more,
    a_prune_is_bounded,
    the_longest_retention_counts_and_the_start_never_goes_back,
    messages_from_the_future_are_recognised,
    copies_that_arrive_during_a_prune_are_not_handled_again,
    a_claim_that_waited_for_a_prune_is_refused,
    a_batch_that_waited_for_a_prune_is_refused,
}

fn too_old<T: std::fmt::Debug>(outcome: Result<T, Failed>) -> bool {
    matches!(outcome, Err(Failed::Inbox(InboxError::TooOld { .. })))
}

/// The start behind a prune, which is the beginning of a day.
fn pruned<N: Node>(place: &Place<N>, inbox: &Inbox) -> i64 {
    while place.node().prune(inbox).expect("prune").has_more {}
    let kept_from = place.kept_from();
    assert!(kept_from > 0 && kept_from % DAY_MS == 0, "{kept_from}");
    kept_from
}

fn what_is_too_old_is_refused_from_one_millisecond_to_the_next<N: Node>() {
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    let kept_from = pruned(&place, &inbox);
    let (mut node, last) = (place.node(), key_of(kept_from, "last"));
    let Err(Failed::Inbox(error)) = node.once(&inbox, key_of(kept_from - 1, "old"), NEVER) else {
        panic!("it should be refused")
    };
    let InboxError::TooOld { consumer, kept_from: from, .. } = &error else { panic!("{error}") };
    let since = from.duration_since(std::time::SystemTime::UNIX_EPOCH).expect("after 1970");
    assert_eq!((consumer.as_str(), since.as_millis()), ("billing", u128::from(kept_from.unsigned_abs())));
    assert!(error.to_string().contains("T00:00:00.000Z"), "{error}");
    assert_eq!((place.number("count(*)", "effects"), place.entries()), (0, 0));
    assert_eq!(node.once(&inbox, last, NEVER).expect("once"), Once::Done(()));
    assert_eq!(node.once(&inbox, last, NEVER).expect("once"), Once::Duplicate);
    assert_eq!(node.once(&inbox, InboxKey::of_text("no age"), NEVER).expect("once"), Once::Done(()));
}

fn nothing_is_refused_before_the_first_prune<N: Node>() {
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    let (mut node, key) = (place.node(), key_of(1, "of 1970"));
    assert_eq!(node.once(&inbox, key, NEVER).expect("once"), Once::Done(()));
    assert_eq!(node.once(&inbox, key, NEVER).expect("once"), Once::Duplicate);
}

/// The first claim has seen where the start was.
fn a_start_that_moves_between_two_claims_is_seen<N: Node>() {
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    let (mut node, first) = (place.node(), InboxKey::from(MessageId::new()));
    assert_eq!(node.once(&inbox, first, NEVER).expect("once"), Once::Done(()));
    let made_at = first.created_at().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok()).expect("a time");
    place.set_kept_from(made_at.as_millis() as i64 + DAY_MS);
    for _ in 0..2 {
        assert!(too_old(node.once(&inbox, MessageId::new().into(), NEVER)));
    }
    assert_eq!((place.number("count(*)", "effects"), place.entries()), (1, 1));
    node.begin();
    assert!(matches!(node.claim(&inbox, MessageId::new().into()), Err(InboxError::TooOld { .. })));
    node.roll_back();
    place.set_kept_from(0);
    assert_eq!(node.once(&inbox, MessageId::new().into(), NEVER).expect("once"), Once::Done(()));
}

fn a_prune_removes_what_is_refused_and_no_more<N: Node>() {
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    // Where the start will be: a prune without entries says it.
    let kept_from = pruned(&place, &inbox);
    place.set_kept_from(0);
    let old = [key_of(1, "a"), key_of(kept_from - 30 * DAY_MS, "b"), key_of(kept_from - 1, "c")];
    let kept =
        [key_of(kept_from, "d"), MessageId::new().into(), InboxKey::of_text("e"), InboxKey::of_offset("f", 0, 0)];
    let mut node = place.node();
    for key in old.iter().chain(&kept) {
        assert_eq!(node.once(&inbox, *key, NEVER).expect("once"), Once::Done(()));
    }
    assert_eq!(pruned(&place, &inbox), kept_from, "unless midnight passed just now: run it again");
    assert_eq!(place.entries(), 4);
    for key in old {
        assert!(too_old(node.once(&inbox, key, NEVER)), "{key} was handled, and nobody knows any more");
    }
    for key in kept {
        assert_eq!(node.once(&inbox, key, NEVER).expect("once"), Once::Duplicate);
    }
    assert_eq!(place.number("count(*)", "effects"), 7);
}

fn a_prune_is_bounded<N: Node>() {
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    let mut node = place.node();
    let keys: Vec<InboxKey> = (0..1_500).map(|at| key_of(at, "old")).collect();
    node.begin();
    node.claim_many(&inbox, &keys).expect("claim");
    node.commit().expect("commit");
    let first = node.prune(&inbox).expect("prune");
    assert_eq!((first.entries, first.has_more, place.entries()), (1_000, true, 500));
    let second = node.prune(&inbox).expect("prune");
    assert_eq!((second.entries, second.has_more, place.entries()), (500, false, 0));
}

fn the_longest_retention_counts_and_the_start_never_goes_back<N: Node>() {
    let (short, long) = (inbox("billing"), Inbox::builder("audit").keep_days(30).build().expect("build"));
    let Some(place) = Place::<N>::fresh(&short) else { return };
    place.node().migrate(&long);
    let of_long = pruned(&place, &short);
    place.node().run("DELETE FROM outbox_inbox_consumers WHERE name = 'audit'").expect("a consumer that is gone");
    let of_short = pruned(&place, &short);
    assert_eq!(of_short - of_long, 16 * DAY_MS, "unless midnight passed just now: run it again");
    // What was removed does not come back with a longer retention.
    assert_eq!(pruned(&place, &long), of_short);
    assert!(too_old(place.node().once(&long, key_of(of_short - 1, "a"), NEVER)));
}

/// Of a producer with a fast clock.
fn messages_from_the_future_are_recognised<N: Node>() {
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    let kept_from = pruned(&place, &inbox);
    let mut node = place.node();
    for days in [15, 17, 40, 36_500] {
        let key = key_of(kept_from + days * DAY_MS, "early");
        assert_eq!(node.once(&inbox, key, NEVER).expect("once"), Once::Done(()));
        pruned(&place, &inbox);
        assert_eq!(node.once(&inbox, key, NEVER).expect("once"), Once::Duplicate, "{days} days behind the start");
    }
}

fn copies_that_arrive_during_a_prune_are_not_handled_again<N: Node>() {
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    let keys: Vec<InboxKey> = (0..4_000).map(|at| key_of(at * 1_000_000, "old")).collect();
    let mut node = place.node();
    node.begin();
    node.claim_many(&inbox, &keys).expect("claim");
    node.commit().expect("commit");
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut node = place.node();
                while !has_ended.load(Ordering::Relaxed) {
                    let key = keys[fastrand::usize(..keys.len())];
                    match node.once(&inbox, key, NEVER) {
                        Ok(Once::Done(())) => panic!("{key} was handled before"),
                        Ok(Once::Duplicate) | Err(Failed::Inbox(InboxError::TooOld { .. })) => {}
                        Err(failed) => panic!("{failed}"),
                    }
                }
            });
        }
        pruned(&place, &inbox);
        has_ended.store(true, Ordering::Relaxed);
    });
    assert_eq!((place.entries(), place.number("count(*)", "effects")), (0, 0));
}

/// The claim begins before the start moves, finds the entry of the first copy locked by the prune, and goes on without it.
fn claim_behind_prune<N: Node>(keys: &[InboxKey]) -> Option<Result<Vec<Claim>, InboxError>> {
    let inbox = inbox("billing");
    let place = Place::<N>::fresh(&inbox)?;
    if N::DATABASE == Database::Sqlite {
        return None; // It has one writer at a time.
    }
    let (mut node, removed) = (place.node(), keys[keys.len() - 1]);
    node.once(&inbox, removed, NEVER).expect("once");
    node.begin();
    node.run("DELETE FROM outbox_inbox").expect("remove");
    Some(thread::scope(|scope| {
        let claim = scope.spawn(|| {
            let mut node = place.node();
            node.begin();
            let claims = node.claim_many(&inbox, keys);
            node.roll_back();
            claims
        });
        place.until_waiting(1);
        place.set_kept_from(10 * DAY_MS);
        node.commit().expect("commit");
        claim.join().expect("no panic")
    }))
}

fn a_claim_that_waited_for_a_prune_is_refused<N: Node>() {
    let Some(claims) = claim_behind_prune::<N>(&[key_of(10 * DAY_MS - 1, "a")]) else { return };
    assert!(matches!(claims, Err(InboxError::TooOld { .. })), "{claims:?}");
}

/// The first of its keys does not wait.
fn a_batch_that_waited_for_a_prune_is_refused<N: Node>() {
    let keys = [key_of(DAY_MS, "a"), key_of(2 * DAY_MS, "b"), key_of(10 * DAY_MS - 1, "c")];
    let Some(claims) = claim_behind_prune::<N>(&keys) else { return };
    assert!(matches!(claims, Err(InboxError::TooOld { .. })), "{claims:?}");
    // Of keys that are kept nothing is refused.
    let keys = [key_of(11 * DAY_MS, "a"), key_of(12 * DAY_MS, "b")];
    let claims = claim_behind_prune::<N>(&keys).expect("a place").expect("claim");
    assert_eq!(claims, [Claim::New; 2]);
}
