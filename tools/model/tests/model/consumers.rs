//! Checks the protocol of consumers, and that the model reaches its goals.

use std::collections::{BTreeMap, BTreeSet};

use diesel_outbox_model::consumers::actions::Action;
use diesel_outbox_model::consumers::job::Step;
use diesel_outbox_model::consumers::state::State;
use diesel_outbox_model::consumers::{Consumers, LogRecord, Progress};
use stateright::Model as _;

use super::explore::{Symmetric, assert_covered, assert_holds, assert_reaches_its_goals, name, visit_acyclic};

impl Symmetric for Consumers {
    fn representative(state: &State) -> State {
        state.representative()
    }
}

pub(crate) const ALL: [Progress; 3] = [Progress::Inbox, Progress::Offsets, Progress::InboxAndOffsets];

const fn record(partition: usize, key: u8, message: u8) -> LogRecord {
    LogRecord { partition, key, message }
}

/// Two messages of one key.
pub(crate) const TWO: &[LogRecord] = &[record(0, 0, 0), record(0, 0, 1)];
/// Two messages of one key, and a copy of the first.
pub(crate) const COPY: &[LogRecord] = &[record(0, 0, 0), record(0, 0, 1), record(0, 0, 0)];
/// Three messages of two keys.
pub(crate) const KEYS: &[LogRecord] = &[record(0, 0, 0), record(0, 1, 1), record(0, 0, 2)];
/// Two messages of two keys, and a copy of the first.
pub(crate) const KEYS_AND_COPY: &[LogRecord] = &[record(0, 0, 0), record(0, 1, 1), record(0, 0, 0)];
/// Three messages of two keys, and a copy of the first.
pub(crate) const FOUR: &[LogRecord] = &[record(0, 0, 0), record(0, 1, 1), record(0, 0, 0), record(0, 1, 2)];
/// Two messages of one key, and a copy of the first in another partition.
pub(crate) const SPREAD_BEHIND: &[LogRecord] = &[record(0, 0, 0), record(0, 0, 1), record(1, 0, 0)];
/// A message, and a copy in another partition.
pub(crate) const SPREAD: &[LogRecord] = &[record(0, 0, 0), record(1, 0, 0)];

pub(crate) fn correct(progress: Progress, log: &'static [LogRecord], faults: u8, moves: u8) -> Consumers {
    Consumers { progress, log, faults, moves, ages: 0, bug: None, goals: false }
}

/// The same, and the inbox's start may pass as many messages.
pub(crate) fn aging(progress: Progress, log: &'static [LogRecord], faults: u8, moves: u8, ages: u8) -> Consumers {
    Consumers { ages, ..correct(progress, log, faults, moves) }
}

/// The minimum of states shows that the scope was really searched.
#[track_caller]
fn holds(model: Consumers, states_min: usize) {
    let Consumers { progress, log, faults, moves, ages, .. } = model;
    let records: Vec<_> = log.iter().map(|of| (of.partition, of.key, of.message)).collect();
    let name = format!("consumers, {progress:?}, log {records:?}, {faults} faults, {moves} moves, {ages} ages");
    let states = assert_holds(&name, model);
    assert!(states >= states_min, "only {states} states");
}

#[test]
fn three_records_of_two_keys() {
    for progress in ALL {
        holds(correct(progress, KEYS, 2, 1), 30_000);
    }
}

#[test]
fn four_records_of_two_keys_and_a_copy() {
    for progress in ALL {
        holds(correct(progress, FOUR, 1, 1), 10_000);
    }
}

#[test]
fn a_copy_behind_other_records() {
    for progress in ALL {
        holds(correct(progress, COPY, 2, 2), 10_000);
    }
}

#[test]
fn a_copy_in_another_partition() {
    for progress in ALL {
        holds(correct(progress, SPREAD, 2, 1), 200_000);
        holds(correct(progress, SPREAD_BEHIND, 1, 1), 10_000);
    }
}

#[test]
fn two_records_and_more_faults() {
    for progress in ALL {
        holds(correct(progress, TWO, 4, 2), 50_000);
    }
}

#[test]
fn messages_that_grow_too_old() {
    for progress in [Progress::Inbox, Progress::InboxAndOffsets] {
        holds(aging(progress, COPY, 2, 1, 1), 50_000);
        holds(aging(progress, SPREAD, 1, 1, 1), 50_000);
    }
}

#[test]
fn every_goal_is_reached() {
    for progress in ALL {
        let model = Consumers { goals: true, ..correct(progress, KEYS_AND_COPY, 2, 1) };
        assert_reaches_its_goals(&format!("consumers, {progress:?}, goals"), model);
    }
    for progress in [Progress::Inbox, Progress::InboxAndOffsets] {
        let model = Consumers { goals: true, ..aging(progress, KEYS_AND_COPY, 2, 1, 1) };
        assert_reaches_its_goals(&format!("consumers, {progress:?}, goals of messages that grow old"), model);
    }
}

/// A member without the partition still commits, so the next owner reads again what is processed.
#[test]
fn the_brokers_offset_goes_back() {
    for progress in ALL {
        let model = correct(progress, TWO, 1, 0);
        let mut has_gone_back = false;
        visit_acyclic(&model, |state, actions| {
            let mut next = actions.iter().filter_map(|action| model.next_state(state, *action));
            has_gone_back |= next.any(|next| next.committed[0] < state.committed[0]);
        });
        assert!(has_gone_back, "{progress:?}");
    }
}

/// Read, claimed, handled, COMMIT sent, committed, done, and before and behind the offset.
#[test]
fn a_member_dies_at_every_step() {
    let mut died = BTreeSet::new();
    visit_acyclic(&correct(Progress::Inbox, KEYS, 1, 0), |state, actions| {
        for action in actions {
            let Action::Crash { member } = *action else { continue };
            let Some(open) = state.open(member, 0) else { continue };
            died.extend(state.records[..KEYS.len()].iter().map(|record| step_name(record.of(member))));
            died.insert(if open.next > state.committed[0] { "before the offset" } else { "behind the offset" });
        }
    });
    let all = ["idle", "taken", "claimed", "handled", "committing", "committed", "done"];
    assert_eq!(died, BTreeSet::from(all).union(&["before the offset", "behind the offset"].into()).copied().collect());
}

fn step_name(step: Step) -> &'static str {
    match step {
        Step::Idle => "idle",
        Step::Taken { .. } => "taken",
        Step::Claimed(_) => "claimed",
        Step::Handled(_) => "handled",
        Step::Committing(_) => "committing",
        Step::Committed => "committed",
        Step::Done => "done",
    }
}

/// Searches each scope above, with one fault less.
#[test]
fn no_run_has_a_cycle_and_every_step_is_taken() {
    let mut taken: BTreeMap<String, Action> = BTreeMap::new();
    for progress in ALL {
        let plain = [
            correct(progress, KEYS, 1, 1),
            correct(progress, FOUR, 0, 1),
            correct(progress, COPY, 1, 2),
            correct(progress, SPREAD, 1, 1),
            correct(progress, SPREAD_BEHIND, 0, 1),
            correct(progress, TWO, 3, 2),
            aging(progress, COPY, 1, 1, 1),
            aging(progress, SPREAD, 0, 1, 1),
        ];
        for model in plain {
            visit_acyclic(&model, |_, actions| {
                taken.extend(actions.iter().map(|action| (name(action), *action)));
            });
        }
    }
    assert_covered(
        include_str!("../../src/consumers/actions.rs"),
        taken.iter().map(|(name, action)| (name.as_str(), action.mirrors())),
    );
}
