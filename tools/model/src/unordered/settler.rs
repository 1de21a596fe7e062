//! Settler and lease renewer: writes to leased rows.

use super::Unordered;
use super::actions::Action;
use super::bugs::Bug;
use super::message::{ATTEMPTS_MAX, Due, Row};
use super::relay_view::{Class, Entry, Holder, Progress};
use super::state::{RelayId, State};

pub(super) fn enabled(model: &Unordered, state: &State, actions: &mut Vec<Action>) {
    for relay in RelayId::BOTH {
        for (message, it) in state.messages.iter().enumerate() {
            let Some(Entry { holder, progress }) = it.of(relay).entry else { continue };
            match (holder, progress) {
                (Holder::Claim, _) => {}
                // The statement waits for the lock of an open claim.
                (_, Progress::Delivered) if it.live().is_some_and(|live| live.locked_by.is_some()) => {}
                (_, Progress::Delivered) => actions.push(Action::Settle { relay, message }),
                (_, Progress::InClient) if model.has(Bug::SettleOnSend) => {
                    actions.push(Action::Settle { relay, message });
                }
                (_, Progress::Failed(class)) => {
                    actions.push(Action::RecordFailure { relay, message });
                    if matches!(holder, Holder::Lease(_)) && class != Class::Outage && state.faults_left > 0 {
                        actions.push(Action::RecordFailureFails { relay, message });
                    }
                }
                (_, Progress::InClient | Progress::Stored) => {}
            }
            if let Holder::Lease(lease) = holder
                && !lease.running
                && !model.has(Bug::LeaseNotExtended)
                && let Some(live) = it.live().filter(|live| live.epoch == lease.epoch)
            {
                // Skips a row that a claim has locked. Under another epoch, a lease is worth nothing.
                let is_free = live.locked_by.is_none();
                actions.push(if is_free {
                    Action::Extend { relay, message }
                } else {
                    Action::AbandonLease { relay, message }
                });
            }
        }
    }
}

/// `DELETE` by `(id, message_id)`, whatever the epoch; from the dead letters if the row is there by now.
pub(super) fn settle(model: &Unordered, state: &mut State, relay: RelayId, message: usize) {
    let it = &mut state.messages[message];
    it.of_mut(relay).entry = None;
    let shares_id = it.shares_id;
    if it.live().is_some() || it.row == Row::DeadLetter {
        it.row = Row::Settled;
    } else if shares_id && model.has(Bug::SettleByIdAlone) {
        let other = state.messages.iter_mut().find(|other| other.shares_id && other.live().is_some());
        if let Some(other) = other {
            other.row = Row::Settled;
        }
    }
}

pub(super) fn record_failure(model: &Unordered, state: &mut State, relay: RelayId, message: usize) {
    let it = &mut state.messages[message];
    let lease = it.of(relay).lease();
    let entry = it.of_mut(relay).entry.take();
    let Some((lease, Entry { progress: Progress::Failed(class), .. })) = lease.zip(entry) else { return };
    let spends = match class {
        // Outage: written only by that injected bug; otherwise the broker's answer removes it.
        Class::Record | Class::Outage => true,
        Class::Temporary => false,
    };
    let Some(live) = it.live_mut() else { return };
    let is_held = live.epoch == lease.epoch || model.has(Bug::FailIgnoresEpoch);
    if !is_held || live.locked_by.is_some() {
        return;
    }
    if spends && live.attempts + 1 >= ATTEMPTS_MAX {
        it.row = if model.has(Bug::DeadLetterDropped) { Row::Settled } else { Row::DeadLetter };
        return;
    }
    live.attempts += u8::from(spends);
    it.write_due(Due::Later, !model.has(Bug::FailKeepsEpoch));
}

pub(super) fn record_failure_fails(state: &mut State, relay: RelayId, message: usize) {
    state.faults_left -= 1;
    state.messages[message].of_mut(relay).entry = None;
}

pub(super) fn extend(state: &mut State, relay: RelayId, message: usize) {
    let it = &mut state.messages[message];
    it.write_due(Due::LeasedTo(relay), false);
    it.of_mut(relay).set_lease(true);
}

pub(super) fn abandon_lease(state: &mut State, relay: RelayId, message: usize) {
    if let Some(entry) = &mut state.messages[message].of_mut(relay).entry {
        entry.holder = Holder::Lost;
    }
}
