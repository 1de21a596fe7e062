//! Several nodes with the same messages.

use std::thread;

use diesel_outbox::MessageId;
use diesel_outbox::inbox::{Claim, InboxKey, Once};

use super::on_each_database;
use crate::inbox::inbox;
use crate::inbox::node::{Failed, NEVER, Node, Place};

on_each_database! {
    the_second_of_two_nodes_waits_and_sees_a_duplicate,
    the_second_of_two_nodes_handles_what_the_first_gave_up,
    many_nodes_handle_each_message_once,
    failing_handlers_and_batches_under_contention,
}

/// A second node claims while the first one's claim is open; returns the second's outcome.
fn race<N: Node>(place: &Place<N>, key: InboxKey, end: impl FnOnce(&mut N)) -> Once<()> {
    let inbox = inbox("billing");
    let mut first = place.node();
    first.begin();
    assert_eq!(first.claim(&inbox, key).expect("claim"), Claim::New);
    thread::scope(|scope| {
        let second = scope.spawn(|| place.node().once(&inbox, key, NEVER));
        place.until_waiting(1);
        end(&mut first);
        second.join().expect("no panic").expect("once")
    })
}

fn the_second_of_two_nodes_waits_and_sees_a_duplicate<N: Node>() {
    let Some(place) = Place::<N>::fresh(&inbox("billing")) else { return };
    let key = MessageId::new().into();
    assert_eq!(race(&place, key, |first| first.commit().expect("commit")), Once::Duplicate);
    assert_eq!(place.effects(key), 0, "the first one wrote none in this test");
}

fn the_second_of_two_nodes_handles_what_the_first_gave_up<N: Node>() {
    let Some(place) = Place::<N>::fresh(&inbox("billing")) else { return };
    let key = MessageId::new().into();
    assert_eq!(race(&place, key, N::roll_back), Once::Done(()));
    assert_eq!(place.effects(key), 1);
}

fn shuffled(keys: &[InboxKey]) -> Vec<InboxKey> {
    let mut keys = keys.to_vec();
    fastrand::shuffle(&mut keys);
    keys
}

fn many_nodes_handle_each_message_once<N: Node>() {
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    let keys: Vec<InboxKey> = (0..40).map(|_| MessageId::new().into()).collect();
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut node = place.node();
                for key in shuffled(&keys) {
                    node.once(&inbox, key, NEVER).expect("once");
                }
            });
        }
    });
    let once = place.number("count(*)", "(SELECT id FROM effects GROUP BY id HAVING count(*) = 1) e");
    assert_eq!((once, place.number("count(*)", "effects")), (40, 40));
}

/// Handlers fail at random, and the message comes again, alone or in a batch in another order: the effects are as of one node. No claim
/// fails: a deadlock is tried again inside.
fn failing_handlers_and_batches_under_contention<N: Node>() {
    let inbox = inbox("billing");
    let Some(place) = Place::<N>::fresh(&inbox) else { return };
    let keys: Vec<InboxKey> = (0..30).map(|_| MessageId::new().into()).collect();
    let fails = |_: &InboxKey| fastrand::u8(..4) == 0;
    thread::scope(|scope| {
        for batch in [1, 1, 7, 30] {
            let (keys, inbox, place) = (&keys, &inbox, &place);
            scope.spawn(move || {
                let mut node = place.node();
                let mut left = shuffled(keys);
                while !left.is_empty() {
                    let taken = left.split_off(left.len().saturating_sub(batch));
                    let outcomes = match *taken.as_slice() {
                        [key] => vec![node.once(inbox, key, &fails)],
                        _ => node.once_many(inbox, &taken, &fails).expect("a batch"),
                    };
                    for (key, outcome) in taken.iter().zip(outcomes) {
                        match outcome {
                            Ok(Once::Done(()) | Once::Duplicate) => {}
                            Err(Failed::OnPurpose) => left.insert(0, *key),
                            Err(failed) => panic!("{failed}"),
                        }
                    }
                }
            });
        }
    });
    let once = place.number("count(*)", "(SELECT id FROM effects GROUP BY id HAVING count(*) = 1) e");
    assert_eq!((once, place.number("count(*)", "effects")), (30, 30));
}
