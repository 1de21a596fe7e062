//! The reader: which message of a key goes, and when.

use super::actions::Action;
use super::bugs::Bug;
use super::message::{Entry, Known, Progress, Row, Seen};
use super::state::{Owned, State};
use super::{Lanes, settler};
use crate::relay::RelayId;

pub(super) fn offer(model: &Lanes, state: &State, actions: &mut Vec<Action>) {
    for relay in RelayId::BOTH {
        for (message, it) in state.messages.iter().enumerate() {
            match it.of(relay).seen {
                // What was taken is sent, also where the lane is given up meanwhile.
                Seen::Read => actions.push(Action::Send { relay, message }),
                Seen::Blocked if it.of(relay).entry.is_none() => actions.push(Action::Unblock { relay, message }),
                _ => {}
            }
        }
        let is_at_work = state.may_send(relay) && state.owned(relay) == Some(Owned { given_up: false });
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

/// The first of its key that waits, with none of its key under way or in the way.
fn is_its_turn(model: &Lanes, state: &State, relay: RelayId, message: usize) -> bool {
    let of_key = |other: &usize| model.keys[*other] == model.keys[message];
    let known = |other: usize| state.messages[other].of(relay);
    let is_busy = (0..model.keys.len()).filter(of_key).any(|other| stands_in_the_way(model, known(other)));
    let is_first = (0..message).filter(of_key).all(|other| known(other).seen != Seen::Waiting);
    known(message).seen == Seen::Waiting && is_first && !is_busy
}

fn stands_in_the_way(model: &Lanes, known: &Known) -> bool {
    match known.seen {
        Seen::Sending => !model.has(Bug::NextBeforeOutcome),
        Seen::Blocked => !model.has(Bug::FailedKeyGoesOn),
        _ => known.is_head(),
    }
}

/// One statement, so one state of the table: where a row is seen, so is every row that was committed before it.
pub(super) fn read(model: &Lanes, state: &mut State, relay: RelayId, is_late: bool) {
    let last = state.messages.iter().rposition(|it| it.row == Row::Live);
    for (message, key) in model.keys.iter().enumerate() {
        let mut of_key = state.messages.iter().zip(model.keys).filter(|(_, of)| *of == key);
        let is_blocked = of_key.any(|(it, _)| it.of(relay).seen == Seen::Blocked) && !model.has(Bug::FailedKeyGoesOn);
        let it = &mut state.messages[message];
        let is_open = it.row == Row::Uncommitted && (it.overlong || model.has(Bug::FrontPassesOpen));
        let passed = &mut it.passed[relay as usize];
        *passed &= !is_late;
        *passed |= is_open && last.is_some_and(|last| message < last);
        let is_seen = it.row == Row::Live && !*passed;
        let known = it.of_mut(relay);
        // Rows of a blocked key are read again when it is free.
        if is_seen && known.seen == Seen::No && !is_blocked && !is_left_out(model, known) {
            known.seen = Seen::Waiting;
        }
    }
    for message in 0..model.keys.len() {
        let known = state.messages[message].of_mut(relay);
        if known.seen == Seen::Waiting && is_known(model, known) && !model.has(Bug::LoadsWhatIsInFlight) {
            known.seen = Seen::Blocked;
            settler::forget_the_rest_of_the_key(model, state, relay, message);
        }
    }
}

/// What is delivered and waits to be settled is left out. What is in flight from an earlier time as the lane's owner is
/// taken in: it stands in its key's way.
fn is_left_out(model: &Lanes, known: &Known) -> bool {
    match known.progress() {
        Some(Progress::Delivered) => !model.has(Bug::RetakeForgetsDelivered),
        Some(_) => model.has(Bug::RetakeForgetsInFlight),
        None => false,
    }
}

/// What the ledger knows is not even read: it might be settled between this read and the send. A row that was settled
/// before it is not there any more.
pub(super) fn load(model: &Lanes, state: &mut State, relay: RelayId, message: usize) {
    let it = &mut state.messages[message];
    let is_there = it.row == Row::Live;
    let known = it.of_mut(relay);
    known.seen = match is_known(model, known) && !model.has(Bug::LoadsWhatIsInFlight) {
        true => Seen::Blocked,
        false if is_there => Seen::Read,
        false => Seen::No,
    };
}

fn is_known(model: &Lanes, known: &Known) -> bool {
    match known.progress() {
        Some(Progress::Delivered) => !model.has(Bug::RetakeForgetsDelivered),
        progress => progress.is_some(),
    }
}

pub(super) fn send(model: &Lanes, state: &mut State, relay: RelayId, message: usize) {
    let may_send = state.may_send(relay) || (model.has(Bug::LeaseNotLookedAtBySend) && state.broker_up);
    let held = state.owned(relay).is_some();
    let known = state.messages[message].of_mut(relay);
    if !may_send {
        known.seen = Seen::Waiting;
    } else if is_known(model, known) {
        known.seen = Seen::Blocked;
    } else {
        known.seen = if held { Seen::Sending } else { Seen::No };
        known.entry = Some(Entry { progress: Progress::InClient, held, belated: false });
    }
}

pub(super) fn unblock(state: &mut State, relay: RelayId, message: usize) {
    state.messages[message].of_mut(relay).seen = Seen::Waiting;
}
