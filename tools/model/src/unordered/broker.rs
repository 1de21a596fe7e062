//! The broker, the client's answers, and the breaker.

use super::Unordered;
use super::actions::Action;
use super::bugs::Bug;
use super::relay_view::{Class, Entry, Holder, Progress};
use super::state::{Breaker, RelayId, State};

pub(super) fn enabled(state: &State, actions: &mut Vec<Action>) {
    for relay in RelayId::BOTH {
        for (message, it) in state.messages.iter().enumerate() {
            match it.of(relay).progress() {
                Some(Progress::InClient) if state.broker_up => {
                    actions.push(Action::Store { relay, message });
                    if state.faults_left > 0 {
                        actions.push(Action::Refuse { relay, message });
                    }
                }
                Some(Progress::Stored) if state.broker_up => {
                    actions.push(Action::Acknowledge { relay, message });
                    if state.faults_left > 0 {
                        actions.push(Action::LoseAcknowledgement { relay, message });
                    }
                }
                Some(Progress::InClient | Progress::Stored) => actions.push(Action::Disconnect { relay, message }),
                Some(Progress::Delivered | Progress::Failed(_)) | None => {}
            }
        }
    }
    if !state.broker_up {
        actions.push(Action::ComeBack);
    } else if state.faults_left > 0 {
        actions.push(Action::GoDown);
    }
}

pub(super) fn go_down(state: &mut State) {
    state.faults_left -= 1;
    state.broker_up = false;
    state.relays.iter_mut().for_each(|relay| relay.breaker = Breaker::Open);
}

pub(super) fn come_back(state: &mut State) {
    state.broker_up = true;
    state.relays.iter_mut().for_each(|relay| relay.breaker = Breaker::HalfOpen);
}

pub(super) fn store(state: &mut State, relay: RelayId, message: usize) {
    state.messages[message].copies = 2.min(state.messages[message].copies + 1);
    progress(state, relay, message, Progress::Stored);
}

pub(super) fn acknowledge(state: &mut State, relay: RelayId, message: usize) {
    state.messages[message].acknowledged_to[relay as usize] = true;
    progress(state, relay, message, Progress::Delivered);
    close_breaker(state, relay);
}

pub(super) fn lose_acknowledgement(state: &mut State, relay: RelayId, message: usize) {
    state.faults_left -= 1;
    state.messages[message].duplicate_allowed = true;
    progress(state, relay, message, Progress::Failed(Class::Temporary));
}

pub(super) fn refuse(state: &mut State, relay: RelayId, message: usize) {
    state.faults_left -= 1;
    progress(state, relay, message, Progress::Failed(Class::Record));
    close_breaker(state, relay);
}

/// An open claim handles it at its close; otherwise the row is left to the end of its lease at once.
pub(super) fn disconnect(model: &Unordered, state: &mut State, relay: RelayId, message: usize) {
    state.messages[message].duplicate_allowed |= state.messages[message].of(relay).progress() == Some(Progress::Stored);
    if model.has(Bug::TimeOutIsDelivery) {
        return progress(state, relay, message, Progress::Delivered);
    }
    progress(state, relay, message, Progress::Failed(Class::Outage));
    let view = state.messages[message].of_mut(relay);
    if view.entry.is_some_and(|entry| entry.holder != Holder::Claim) && !model.has(Bug::AttemptSpentInOutage) {
        view.entry = None;
    }
    // A relay that was started in the outage learns of it here.
    state.relay_mut(relay).breaker = Breaker::Open;
}

/// Any response of the broker closes a half-open breaker, but not an open one.
fn close_breaker(state: &mut State, relay: RelayId) {
    let breaker = &mut state.relay_mut(relay).breaker;
    if *breaker == Breaker::HalfOpen {
        *breaker = Breaker::Closed;
    }
}

fn progress(state: &mut State, relay: RelayId, message: usize, to: Progress) {
    if let Some(Entry { progress, .. }) = &mut state.messages[message].of_mut(relay).entry {
        *progress = to;
    }
}
