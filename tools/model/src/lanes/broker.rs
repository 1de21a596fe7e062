//! The broker, and the client's answers.

use super::actions::Action;
use super::message::{Class, LaneRow, Message, Progress, Row, Stray};
use super::state::State;
use crate::relay::RelayId;

pub(super) fn enabled(state: &State, actions: &mut Vec<Action>) {
    let is_fault_left = state.faults_left > 0;
    for (message, it) in state.messages.iter().enumerate() {
        for relay in RelayId::BOTH {
            match it.of(relay).progress() {
                Some(Progress::InClient) if state.broker_up => {
                    actions.push(Action::Store { relay, message });
                    if is_fault_left {
                        actions.extend([Action::Refuse { relay, message }, Action::TimeOut { relay, message }]);
                    }
                }
                Some(Progress::Stored) if state.broker_up => {
                    actions.push(Action::Acknowledge { relay, message });
                    if is_fault_left {
                        actions.push(Action::LoseAcknowledgement { relay, message });
                    }
                }
                Some(Progress::InClient | Progress::Stored) => actions.push(Action::Disconnect { relay, message }),
                Some(Progress::Delivered | Progress::Failed(_)) | None => {}
            }
        }
        if it.stray.is_some() {
            actions.extend([Action::StoreStray { message }, Action::LoseStray { message }]);
        }
    }
    if !state.broker_up {
        actions.push(Action::ComeBack);
    } else if is_fault_left {
        actions.push(Action::GoDown);
    }
}

fn append(it: &mut Message) {
    it.copies = 2.min(it.copies + 1);
}

pub(super) fn store(state: &mut State, relay: RelayId, message: usize) {
    append(&mut state.messages[message]);
    progress(state, relay, message, Progress::Stored);
}

/// The next message of the key is sent after the answer: it need not wait for the row to be settled.
pub(super) fn acknowledge(state: &mut State, relay: RelayId, message: usize) {
    let it = &mut state.messages[message];
    it.acknowledged_to[relay as usize] = true;
    let view = it.of_mut(relay);
    if view.lane_row == LaneRow::Sending {
        view.lane_row = LaneRow::No;
    }
    progress(state, relay, message, Progress::Delivered);
}

pub(super) fn lose_acknowledgement(state: &mut State, relay: RelayId, message: usize) {
    state.faults_left -= 1;
    state.messages[message].duplicate_allowed = true;
    progress(state, relay, message, Progress::Failed(Class::Temporary));
}

pub(super) fn time_out(state: &mut State, relay: RelayId, message: usize) {
    state.faults_left -= 1;
    let it = &mut state.messages[message];
    it.duplicate_allowed = true;
    it.stray = Some(Stray::TimedOut);
    progress(state, relay, message, Progress::Failed(Class::Temporary));
}

pub(super) fn refuse(state: &mut State, relay: RelayId, message: usize) {
    state.faults_left -= 1;
    progress(state, relay, message, Progress::Failed(Class::Record));
}

/// Nothing is written: the message is again the next one of its key.
pub(super) fn disconnect(state: &mut State, relay: RelayId, message: usize) {
    let it = &mut state.messages[message];
    it.duplicate_allowed |= it.of(relay).progress() == Some(Progress::Stored);
    let is_there = it.row == Row::Live;
    let view = it.of_mut(relay);
    view.entry = None;
    if view.lane_row == LaneRow::Sending {
        view.lane_row = if is_there { LaneRow::Waiting } else { LaneRow::No };
    }
}

pub(super) fn store_stray(state: &mut State, message: usize) {
    append(&mut state.messages[message]);
    state.messages[message].stray = None;
}

pub(super) fn lose_stray(state: &mut State, message: usize) {
    state.messages[message].stray = None;
}

pub(super) fn go_down(state: &mut State) {
    state.faults_left -= 1;
    state.broker_up = false;
}

pub(super) fn come_back(state: &mut State) {
    state.broker_up = true;
}

fn progress(state: &mut State, relay: RelayId, message: usize, to: Progress) {
    if let Some(entry) = &mut state.messages[message].of_mut(relay).entry {
        entry.progress = to;
    }
}
