//! Checks the protocol of ordered topics, and that the model reaches its goals.

use std::collections::BTreeMap;

use diesel_outbox_model::lanes::actions::Action;
use diesel_outbox_model::lanes::state::State;
use diesel_outbox_model::lanes::{Lanes, Policy};

use super::explore::{Symmetric, assert_covered, assert_holds, assert_reaches_its_goals, name, visit_acyclic};

impl Symmetric for Lanes {
    fn representative(state: &State) -> State {
        state.representative()
    }
}

pub(crate) const ONE_KEY: &[u8] = &[0, 0, 0];
pub(crate) const TWO_KEYS: &[u8] = &[0, 1, 0];

pub(crate) fn correct(keys: &'static [u8], policy: Policy, faults: u8, moves: u8) -> Lanes {
    Lanes { keys, policy, faults, moves, bug: None, goals: false }
}

/// The minimum of states shows that the scope was really searched.
fn holds(keys: &'static [u8], policy: Policy, faults: u8, moves: u8, states_min: usize) {
    let name = format!("lanes, {policy:?}, keys {keys:?}, {faults} faults, {moves} moves");
    let states = assert_holds(&name, correct(keys, policy, faults, moves));
    assert!(states >= states_min, "only {states} states");
}

#[test]
fn three_messages_of_one_key() {
    for policy in [Policy::BlockKey, Policy::DeadLetter] {
        holds(ONE_KEY, policy, 2, 1, 100_000);
    }
}

#[test]
fn three_messages_of_two_keys() {
    for policy in [Policy::BlockKey, Policy::DeadLetter] {
        holds(TWO_KEYS, policy, 2, 1, 100_000);
    }
}

#[test]
fn two_messages_of_one_key_and_more_faults() {
    for policy in [Policy::BlockKey, Policy::DeadLetter] {
        holds(&ONE_KEY[..2], policy, 3, 2, 100_000);
    }
}

#[test]
fn every_goal_is_reached() {
    for policy in [Policy::BlockKey, Policy::DeadLetter] {
        let model = Lanes { goals: true, ..correct(TWO_KEYS, policy, 2, 1) };
        assert_reaches_its_goals(&format!("lanes, {policy:?}, goals"), model);
    }
}

#[test]
fn without_a_fault_nothing_is_sent_twice() {
    for keys in [ONE_KEY, TWO_KEYS] {
        visit_acyclic(&correct(keys, Policy::BlockKey, 0, 2), |state, _| {
            let is_fine = state.messages.iter().all(|message| message.copies < 2 && !message.duplicate_allowed);
            assert!(is_fine, "{state:#?}");
        });
    }
}

/// Searches each scope above, with one fault less, and one with a single message.
#[test]
fn no_run_has_a_cycle_and_every_step_is_taken() {
    let mut taken: BTreeMap<String, Action> = BTreeMap::new();
    for (keys, faults, moves) in [(&ONE_KEY[..1], 3, 2), (&ONE_KEY[..2], 2, 2), (ONE_KEY, 1, 1), (TWO_KEYS, 1, 1)] {
        for policy in [Policy::BlockKey, Policy::DeadLetter] {
            visit_acyclic(&correct(keys, policy, faults, moves), |_, actions| {
                taken.extend(actions.iter().map(|action| (name(action), *action)));
            });
        }
    }
    assert_covered(
        include_str!("../../src/lanes/actions.rs"),
        taken.iter().map(|(name, action)| (name.as_str(), action.mirrors())),
    );
}
