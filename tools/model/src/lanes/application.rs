//! Transactions of the application.

use super::Lanes;
use super::actions::Action;
use super::message::{Message, Row};
use super::state::State;

pub(super) fn enabled(model: &Lanes, state: &State, actions: &mut Vec<Action>) {
    let messages = &state.messages[..model.keys.len()];
    if let Some(message) = messages.iter().position(|it| it.row == Row::Unwritten) {
        actions.push(Action::Enqueue { message });
    }
    for (message, it) in messages.iter().enumerate().filter(|(_, it)| it.row == Row::Uncommitted) {
        actions.extend([Action::Commit { message }, Action::Rollback { message }]);
        if !it.exceeds_slack && state.faults_left > 0 {
            actions.push(Action::ExceedSlack { message });
        }
    }
}

/// Earlier committed messages of its key must appear before it.
pub(super) fn enqueue(model: &Lanes, state: &mut State, message: usize) {
    let is_before = |(other, it): (usize, &Message)| {
        let is_of_key = model.keys[other] == model.keys[message];
        let is_to_come = it.row == Row::Live && it.copies == 0;
        u8::from(is_of_key && is_to_come) << other
    };
    let predecessors = state.messages[..message].iter().enumerate().map(is_before).sum();
    let it = &mut state.messages[message];
    it.row = Row::Uncommitted;
    it.predecessors = predecessors;
}

pub(super) fn exceed_slack(state: &mut State, message: usize) {
    state.faults_left -= 1;
    state.messages[message].exceeds_slack = true;
}

pub(super) fn end(state: &mut State, message: usize, row: Row) {
    state.messages[message].row = row;
}
