//! The settler: writes to rows of the lane.

use super::actions::Action;
use super::bugs::Bug;
use super::message::{Class, LaneRow, Progress, Row};
use super::state::State;
use super::{Lanes, Policy};
use crate::relay::RelayId;

pub(super) fn enabled(state: &State, actions: &mut Vec<Action>) {
    for relay in RelayId::BOTH {
        for (message, it) in state.messages.iter().enumerate() {
            match it.of(relay).progress() {
                Some(Progress::Delivered) => actions.push(Action::Settle { relay, message }),
                Some(Progress::Failed(_)) => {
                    actions.push(Action::RecordFailure { relay, message });
                    if state.faults_left > 0 {
                        actions.push(Action::RecordFailureFails { relay, message });
                    }
                }
                _ => {}
            }
        }
    }
}

/// Uses no owner and no fence: the broker has the message, whoever owns its lane.
pub(super) fn settle(state: &mut State, relay: RelayId, message: usize) {
    let it = &mut state.messages[message];
    it.of_mut(relay).entry = None;
    if matches!(it.row, Row::Live | Row::DeadLetter) {
        it.row = Row::Settled;
    }
}

/// One refusal is final here; the topic's policy decides what follows.
pub(super) fn record_failure(model: &Lanes, state: &mut State, relay: RelayId, message: usize) {
    let is_of_relay = state.lane.is_of(relay);
    let it = &mut state.messages[message];
    let Some(entry) = it.of_mut(relay).entry.take() else { return };
    let is_owned = (is_of_relay && entry.is_current) || model.has(Bug::FailureWithoutFence);
    let gives_up = model.policy == Policy::DeadLetter || model.has(Bug::DeadLettersHeldKey);
    let is_refused = entry.progress == Progress::Failed(Class::Record);
    let is_dead = is_refused && gives_up && is_owned && it.row == Row::Live;
    if is_dead {
        it.row = Row::DeadLetter;
    }
    let view = it.of_mut(relay);
    if view.lane_row == LaneRow::Sending {
        view.lane_row = if is_dead { LaneRow::No } else { LaneRow::Blocked };
    }
    if view.lane_row == LaneRow::Blocked {
        drop_waiting_rows_of_key(model, state, relay, message);
    }
}

/// It is still a failure: its key waits, only the row does not show it.
pub(super) fn record_failure_fails(model: &Lanes, state: &mut State, relay: RelayId, message: usize) {
    state.faults_left -= 1;
    let view = state.messages[message].of_mut(relay);
    view.entry = None;
    if view.lane_row == LaneRow::Sending {
        view.lane_row = LaneRow::Blocked;
        drop_waiting_rows_of_key(model, state, relay, message);
    }
}

/// Other waiting rows of the key are read again when it is unblocked.
pub(super) fn drop_waiting_rows_of_key(model: &Lanes, state: &mut State, relay: RelayId, message: usize) {
    if model.has(Bug::FailedKeyGoesOn) {
        return;
    }
    for other in (0..model.keys.len()).filter(|other| model.keys[*other] == model.keys[message]) {
        let view = state.messages[other].of_mut(relay);
        if view.lane_row == LaneRow::Waiting {
            view.lane_row = LaneRow::No;
        }
    }
}
