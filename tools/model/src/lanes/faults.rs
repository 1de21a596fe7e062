//! The faults of a process. There are no clock values: a process that stalls does so past its lease.

use super::actions::Action;
use super::bugs::Bug;
use super::message::{Entry, LaneRow, Progress, RelayView, Stray};
use super::state::{Owner, State};
use super::{Lanes, balancer};
use crate::relay::RelayId;

pub(super) fn enabled(state: &State, actions: &mut Vec<Action>) {
    if state.faults_left == 0 {
        return;
    }
    for relay in RelayId::BOTH {
        let is_anything_known = state.messages.iter().any(|it| *it.of(relay) != RelayView::NOTHING);
        if state.owned(relay).is_some() {
            actions.push(Action::Pause { relay, in_send: None });
            let read = state.messages.iter().enumerate().filter(|(_, it)| it.of(relay).lane_row == LaneRow::Read);
            actions.extend(read.map(|(message, _)| Action::Pause { relay, in_send: Some(message) }));
        }
        if is_anything_known || state.owned(relay).is_some() || state.lane.owner == Owner::Of(relay) {
            actions.push(Action::Crash { relay });
        }
    }
}

/// It resumes with what it had in the client, and with what it was about to hand over.
pub(super) fn pause(model: &Lanes, state: &mut State, relay: RelayId, in_send: Option<usize>) {
    state.faults_left -= 1;
    if let Some(message) = in_send {
        let it = &mut state.messages[message];
        if it.of(relay).entry.is_none() && state.broker_up {
            let entry = Entry { progress: Progress::InClient, is_current: true, past_lease: true };
            *it.of_mut(relay) = RelayView { lane_row: LaneRow::Sending, entry: Some(entry) };
        }
    }
    state.allow_duplicates(relay);
    for it in &mut state.messages {
        if let Some(entry) = &mut it.of_mut(relay).entry {
            entry.past_lease |= entry.progress == Progress::InClient;
        }
    }
    if state.lane.owner == Owner::Of(relay) {
        state.lane.leased = false;
    }
    if !model.has(Bug::ClockStopsInSuspend) {
        balancer::forget(model, state, relay);
    }
}

/// What is in the client dies with it, or is already in flight. What the broker stored is not settled.
pub(super) fn crash(state: &mut State, relay: RelayId) {
    state.faults_left -= 1;
    state.disown(relay);
    if state.lane.owner == Owner::Of(relay) {
        state.lane.owner = Owner::DeadProcess;
    }
    for it in &mut state.messages {
        let view = std::mem::replace(it.of_mut(relay), RelayView::NOTHING);
        it.duplicate_allowed |= view.entry.is_some();
        it.acknowledged_to[relay as usize] = false;
        if view.progress() == Some(Progress::InClient) {
            // After a stall, no time-out bounds it any more.
            let is_bounded = view.is_still_in_flight();
            it.stray = Some(if is_bounded { Stray::Orphaned } else { Stray::TimedOut });
        }
    }
}
