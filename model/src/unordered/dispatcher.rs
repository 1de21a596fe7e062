//! The direct path: confirm, then send within the term.

use super::Unordered;
use super::actions::Action;
use super::bugs::Bug;
use super::known::{Entry, Handed, Holder, Lease, Progress};
use super::message::{Due, Message};
use super::state::{Breaker, RelayId, State};

pub(super) fn offer(state: &State, actions: &mut Vec<Action>) {
    for relay in RelayId::BOTH {
        for (message, it) in state.messages.iter().enumerate() {
            match it.of(relay).handed {
                Handed::No => {}
                Handed::Ref => actions.push(Action::Confirm { relay, message }),
                Handed::Read(_) => actions.push(Action::SendRead { relay, message }),
            }
        }
    }
}

pub(super) fn confirm(model: &Unordered, state: &mut State, relay: RelayId, message: usize) {
    // While the breaker is open, refs are dropped unread.
    let is_admitted = state.relay(relay).breaker != Breaker::Open;
    let it = &mut state.messages[message];
    let found = if model.has(Bug::SendWithoutConfirm) {
        Some(Lease { epoch: 0, running: true })
    } else {
        read(model, it).filter(|_| is_admitted)
    };
    it.of_mut(relay).handed = found.map_or(Handed::No, Handed::Read);
}

/// `CONFIRM`: committed, and of epoch 0. What is left of the lease comes from the row, whoever it belongs to: that it
/// belongs to this process is what the epoch says.
fn read(model: &Unordered, it: &Message) -> Option<Lease> {
    let live = it.live()?;
    let is_born = live.epoch == 0 || model.has(Bug::ConfirmIgnoresEpoch);
    is_born.then_some(Lease { epoch: live.epoch, running: live.due != Due::Now })
}

pub(super) fn send_read(model: &Unordered, state: &mut State, relay: RelayId, message: usize) {
    let known = state.messages[message].of_mut(relay);
    let Handed::Read(lease) = std::mem::replace(&mut known.handed, Handed::No) else { return };
    let in_term = lease.running || model.has(Bug::TermNotChecked);
    if in_term && known.entry.is_none() {
        known.entry = Some(Entry { holder: Holder::Lease(lease), progress: Progress::InClient });
    }
}
