//! Merges states that nothing can tell apart. It drops only what no step and no property uses.

use std::cmp::min;

use super::message::{LaneRow, Message, Row};
use super::state::State;

/// Drops what cannot matter any more.
pub(super) fn forget(state: &mut State) {
    let has_appeared = state.messages.map(|it| it.copies > 0 || it.is_finished());
    for it in &mut state.messages {
        for (other, has_appeared) in has_appeared.iter().enumerate() {
            it.predecessors &= !(u8::from(*has_appeared) << other);
        }
        if it.copies > 0 || it.is_finished() {
            it.predecessors = 0;
        }
        if it.duplicate_allowed {
            it.copies = min(it.copies, 1);
        }
        if it.is_finished() {
            finish(it);
        }
        if it.has_ended() {
            clear_finished(it);
        }
    }
}

/// A waiting row that is gone is found gone when its turn comes.
fn finish(it: &mut Message) {
    it.exceeds_slack = false;
    it.passed = [false; 2];
    for view in &mut it.view {
        let is_over = view.lane_row == LaneRow::Waiting || (view.lane_row == LaneRow::Blocked && view.entry.is_none());
        if is_over {
            view.lane_row = LaneRow::No;
        }
    }
}

/// Only values that break a property are left.
fn clear_finished(it: &mut Message) {
    match it.row {
        Row::Settled => it.copies = min(it.copies, 1),
        Row::DeadLetter => it.copies = 0,
        _ => {}
    }
    it.duplicate_allowed = false;
    it.acknowledged_to = [false; 2];
}

/// The representative of both equivalent states: relays are interchangeable.
pub(super) fn representative(state: &State) -> State {
    min(*state, state.swapped())
}
