//! Merges states that nothing can tell apart. It drops only what no step and no property uses.

use std::cmp::min;

use super::Unordered;
use super::bugs::Bug;
use super::message::{Due, Live, Message, Row};
use super::relay_view::{DirectPath, Entry, Holder, Progress, RelayView};
use super::state::State;

/// Drops what cannot matter any more.
pub(super) fn forget(model: &Unordered, state: &mut State) {
    for it in &mut state.messages {
        if !model.has(Bug::LeaseNotChecked) {
            it.view.iter_mut().for_each(drop_late);
        }
        renumber_epochs(it);
        let in_transaction = matches!(it.row, Row::Uncommitted { .. });
        it.exceeds_slack &= in_transaction || it.hidden != [false; 2];
        if it.live().is_none() && !in_transaction {
            it.hidden = [false; 2];
            it.view.iter_mut().for_each(lose_lease);
        }
        if it.is_finished() && !(it.row == Row::DeadLetter && state.redrives_left > 0) {
            it.acknowledged_to = [false; 2];
        }
        disown(it);
        if it.duplicate_allowed && !it.view.iter().any(|view| view.progress() == Some(Progress::Stored)) {
            it.copies = min(it.copies, 1);
        }
        if it.has_ended() {
            clear_finished(it);
        }
    }
    let is_over = state.messages.iter().any(|it| it.shares_id && it.has_ended());
    if is_over {
        state.messages.iter_mut().for_each(|it| it.shares_id = false);
    }
}

/// Epochs are only compared with the row's and with 0, never with each other.
fn renumber_epochs(it: &mut Message) {
    let Some(row) = it.live().map(|live| live.epoch) else {
        return it.view.iter_mut().for_each(|view| for_each_epoch(view, |_| 0));
    };
    let renumbered = move |epoch: u8| match (row, epoch) {
        (0, ahead) => ahead,
        (row, epoch) if epoch < row => 1,
        (row, epoch) => 2 + (epoch - row),
    };
    if let Some(live) = it.live_mut() {
        live.epoch = renumbered(row);
    }
    it.view.iter_mut().for_each(|view| for_each_epoch(view, renumbered));
}

fn for_each_epoch(view: &mut RelayView, renumbered: impl Fn(u8) -> u8) {
    if let DirectPath::Read(lease) = &mut view.direct {
        lease.epoch = renumbered(lease.epoch);
    }
    if let Some(claimed) = &mut view.claimed {
        claimed.epoch = renumbered(claimed.epoch);
    }
    if let Some(Entry { holder: Holder::Lease(lease), .. }) = &mut view.entry {
        lease.epoch = renumbered(lease.epoch);
    }
}

/// A row that was read too late is not sent.
fn drop_late(view: &mut RelayView) {
    if matches!(view.direct, DirectPath::Read(lease) if !lease.running) {
        view.direct = DirectPath::No;
    }
}

/// A lease that its holder has forgotten has no holder.
fn disown(it: &mut Message) {
    let Row::Live(live) = it.row else { return };
    let Due::LeasedTo(relay) = live.due else { return };
    let view = it.of(relay);
    let is_leased = view.lease().is_some_and(|lease| lease.epoch == live.epoch);
    if view.direct == DirectPath::No && view.claimed.is_none() && !is_leased {
        it.row = Row::Live(Live { due: Due::Later, ..live });
    }
}

/// A lease on a row that is gone is worth nothing.
fn lose_lease(view: &mut RelayView) {
    if let Some(Entry { holder: holder @ Holder::Lease(_), .. }) = &mut view.entry {
        *holder = Holder::Lost;
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
}

/// The representative of all equivalent states: relays are interchangeable, and so are messages.
pub(super) fn representative(state: &State) -> State {
    let one = sorted(*state);
    let other = sorted(swapped(state));
    min(one, other)
}

fn sorted(mut state: State) -> State {
    state.messages.sort_unstable();
    state
}

fn swapped(state: &State) -> State {
    let mut state = *state;
    state.relays.swap(0, 1);
    state.messages.iter_mut().for_each(Message::swap_relays);
    state
}
