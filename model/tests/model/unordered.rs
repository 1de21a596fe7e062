//! The protocol of unordered topics keeps its promises, and the model does what it is about.

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
    Unordered { term, messages, faults, bug: None, goals: false }
}

/// Beyond counts that only a scope that was really searched has.
fn holds(term: Term, messages: usize, faults: u8, states_min: usize) {
    let name = format!("unordered, {term:?}, {messages} messages, {faults} faults");
    let states = assert_holds(&name, correct(term, messages, faults));
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
fn everything_it_is_about_happens() {
    for term in [Term::Locked, Term::Leased] {
        let model = Unordered { goals: true, ..correct(term, 2, 3) };
        assert_reaches_its_goals(&format!("unordered, {term:?}, goals"), model);
    }
}

#[test]
fn without_a_fault_nothing_is_sent_twice() {
    for term in [Term::Locked, Term::Leased] {
        visit_acyclic(&correct(term, 3, 0), |state, _| {
            let is_fine = state.messages.iter().all(|message| message.copies < 2 && !message.excused);
            assert!(is_fine, "{state:#?}");
        });
    }
}

#[test]
fn no_run_comes_back_and_every_step_is_taken() {
    let mut taken: BTreeMap<String, Action> = BTreeMap::new();
    for (messages, faults) in [(1, 4), (2, 2), (3, 1)] {
        for term in [Term::Locked, Term::Leased] {
            visit_acyclic(&correct(term, messages, faults), |_, actions| {
                taken.extend(actions.iter().map(|action| (name(action), *action)));
            });
        }
    }
    assert_covered(
        include_str!("../../src/unordered/actions.rs"),
        taken.iter().map(|(name, action)| (name.as_str(), action.mirrors())),
    );
}
