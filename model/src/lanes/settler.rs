//! The settler: what is written about rows of the lane.

use super::actions::Action;
use super::bugs::Bug;
use super::message::{Class, Progress, Row, Seen};
use super::state::State;
use super::{Lanes, Policy};
use crate::relay::RelayId;

pub(super) fn offer(state: &State, actions: &mut Vec<Action>) {
    for relay in RelayId::BOTH {
        for (message, it) in state.messages.iter().enumerate() {
            match it.of(relay).progress() {
                Some(Progress::Delivered) => actions.push(Action::Settle { relay, message }),
                Some(Progress::Failed(_)) => {
                    actions.push(Action::NoteFailure { relay, message });
                    if state.faults_left > 0 {
                        actions.push(Action::NoteFails { relay, message });
                    }
                }
                _ => {}
            }
        }
    }
}

/// Names no owner and no fence: the broker has the message, whoever owns its lane.
pub(super) fn settle(state: &mut State, relay: RelayId, message: usize) {
    let it = &mut state.messages[message];
    it.of_mut(relay).entry = None;
    if matches!(it.row, Row::Live | Row::Dead) {
        it.row = Row::Settled;
    }
}

/// One refusal is one for good here, whose treatment is the topic's policy.
pub(super) fn note_failure(model: &Lanes, state: &mut State, relay: RelayId, message: usize) {
    let is_of_relay = state.lane.is_of(relay);
    let it = &mut state.messages[message];
    let Some(entry) = it.of_mut(relay).entry.take() else { return };
    let is_owned = (is_of_relay && entry.held) || model.has(Bug::FailureWithoutFence);
    let gives_up = model.policy == Policy::DeadLetter || model.has(Bug::HoldGivesUp);
    let is_refused = entry.progress == Progress::Failed(Class::Record);
    let is_dead = is_refused && gives_up && is_owned && it.row == Row::Live;
    if is_dead {
        it.row = Row::Dead;
    }
    let known = it.of_mut(relay);
    if known.seen == Seen::Sending {
        known.seen = if is_dead { Seen::No } else { Seen::Blocked };
    }
    if known.seen == Seen::Blocked {
        forget_the_rest_of_the_key(model, state, relay, message);
    }
}

/// It is a failure all the same: its key waits, and only the row does not know.
pub(super) fn note_fails(model: &Lanes, state: &mut State, relay: RelayId, message: usize) {
    state.faults_left -= 1;
    let known = state.messages[message].of_mut(relay);
    known.entry = None;
    if known.seen == Seen::Sending {
        known.seen = Seen::Blocked;
        forget_the_rest_of_the_key(model, state, relay, message);
    }
}

/// What else of the key was kept is read again when it is free.
pub(super) fn forget_the_rest_of_the_key(model: &Lanes, state: &mut State, relay: RelayId, message: usize) {
    if model.has(Bug::FailedKeyGoesOn) {
        return;
    }
    for other in (0..model.keys.len()).filter(|other| model.keys[*other] == model.keys[message]) {
        let known = state.messages[other].of_mut(relay);
        if known.seen == Seen::Waiting {
            known.seen = Seen::No;
        }
    }
}
