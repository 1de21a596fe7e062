//! Time, and the faults of a process.
//!
//! There are no clock values. A holder's lease ends before the database's, by the margin. So one step ends the holder's
//! lease and makes the row due: whatever could happen in between can happen after it as well. A lease that is extended
//! in time is one that does not end.

use super::actions::Action;
use super::bugs::Bug;
use super::message::{Due, Message, Row};
use super::relay_view::{DirectPath, Progress, RelayView};
use super::state::{Claim, Relay, RelayId, State};
use super::{ClaimMode, Unordered};

pub(super) fn enabled(model: &Unordered, state: &State, actions: &mut Vec<Action>) {
    for (message, it) in state.messages.iter().enumerate() {
        let is_ahead = it.live().is_some_and(|live| live.due != Due::Now);
        if is_ahead && (state.faults_left > 0 || !is_kept(model, state, it)) {
            actions.push(Action::LeaseEnds { message });
        }
    }
    if state.faults_left == 0 {
        return;
    }
    for relay in RelayId::BOTH {
        let has_locks = model.claim_mode == ClaimMode::Locked && state.relay(relay).claim == Claim::Open;
        if has_locks {
            actions.push(Action::CutClaim { relay });
            actions.push(Action::Pause { relay, long: false });
        }
        if has_locks || state.messages.iter().any(|it| is_leased_to(it, relay)) {
            actions.push(Action::Pause { relay, long: true });
        }
        if is_anything_to_lose(state, relay) {
            actions.push(Action::Crash { relay });
        }
    }
}

fn is_leased_to(it: &Message, relay: RelayId) -> bool {
    it.live().is_some_and(|live| live.due == Due::LeasedTo(relay))
}

fn is_anything_to_lose(state: &State, relay: RelayId) -> bool {
    let is_its = |it: &Message| matches!(it.row, Row::Uncommitted { by, .. } if by == relay);
    state.messages.iter().any(|it| is_its(it) || *it.of(relay) != RelayView::NOTHING)
        || state.relay(relay) != &Relay::IDLE
}

/// Whether it takes a fault to end the lease: the lease renewer extends it, or it belongs to a claim that is no slower
/// than its lease.
fn is_kept(model: &Unordered, state: &State, it: &Message) -> bool {
    let Some((live, Due::LeasedTo(relay))) = it.live().map(|live| (live, live.due)) else { return false };
    let is_extended = it.of(relay).lease().is_some_and(|lease| lease.epoch == live.epoch);
    let is_claimed = it.of(relay).claimed.is_some() && state.relay(relay).claim == Claim::Open;
    is_claimed || (is_extended && !model.has(Bug::LeaseNotExtended))
}

pub(super) fn lease_ends(model: &Unordered, state: &mut State, message: usize) {
    let is_kept = is_kept(model, state, &state.messages[message]);
    state.faults_left -= u8::from(is_kept);
    let it = &mut state.messages[message];
    if !model.has(Bug::LeaseNotExtended) {
        it.duplicate_allowed |= it.view.iter().any(|view| view.entry.is_some());
    }
    set_due(it, Due::Now);
    for view in &mut it.view {
        view.end_terms();
        // The queue drops a ref that waited for half of the lease. A later ref requires a process that stalled.
        if view.direct == DirectPath::Ref {
            view.direct = DirectPath::No;
        }
    }
}

fn set_due(it: &mut Message, to: Due) {
    if let Some(live) = it.live_mut() {
        live.due = to;
    }
}

/// The database ends the session of its open claim, and its leases run out. It resumes with what it had in the client.
pub(super) fn pause(model: &Unordered, state: &mut State, relay: RelayId, long: bool) {
    if state.relay(relay).claim == Claim::Open && model.claim_mode == ClaimMode::Locked {
        state.relay_mut(relay).claim = Claim::Cut;
    }
    state.faults_left -= 1;
    for it in &mut state.messages {
        let was_locked = unlock(it, relay);
        let has_ended = long && is_leased_to(it, relay);
        if has_ended {
            set_due(it, Due::Now);
        }
        if was_locked || has_ended {
            it.duplicate_allowed |= it.of(relay).entry.is_some();
            if !model.has(Bug::ClockStopsInSuspend) {
                it.of_mut(relay).end_terms();
            }
        }
    }
}

/// The process goes on: it cannot know.
pub(super) fn cut_claim(state: &mut State, relay: RelayId) {
    state.faults_left -= 1;
    state.relay_mut(relay).claim = Claim::Cut;
    for it in &mut state.messages {
        if unlock(it, relay) {
            it.duplicate_allowed |= it.of(relay).entry.is_some();
        }
    }
}

fn unlock(it: &mut Message, relay: RelayId) -> bool {
    let Some(live) = it.live_mut().filter(|live| live.locked_by == Some(relay)) else { return false };
    live.locked_by = None;
    true
}

pub(super) fn crash(state: &mut State, relay: RelayId) {
    state.faults_left -= 1;
    *state.relay_mut(relay) = Relay::IDLE;
    for it in &mut state.messages {
        unlock(it, relay);
        if matches!(it.row, Row::Uncommitted { by, .. } if by == relay) {
            it.row = Row::RolledBack;
        }
        if is_leased_to(it, relay) {
            set_due(it, Due::Later);
        }
        it.hidden[relay as usize] = false;
        it.acknowledged_to[relay as usize] = false;
        let view = std::mem::replace(it.of_mut(relay), RelayView::NOTHING);
        // What is in the client dies with it. What the broker stored is not settled.
        it.duplicate_allowed |= matches!(view.progress(), Some(Progress::Stored | Progress::Delivered));
    }
}
