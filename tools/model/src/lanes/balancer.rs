//! The lane balancer: who owns the lane.
//!
//! The nodes' shares are not modelled: a lane may be released at any time, and any node that may take it takes it. A
//! lease that is renewed in time is one that does not end.

use super::Lanes;
use super::actions::Action;
use super::bugs::Bug;
use super::message::{LaneRow, Progress};
use super::state::{Lane, Owned, Owner, State};
use crate::relay::RelayId;

pub(super) fn enabled(model: &Lanes, state: &State, actions: &mut Vec<Action>) {
    for relay in RelayId::BOTH {
        match state.owned(relay) {
            None if may_take(model, &state.lane, relay) => {
                actions.push(Action::Take { relay });
                if state.faults_left > 0 {
                    actions.push(Action::TakeResponseLost { relay });
                }
            }
            None => {}
            Some(Owned { draining: false }) if state.moves_left > 0 => actions.push(Action::BeginHandover { relay }),
            Some(Owned { draining: false }) => {}
            Some(Owned { draining: true }) => {
                actions.push(Action::CancelHandover { relay });
                if is_drained(model, state, relay) {
                    actions.push(Action::Release { relay });
                    if state.faults_left > 0 {
                        actions.push(Action::ReleaseFails { relay });
                    }
                }
            }
        }
    }
    if state.lane.leased {
        let is_kept = matches!(state.lane.owner, Owner::Of(relay) if state.owned(relay).is_some());
        if !is_kept {
            actions.push(Action::LeaseRunsOut);
        } else if state.faults_left > 0 {
            actions.push(Action::LeaseEnds);
        }
    }
    if state.lane.quiet && !is_anything_in_flight(state) {
        actions.push(Action::QuietEnds);
    }
}

fn may_take(model: &Lanes, lane: &Lane, relay: RelayId) -> bool {
    match lane.owner {
        Owner::Nobody => true,
        // Taken or handed over by a call whose answer was lost; or lost, and not taken by the other.
        Owner::Of(owner) if owner == relay => true,
        Owner::Of(_) | Owner::DeadProcess => !lane.leased || model.has(Bug::TakesBeforeLeaseEnds),
    }
}

/// Whether nothing of the lane is being read, in flight, or waiting to be settled, under any fence.
fn is_drained(model: &Lanes, state: &State, relay: RelayId) -> bool {
    state.messages.iter().map(|it| it.of(relay)).all(|view| {
        let is_reading = view.lane_row == LaneRow::Read;
        let is_in_use = view.entry.is_some();
        let is_of_earlier_time = view.entry.is_some_and(|entry| !entry.is_current);
        let is_overlooked = model.has(Bug::HandsOverUndrained)
            || (model.has(Bug::HandsOverOlderInFlight) && is_of_earlier_time)
            || (model.has(Bug::HandsOverUnsettled) && view.progress() == Some(Progress::Delivered));
        !is_reading && (!is_in_use || is_overlooked)
    })
}

/// The delivery time-out of earlier sends bounds the quiet period, except for a process that stalled.
fn is_anything_in_flight(state: &State) -> bool {
    state.messages.iter().any(|it| {
        let is_orphan = it.stray == Some(super::message::Stray::Orphaned);
        is_orphan || RelayId::BOTH.iter().any(|relay| it.of(*relay).is_still_in_flight() && !is_held(state, *relay))
    })
}

fn is_held(state: &State, relay: RelayId) -> bool {
    state.lane.is_of(relay)
}

pub(super) fn take(model: &Lanes, state: &mut State, relay: RelayId, gets_response: bool) {
    let was = state.lane.owner;
    let is_taken_over = !matches!(was, Owner::Nobody) && was != Owner::Of(relay);
    state.lane.quiet |= is_taken_over && !model.has(Bug::NoQuietPeriod);
    state.lane.owner = Owner::Of(relay);
    state.lane.leased = true;
    if gets_response {
        state.owned[relay as usize] = Some(Owned { draining: false });
    } else {
        state.faults_left -= 1;
    }
}

pub(super) fn begin_handover(state: &mut State, relay: RelayId) {
    state.moves_left -= 1;
    state.owned[relay as usize] = Some(Owned { draining: true });
}

pub(super) fn cancel_handover(state: &mut State, relay: RelayId) {
    state.owned[relay as usize] = Some(Owned { draining: false });
}

pub(super) fn release(state: &mut State, relay: RelayId) {
    state.disown(relay);
    if state.lane.owner == Owner::Of(relay) {
        state.lane.owner = Owner::Nobody;
        state.lane.leased = false;
    }
}

pub(super) fn release_fails(state: &mut State, relay: RelayId) {
    state.faults_left -= 1;
    state.disown(relay);
}

/// The node knows it before the database does, by its margin: whatever it would do in between it has done before.
pub(super) fn lease_ends(model: &Lanes, state: &mut State) {
    state.faults_left -= 1;
    state.lane.leased = false;
    let Owner::Of(relay) = state.lane.owner else { return };
    state.allow_duplicates(relay);
    if !model.has(Bug::KeepsLanePastLease) {
        forget(model, state, relay);
    }
}

/// The lane is lost: nothing more is sent from it.
pub(super) fn forget(model: &Lanes, state: &mut State, relay: RelayId) {
    let read = state.messages.map(|it| it.of(relay).lane_row == LaneRow::Read);
    state.disown(relay);
    if model.has(Bug::LeaseNotCheckedAtSend) {
        for (it, was_read) in state.messages.iter_mut().zip(read) {
            if was_read {
                it.of_mut(relay).lane_row = LaneRow::Read;
            }
        }
    }
}

pub(super) fn lease_runs_out(state: &mut State) {
    state.lane.leased = false;
}

pub(super) fn quiet_ends(state: &mut State) {
    state.lane.quiet = false;
}
