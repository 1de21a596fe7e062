//! Transactions of the application.

use super::Unordered;
use super::actions::Action;
use super::message::{Due, Live, Row};
use super::relay_view::{DirectPath, Lease};
use super::state::{RelayId, State};

pub(super) fn enabled(model: &Unordered, state: &State, actions: &mut Vec<Action>) {
    // Unwritten messages are interchangeable: the first represents them.
    if let Some(message) = state.messages[..model.messages].iter().position(|message| message.row == Row::Unwritten) {
        let is_reusable = state.faults_left > 0
            && state.messages.iter().all(|message| !message.shares_id)
            && state.messages.iter().any(|message| message.is_finished() && !message.is_forgotten());
        for by in RelayId::BOTH {
            actions.push(Action::Enqueue { message, by, reused: false });
            if is_reusable {
                actions.push(Action::Enqueue { message, by, reused: true });
            }
            if state.delays_left > 0 {
                actions.push(Action::EnqueueDelayed { message, by });
            }
        }
    }
    for (message, it) in state.messages.iter().enumerate() {
        let Row::Uncommitted { delayed, .. } = it.row else { continue };
        actions.extend([Action::Commit { message }, Action::Rollback { message }]);
        if delayed {
            continue;
        }
        actions.push(Action::CommitVerified { message });
        if !it.exceeds_slack && state.faults_left > 0 {
            actions.push(Action::ExceedSlack { message });
        }
    }
}

pub(super) fn enqueue(state: &mut State, message: usize, by: RelayId, reused: bool) {
    state.messages[message].row = Row::Uncommitted { by, delayed: false };
    state.messages[message].of_mut(by).direct = DirectPath::Ref;
    if reused {
        state.faults_left -= 1;
        let gone = state.messages.iter_mut().find(|gone| gone.is_finished() && !gone.is_forgotten());
        if let Some(gone) = gone {
            gone.shares_id = true;
            state.messages[message].shares_id = true;
        }
    }
}

pub(super) fn enqueue_delayed(state: &mut State, message: usize, by: RelayId) {
    state.delays_left -= 1;
    state.messages[message].row = Row::Uncommitted { by, delayed: true };
}

pub(super) fn exceed_slack(state: &mut State, message: usize) {
    state.faults_left -= 1;
    state.messages[message].exceeds_slack = true;
}

/// The born lease counts from the INSERT. If the transaction took longer, the lease is over here, as is one that ends
/// right after the commit. A delay is longer than its transaction.
pub(super) fn commit(state: &mut State, message: usize, verified: bool) {
    let it = &mut state.messages[message];
    let Row::Uncommitted { by, delayed } = it.row else { return };
    let due = match (delayed, it.exceeds_slack) {
        (true, _) => Due::Delayed,
        (false, true) => Due::Now,
        (false, false) => Due::LeasedTo(by),
    };
    it.row = Row::Live(Live { due, epoch: 0, attempts: 0, locked_by: None });
    if verified {
        it.of_mut(by).direct = DirectPath::Read(Lease { epoch: 0, running: due != Due::Now });
    }
}

pub(super) fn roll_back(state: &mut State, message: usize) {
    state.messages[message].row = Row::RolledBack;
}
