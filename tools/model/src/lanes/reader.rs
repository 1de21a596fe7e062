//! The reader: decides which message of a key is sent, and when.

use super::actions::Action;
use super::bugs::Bug;
use super::message::{Entry, LaneRow, Progress, RelayView, Row};
use super::state::{Owned, State};
use super::{Lanes, settler};
use crate::relay::RelayId;

pub(super) fn enabled(model: &Lanes, state: &State, actions: &mut Vec<Action>) {
    for relay in RelayId::BOTH {
        for (message, it) in state.messages.iter().enumerate() {
            match it.of(relay).lane_row {
                // What was read is sent, even if the lane is being released.
                LaneRow::Read => actions.push(Action::Send { relay, message }),
                LaneRow::Blocked if it.of(relay).entry.is_none() => actions.push(Action::Unblock { relay, message }),
                _ => {}
            }
        }
        let is_at_work = state.may_send(relay) && state.owned(relay) == Some(Owned { draining: false });
        if !is_at_work || state.lane.quiet {
            continue;
        }
        actions.push(Action::ReadFront { relay });
        if state.messages.iter().any(|it| it.passed[relay as usize]) && !model.has(Bug::NoLateRead) {
            actions.push(Action::ReadLate { relay });
        }
        let turns = (0..model.keys.len()).filter(|message| is_its_turn(model, state, relay, *message));
        actions.extend(turns.map(|message| Action::Load { relay, message }));
    }
}

/// The first waiting message of its key, with no other one in flight or blocking.
fn is_its_turn(model: &Lanes, state: &State, relay: RelayId, message: usize) -> bool {
    let of_key = |other: &usize| model.keys[*other] == model.keys[message];
    let view = |other: usize| state.messages[other].of(relay);
    let is_busy = (0..model.keys.len()).filter(of_key).any(|other| blocks_key(model, view(other)));
    let is_first = (0..message).filter(of_key).all(|other| view(other).lane_row != LaneRow::Waiting);
    view(message).lane_row == LaneRow::Waiting && is_first && !is_busy
}

fn blocks_key(model: &Lanes, view: &RelayView) -> bool {
    match view.lane_row {
        LaneRow::Sending => !model.has(Bug::NextBeforeOutcome),
        LaneRow::Blocked => !model.has(Bug::FailedKeyGoesOn),
        _ => view.is_head(),
    }
}

/// One statement, so one snapshot of the table: if a row is visible, so is every row that was committed before it.
pub(super) fn read(model: &Lanes, state: &mut State, relay: RelayId, is_late: bool) {
    let last = state.messages.iter().rposition(|it| it.row == Row::Live);
    for (message, key) in model.keys.iter().enumerate() {
        let mut of_key = state.messages.iter().zip(model.keys).filter(|(_, of)| *of == key);
        let is_blocked =
            of_key.any(|(it, _)| it.of(relay).lane_row == LaneRow::Blocked) && !model.has(Bug::FailedKeyGoesOn);
        let it = &mut state.messages[message];
        let is_open = it.row == Row::Uncommitted && (it.exceeds_slack || model.has(Bug::FrontPassesOpen));
        let passed = &mut it.passed[relay as usize];
        *passed &= !is_late;
        *passed |= is_open && last.is_some_and(|last| message < last);
        let is_seen = it.row == Row::Live && !*passed;
        let view = it.of_mut(relay);
        // Rows of a blocked key are read again when the key is unblocked.
        if is_seen && view.lane_row == LaneRow::No && !is_blocked && !is_left_out(model, view) {
            view.lane_row = LaneRow::Waiting;
        }
    }
    for message in 0..model.keys.len() {
        let view = state.messages[message].of_mut(relay);
        if view.lane_row == LaneRow::Waiting && is_known(model, view) && !model.has(Bug::LoadsRowsInFlight) {
            view.lane_row = LaneRow::Blocked;
            settler::drop_waiting_rows_of_key(model, state, relay, message);
        }
    }
}

/// A delivered message that waits to be settled is left out. One that is in flight from an earlier ownership is kept:
/// it blocks its key.
fn is_left_out(model: &Lanes, view: &RelayView) -> bool {
    match view.progress() {
        Some(Progress::Delivered) => !model.has(Bug::RetakeForgetsDelivered),
        Some(_) => model.has(Bug::RetakeForgetsInFlight),
        None => false,
    }
}

/// A message in the ledger is not even read: it might be settled between this read and the send. A row that was settled
/// before is gone.
pub(super) fn load(model: &Lanes, state: &mut State, relay: RelayId, message: usize) {
    let it = &mut state.messages[message];
    let is_there = it.row == Row::Live;
    let view = it.of_mut(relay);
    view.lane_row = match is_known(model, view) && !model.has(Bug::LoadsRowsInFlight) {
        true => LaneRow::Blocked,
        false if is_there => LaneRow::Read,
        false => LaneRow::No,
    };
}

fn is_known(model: &Lanes, view: &RelayView) -> bool {
    match view.progress() {
        Some(Progress::Delivered) => !model.has(Bug::RetakeForgetsDelivered),
        progress => progress.is_some(),
    }
}

pub(super) fn send(model: &Lanes, state: &mut State, relay: RelayId, message: usize) {
    let may_send = state.may_send(relay) || (model.has(Bug::LeaseNotCheckedAtSend) && state.broker_up);
    let is_current = state.owned(relay).is_some();
    let view = state.messages[message].of_mut(relay);
    if !may_send {
        view.lane_row = LaneRow::Waiting;
    } else if is_known(model, view) {
        view.lane_row = LaneRow::Blocked;
    } else {
        view.lane_row = if is_current { LaneRow::Sending } else { LaneRow::No };
        view.entry = Some(Entry { progress: Progress::InClient, is_current, past_lease: false });
    }
}

pub(super) fn unblock(state: &mut State, relay: RelayId, message: usize) {
    state.messages[message].of_mut(relay).lane_row = LaneRow::Waiting;
}
