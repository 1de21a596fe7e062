//! The direct path: confirm, then send within the lease.

use super::Unordered;
use super::actions::Action;
use super::bugs::Bug;
use super::message::{Due, Message};
use super::relay_view::{DirectPath, Entry, Holder, Lease, Progress};
use super::state::{Breaker, RelayId, State};

pub(super) fn enabled(state: &State, actions: &mut Vec<Action>) {
    for relay in RelayId::BOTH {
        for (message, it) in state.messages.iter().enumerate() {
            match it.of(relay).direct {
                DirectPath::No => {}
                DirectPath::Ref => actions.push(Action::Confirm { relay, message }),
                DirectPath::Read(_) => actions.push(Action::SendRead { relay, message }),
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
    it.of_mut(relay).direct = found.map_or(DirectPath::No, DirectPath::Read);
}

/// `CONFIRM`: the row is committed, and its epoch is 0. The remaining lease is read from the row. The epoch shows that
/// the row still belongs to this process.
fn read(model: &Unordered, it: &Message) -> Option<Lease> {
    let live = it.live()?;
    let is_born = live.epoch == 0 || model.has(Bug::ConfirmIgnoresEpoch);
    is_born.then_some(Lease { epoch: live.epoch, running: live.due != Due::Now })
}

pub(super) fn send_read(model: &Unordered, state: &mut State, relay: RelayId, message: usize) {
    let view = state.messages[message].of_mut(relay);
    let DirectPath::Read(lease) = std::mem::replace(&mut view.direct, DirectPath::No) else { return };
    let in_term = lease.running || model.has(Bug::LeaseNotChecked);
    if in_term && view.entry.is_none() {
        view.entry = Some(Entry { holder: Holder::Lease(lease), progress: Progress::InClient });
    }
}
