//! Checks the protocol of unordered topics, and that the model reaches its goals.

use std::collections::BTreeMap;

use diesel_outbox_model::unordered::actions::Action;
use diesel_outbox_model::unordered::state::State;
use diesel_outbox_model::unordered::{Term, Unordered};

use super::explore::{Symmetric, assert_covered, assert_holds, assert_reaches_its_goals, name, visit_acyclic};

impl Symmetric for Unordered {
    fn representative(state: &State) -> State {
        state.representative()
    }
}

pub(crate) fn correct(term: Term, messages: usize, faults: u8) -> Unordered {
    Unordered { term, messages, faults, delays: 0, redrives: 0, bug: None, goals: false }
}

/// With a message that may be delayed, and a dead letter that may be redriven.
pub(crate) fn with_delays_and_redrives(term: Term, messages: usize, faults: u8) -> Unordered {
    Unordered { delays: 1, redrives: 1, ..correct(term, messages, faults) }
}

/// The minimum of states shows that the scope was really searched.
fn holds(term: Term, messages: usize, faults: u8, states_min: usize) {
    searches(correct(term, messages, faults), states_min);
}

fn searches(model: Unordered, states_min: usize) {
    let Unordered { term, messages, faults, delays, redrives, .. } = model;
    let name =
        format!("unordered, {term:?}, {messages} messages, {faults} faults, {delays} delayed, {redrives} redriven");
    let states = assert_holds(&name, model);
    assert!(states >= states_min, "only {states} states");
}

#[test]
fn three_messages_and_two_faults_over_locks() {
    holds(Term::Locked, 3, 2, 10_000_000);
}

#[test]
fn three_messages_and_two_faults_over_leases() {
    holds(Term::Leased, 3, 2, 5_000_000);
}

#[test]
fn two_messages_and_three_faults() {
    holds(Term::Locked, 2, 3, 2_000_000);
    holds(Term::Leased, 2, 3, 1_000_000);
}

#[test]
fn one_message_and_six_faults() {
    holds(Term::Locked, 1, 6, 100_000);
    holds(Term::Leased, 1, 6, 50_000);
}

#[test]
fn delayed_and_redriven_messages() {
    for term in [Term::Locked, Term::Leased] {
        searches(with_delays_and_redrives(term, 2, 2), 200_000);
        searches(Unordered { redrives: 2, ..with_delays_and_redrives(term, 1, 5) }, 25_000);
    }
}

#[test]
fn every_goal_is_reached() {
    for term in [Term::Locked, Term::Leased] {
        for model in [correct(term, 2, 3), with_delays_and_redrives(term, 1, 4)] {
            let model = Unordered { goals: true, ..model };
            assert_reaches_its_goals(&format!("unordered, {term:?}, goals"), model);
        }
    }
}

#[test]
fn without_a_fault_nothing_is_sent_twice() {
    for term in [Term::Locked, Term::Leased] {
        visit_acyclic(&correct(term, 3, 0), |state, _| {
            let is_fine = state.messages.iter().all(|message| message.copies < 2 && !message.duplicate_allowed);
            assert!(is_fine, "{state:#?}");
        });
    }
}

/// Searches each scope above, with one fault less.
#[test]
fn no_run_has_a_cycle_and_every_step_is_taken() {
    let mut taken: BTreeMap<String, Action> = BTreeMap::new();
    for term in [Term::Locked, Term::Leased] {
        let plain = [correct(term, 1, 5), correct(term, 2, 2), correct(term, 3, 1)];
        let whole =
            [with_delays_and_redrives(term, 2, 1), Unordered { redrives: 2, ..with_delays_and_redrives(term, 1, 4) }];
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
