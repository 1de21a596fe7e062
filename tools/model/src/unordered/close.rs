//! The close of a claim: what the transaction writes, and what the relay remembers afterwards.

use super::actions::Action;
use super::bugs::Bug;
use super::message::{Due, Message, Row};
use super::relay_view::{Claimed, Class, Entry, Holder, Lease, Progress, Stage};
use super::state::{Claim, RelayId, State};
use super::{ClaimMode, Unordered};

pub(super) fn enabled(state: &State, actions: &mut Vec<Action>) {
    for relay in RelayId::BOTH {
        if state.relay(relay).claim == Claim::None || state.messages.iter().any(|it| it.of(relay).is_ready()) {
            continue;
        }
        actions.push(Action::Close { relay });
        if state.relay(relay).claim == Claim::Open && state.faults_left > 0 {
            actions.push(Action::CloseFails { relay, applied: false });
            actions.push(Action::CloseFails { relay, applied: true });
        }
    }
}

/// What the close does to a row.
enum CloseAction {
    Settle,
    KeepLease,
    Requeue,
}

pub(super) fn close(model: &Unordered, state: &mut State, relay: RelayId) {
    if state.relay(relay).claim == Claim::Cut {
        return fail(model, state, relay, false);
    }
    for it in &mut state.messages {
        let Some(claimed) = it.of_mut(relay).claimed.take() else { continue };
        let action = action(model, it, relay, claimed);
        let written = write(model, it, relay, claimed, &action);
        remember(model, it, relay, &action, written);
    }
    state.relay_mut(relay).claim = Claim::None;
}

pub(super) fn close_fails(model: &Unordered, state: &mut State, relay: RelayId, applied: bool) {
    state.faults_left -= 1;
    fail(model, state, relay, applied);
}

fn action(model: &Unordered, it: &Message, relay: RelayId, claimed: Claimed) -> CloseAction {
    let is_claim = |entry: &Entry| entry.holder == Holder::Claim;
    match (claimed.stage, it.of(relay).entry.filter(is_claim).map(|entry| entry.progress)) {
        (_, Some(Progress::Delivered)) => CloseAction::Settle,
        (_, Some(Progress::InClient)) if model.has(Bug::SettleOnSend) => CloseAction::Settle,
        (_, Some(Progress::Failed(Class::Outage))) => CloseAction::Requeue,
        (Stage::Sent, _) if model.has(Bug::ReleaseBeforeFlush) => CloseAction::Requeue,
        // Failed rows too: the failure is written later, under the new epoch.
        (Stage::Sent, _) => CloseAction::KeepLease,
        (Stage::Ready | Stage::Late | Stage::Untouched, _) => CloseAction::Requeue,
    }
}

/// The statements of `ClaimHandle::close` for one row. Returns the epoch under which the row is held now.
fn write(model: &Unordered, it: &mut Message, relay: RelayId, claimed: Claimed, action: &CloseAction) -> Option<u8> {
    let live = it.live_mut()?;
    if model.claim_mode == ClaimMode::Locked {
        live.locked_by = None;
    }
    if matches!(action, CloseAction::Settle) {
        it.row = Row::Settled;
        return None;
    }
    if live.epoch != claimed.epoch {
        return None;
    }
    match (action, model.claim_mode) {
        // Locked rows that were not sent are released by the COMMIT, without a write.
        (CloseAction::Requeue, ClaimMode::Locked) if !model.has(Bug::ReleaseBeforeFlush) => None,
        (CloseAction::Settle | CloseAction::Requeue, _) => {
            it.write_due(Due::Now, true);
            None
        }
        (CloseAction::KeepLease, _) => it.write_due(Due::LeasedTo(relay), !model.has(Bug::HoldKeepsEpoch)),
    }
}

/// Updates the ledger to what the database did.
fn remember(model: &Unordered, it: &mut Message, relay: RelayId, action: &CloseAction, held: Option<u8>) {
    let is_gone = it.row == Row::Settled;
    let view = it.of_mut(relay);
    let Some(entry) = &mut view.entry else { return };
    let is_claim = entry.holder == Holder::Claim;
    match action {
        CloseAction::Settle if is_gone => view.entry = None,
        CloseAction::Settle => entry.holder = Holder::Lost,
        CloseAction::Requeue if !is_claim => {}
        CloseAction::Requeue => match entry.progress {
            Progress::Failed(_) => view.entry = None,
            _ => entry.holder = Holder::Lost,
        },
        CloseAction::KeepLease => match held {
            Some(_) if is_claim && model.has(Bug::OutcomeAfterCloseLost) => {}
            Some(epoch) => entry.holder = Holder::Lease(Lease { epoch, running: true }),
            None => lose(&mut view.entry),
        },
    }
}

/// The row is no longer ours: only a success can still be settled.
fn lose(entry: &mut Option<Entry>) {
    match entry {
        Some(Entry { progress: Progress::Failed(_), .. }) => *entry = None,
        Some(entry) => entry.holder = Holder::Lost,
        None => {}
    }
}

/// The rows' state is unknown. Only what was acknowledged must not be sent again.
fn fail(model: &Unordered, state: &mut State, relay: RelayId, applied: bool) {
    for it in &mut state.messages {
        // The next claim does a full scan.
        it.hidden[relay as usize] = false;
        let Some(claimed) = it.of_mut(relay).claimed.take() else { continue };
        let action = action(model, it, relay, claimed);
        if applied {
            write(model, it, relay, claimed, &action);
        }
        if let Some(live) = it.live_mut() {
            live.locked_by = live.locked_by.filter(|by| *by != relay);
            if live.due == Due::LeasedTo(relay) {
                // Leased, but no process knows it.
                live.due = Due::Later;
            }
        }
        if model.has(Bug::CommitTagIgnored) {
            let epoch = claimed.epoch + u8::from(matches!(action, CloseAction::KeepLease));
            pretend(it, relay, &action, epoch);
            continue;
        }
        let is_left = it.of(relay).progress() == Some(Progress::Failed(Class::Outage));
        let view = it.of_mut(relay);
        if is_left || model.has(Bug::ForgetsFailedClaim) {
            view.entry = None;
        } else {
            lose(&mut view.entry);
        }
        // Others may take what was sent, until this process has settled it.
        it.duplicate_allowed |= it.of(relay).entry.is_some();
    }
    state.relay_mut(relay).claim = Claim::None;
}

/// Like [`remember`] after a close with effect.
fn pretend(it: &mut Message, relay: RelayId, action: &CloseAction, epoch: u8) {
    let view = it.of_mut(relay);
    match (action, &mut view.entry) {
        (CloseAction::KeepLease, Some(entry)) => entry.holder = Holder::Lease(Lease { epoch, running: true }),
        (CloseAction::Settle, entry) => *entry = None,
        (_, entry) => lose(entry),
    }
}
