//! Checks the protocol of unordered topics, and that the model reaches its goals.

use std::collections::BTreeMap;

use diesel_outbox_model::unordered::actions::Action;
use diesel_outbox_model::unordered::state::State;
use diesel_outbox_model::unordered::{ClaimMode, Unordered};

use super::explore::{Symmetric, assert_covered, assert_holds, assert_reaches_its_goals, name, visit_acyclic};

impl Symmetric for Unordered {
    fn representative(state: &State) -> State {
        state.representative()
    }
}

pub(crate) fn correct(claim_mode: ClaimMode, messages: usize, faults: u8) -> Unordered {
    Unordered { claim_mode, messages, faults, delays: 0, redrives: 0, bug: None, goals: false }
}

/// With a message that may be delayed, and a dead letter that may be redriven.
pub(crate) fn with_delays_and_redrives(claim_mode: ClaimMode, messages: usize, faults: u8) -> Unordered {
    Unordered { delays: 1, redrives: 1, ..correct(claim_mode, messages, faults) }
}

/// The minimum of states shows that the scope was really searched.
fn holds(claim_mode: ClaimMode, messages: usize, faults: u8, states_min: usize) {
    searches(correct(claim_mode, messages, faults), states_min);
}

fn searches(model: Unordered, states_min: usize) {
    let Unordered { claim_mode, messages, faults, delays, redrives, .. } = model;
    let name = format!(
        "unordered, {claim_mode:?}, {messages} messages, {faults} faults, {delays} delayed, {redrives} redriven"
    );
    let states = assert_holds(&name, model);
    assert!(states >= states_min, "only {states} states");
}

#[test]
fn three_messages_and_two_faults_over_locks() {
    holds(ClaimMode::Locked, 3, 2, 10_000_000);
}

#[test]
fn three_messages_and_two_faults_over_leases() {
    holds(ClaimMode::Leased, 3, 2, 5_000_000);
}

#[test]
fn two_messages_and_three_faults() {
    holds(ClaimMode::Locked, 2, 3, 2_000_000);
    holds(ClaimMode::Leased, 2, 3, 1_000_000);
}

#[test]
fn one_message_and_six_faults() {
    holds(ClaimMode::Locked, 1, 6, 100_000);
    holds(ClaimMode::Leased, 1, 6, 50_000);
}

#[test]
fn delayed_and_redriven_messages() {
    for claim_mode in [ClaimMode::Locked, ClaimMode::Leased] {
        searches(with_delays_and_redrives(claim_mode, 2, 2), 200_000);
        searches(Unordered { redrives: 2, ..with_delays_and_redrives(claim_mode, 1, 5) }, 25_000);
    }
}

#[test]
fn every_goal_is_reached() {
    for claim_mode in [ClaimMode::Locked, ClaimMode::Leased] {
        for model in [correct(claim_mode, 2, 3), with_delays_and_redrives(claim_mode, 1, 4)] {
            let model = Unordered { goals: true, ..model };
            assert_reaches_its_goals(&format!("unordered, {claim_mode:?}, goals"), model);
        }
    }
}

#[test]
fn without_a_fault_nothing_is_sent_twice() {
    for claim_mode in [ClaimMode::Locked, ClaimMode::Leased] {
        visit_acyclic(&correct(claim_mode, 3, 0), |state, _| {
            let is_fine = state.messages.iter().all(|message| message.copies < 2 && !message.duplicate_allowed);
            assert!(is_fine, "{state:#?}");
        });
    }
}

/// Searches each scope above, with one fault less.
#[test]
fn no_run_has_a_cycle_and_every_step_is_taken() {
    let mut taken: BTreeMap<String, Action> = BTreeMap::new();
    for claim_mode in [ClaimMode::Locked, ClaimMode::Leased] {
        let plain = [correct(claim_mode, 1, 5), correct(claim_mode, 2, 2), correct(claim_mode, 3, 1)];
        let whole = [
            with_delays_and_redrives(claim_mode, 2, 1),
            Unordered { redrives: 2, ..with_delays_and_redrives(claim_mode, 1, 4) },
        ];
        for model in plain.into_iter().chain(whole) {
            visit_acyclic(&model, |_, actions| {
                taken.extend(actions.iter().map(|action| (name(action), *action)));
            });
        }
    }
    assert_covered(
        include_str!("../../src/unordered/actions.rs"),
        taken.iter().map(|(name, action)| (name.as_str(), action.mirrors())),
    );
}
