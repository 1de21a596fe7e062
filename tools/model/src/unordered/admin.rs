//! What people do with dead letters.

use super::Unordered;
use super::actions::Action;
use super::bugs::Bug;
use super::message::{Due, Live, Message, Row};
use super::state::State;

pub(super) fn enabled(state: &State, actions: &mut Vec<Action>) {
    if state.redrives_left > 0 {
        let dead = state.messages.iter().enumerate().filter(|(_, it)| is_redrivable(it));
        actions.extend(dead.map(|(message, _)| Action::Redrive { message }));
    }
}

/// Whether a dead letter can be redriven: not while another row has its `id`, which it keeps.
fn is_redrivable(it: &Message) -> bool {
    it.row == Row::DeadLetter && !it.shares_id
}

/// Whether no redrive is pending.
pub(super) fn is_done(state: &State) -> bool {
    state.redrives_left == 0 || !state.messages.iter().any(is_redrivable)
}

/// One statement removes the dead letter and writes the row: due, with no attempt spent, under a new epoch. If the
/// broker has it already, or still gets it, it is delivered twice.
pub(super) fn redrive(model: &Unordered, state: &mut State, message: usize) {
    state.redrives_left -= 1;
    let it = &mut state.messages[message];
    it.duplicate_allowed |= it.copies > 0 || it.view.iter().any(|view| view.entry.is_some());
    // For a row that is gone, what relays remember has epoch 0 (see `canonical`).
    let live = Live { due: Due::Now, epoch: 1, attempts: 0, locked_by: None };
    it.row = if model.has(Bug::RedriveLosesRow) { Row::Settled } else { Row::Live(live) };
}
