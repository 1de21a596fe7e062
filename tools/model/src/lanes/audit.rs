//! Checks each step by comparing the states before and after it, whatever the step claims to do.

use super::Lanes;
use super::actions::Action;
use super::message::{Message, Row, Stray};
use super::state::{Breach, State};
use crate::relay::RelayId;

pub(super) fn audit(model: &Lanes, before: &State, after: &mut State, action: &Action) {
    let found = inverted(before, after)
        .or_else(|| written(before, after, action))
        .or_else(|| sent(before, action).filter(|_| is_sent(before, after, action)))
        .or_else(|| dead_lettered(model, before, after));
    after.breach = after.breach.or(found);
}

/// A first copy before one that should have come first. A dead letter is not waited for. A message whose transaction
/// took longer than the slack is found late.
fn inverted(before: &State, after: &State) -> Option<Breach> {
    let appears = |message: &usize| before.messages[*message].copies == 0 && after.messages[*message].copies > 0;
    let is_missed = |(other, it): (usize, &Message), predecessors: u8| {
        predecessors & (1 << other) != 0 && it.copies == 0 && it.row == Row::Live && !it.exceeds_slack
    };
    let first = (0..after.messages.len()).filter(appears);
    let mut predecessors = first.map(|message| after.messages[message].predecessors);
    predecessors
        .any(|predecessors| after.messages.iter().enumerate().any(|it| is_missed(it, predecessors)))
        .then_some(Breach::Inverted)
}

fn written(before: &State, after: &State, action: &Action) -> Option<Breach> {
    let Action::RecordFailure { relay, message } = *action else { return None };
    let is_changed = before.messages[message].row != after.messages[message].row;
    let is_held = before.messages[message].of(relay).entry.is_some_and(|entry| entry.is_current);
    (is_changed && !(is_held && before.lane.is_of(relay))).then_some(Breach::ForeignFence)
}

fn is_sent(before: &State, after: &State, action: &Action) -> bool {
    let Action::Send { relay, message } = *action else { return false };
    let entry = |state: &State| state.messages[message].of(relay).entry;
    entry(before) != entry(after)
}

fn sent(before: &State, action: &Action) -> Option<Breach> {
    let Action::Send { relay, .. } = *action else { return None };
    let other: RelayId = relay.other();
    let is_beside = |it: &Message| it.of(other).is_still_in_flight() || it.stray == Some(Stray::Orphaned);
    before.messages.iter().any(is_beside).then_some(Breach::SentConcurrently)
}

fn dead_lettered(model: &Lanes, before: &State, after: &State) -> Option<Breach> {
    let holds = model.policy == super::Policy::BlockKey;
    let is_dead_lettered =
        before.messages.iter().zip(&after.messages).any(|(was, is)| was.row != is.row && is.row == Row::DeadLetter);
    (holds && is_dead_lettered).then_some(Breach::DeadLettered)
}
