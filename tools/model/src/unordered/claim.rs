//! The sweeper's claim and its sends.

use super::actions::Action;
use super::bugs::Bug;
use super::message::{Due, Live, Message, Row};
use super::relay_view::{Claimed, Entry, Holder, Progress, RelayView, Stage};
use super::state::{Breaker, Claim, Relay, RelayId, State};
use super::{ClaimMode, Unordered};

pub(super) fn enabled(model: &Unordered, state: &State, actions: &mut Vec<Action>) {
    for relay in RelayId::BOTH {
        if state.relay(relay).claim == Claim::None {
            enabled_claims(model, state, relay, actions);
        } else if state.messages.iter().any(|it| it.of(relay).is_ready()) {
            actions.push(Action::SendClaimed { relay });
        }
        if state.messages.iter().any(|it| it.live().is_some() && it.hidden[relay as usize]) {
            actions.push(Action::FullScan { relay });
        }
    }
}

fn enabled_claims(model: &Unordered, state: &State, relay: RelayId, actions: &mut Vec<Action>) {
    // A claim of only rows that are being settled would change nothing.
    let is_work = |it: &Message| is_claimable(model, it, relay) && it.of(relay).progress() != Some(Progress::Delivered);
    match state.relay(relay).breaker {
        Breaker::Open => {}
        Breaker::Closed => {
            let passes = |it: &Message| is_passed(it) && !it.hidden[relay as usize];
            if state.messages.iter().any(|it| is_work(it) || passes(it)) {
                actions.push(Action::Claim { relay, only: None });
            }
        }
        Breaker::HalfOpen => {
            let rows = state.messages.iter().enumerate().filter(|(_, it)| is_work(it));
            actions.extend(rows.map(|(message, _)| Action::Claim { relay, only: Some(message) }));
        }
    }
}

fn is_claimable(model: &Unordered, it: &Message, relay: RelayId) -> bool {
    let is_free = |live: &Live| live.locked_by.is_none() || model.has(Bug::ClaimIgnoresLocks);
    let is_due = |live: &Live| live.due == Due::Now || (live.due == Due::Delayed && model.has(Bug::ClaimIgnoresDelay));
    it.live().is_some_and(|live| is_due(live) && is_free(live)) && !it.hidden[relay as usize]
}

/// Whether a watermark that is read now passes the row: the row is not visible, and its `due_at` is older than the
/// slack.
fn is_passed(it: &Message) -> bool {
    it.exceeds_slack && matches!(it.row, Row::Uncommitted { .. })
}

pub(super) fn claim(model: &Unordered, state: &mut State, relay: RelayId, only: Option<usize>) {
    let mut took_any = false;
    for (message, it) in state.messages.iter_mut().enumerate() {
        let is_locked = it.live().is_some_and(|live| live.locked_by.is_some());
        let is_passed = is_passed(it) || (is_locked && model.has(Bug::WatermarkPassesLocked));
        it.hidden[relay as usize] |= is_passed && only.is_none();
        if only.is_some_and(|only| only != message) || !is_claimable(model, it, relay) {
            continue;
        }
        let Some(live) = it.live_mut() else { continue };
        match model.claim_mode {
            ClaimMode::Locked => live.locked_by = Some(relay),
            ClaimMode::Leased => {
                live.due = Due::LeasedTo(relay);
                live.epoch += 1;
            }
        }
        let epoch = live.epoch;
        let stage = known_as(it.of(relay)).unwrap_or(Stage::Ready);
        it.of_mut(relay).claimed = Some(Claimed { epoch, stage });
        took_any = true;
    }
    if took_any {
        state.relay_mut(relay).claim = Claim::Open;
    }
}

/// The stage of a claimed row that the ledger knows: one in flight is held with the claim, a delivered one is left to
/// the settler.
fn known_as(view: &RelayView) -> Option<Stage> {
    view.progress().map(|progress| if progress == Progress::Delivered { Stage::Untouched } else { Stage::Sent })
}

pub(super) fn send_claimed(model: &Unordered, state: &mut State, relay: RelayId) {
    let Relay { breaker, claim } = *state.relay(relay);
    for it in &mut state.messages {
        let view = it.of_mut(relay);
        let Some(claimed) = &mut view.claimed else { continue };
        let in_term =
            claimed.stage == Stage::Ready || (claimed.stage == Stage::Late && model.has(Bug::LeaseNotChecked));
        if !in_term {
            continue;
        }
        if breaker == Breaker::Open {
            claimed.stage = Stage::Untouched;
            continue;
        }
        claimed.stage = Stage::Sent;
        view.entry.get_or_insert(Entry { holder: Holder::Claim, progress: Progress::InClient });
        // It cannot know that its locks are gone, and sends within its window.
        it.duplicate_allowed |= claim == Claim::Cut;
    }
}

pub(super) fn full_scan(state: &mut State, relay: RelayId) {
    for it in &mut state.messages {
        it.hidden[relay as usize] = false;
    }
}
