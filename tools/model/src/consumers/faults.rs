//! The faults of a process.

use super::actions::Action;
use super::job::{Late, Step};
use super::member::MemberId;
use super::state::{State, View};

pub(super) fn enabled(state: &State, actions: &mut Vec<Action>) {
    if state.faults_left == 0 {
        return;
    }
    let has_any = |member: &MemberId| state.views[*member as usize].iter().any(|view| *view != View::No);
    actions.extend(MemberId::BOTH.into_iter().filter(has_any).map(|member| Action::Crash { member }));
}

/// Its transactions are rolled back, except those whose COMMIT is sent. Its partitions are free: how long the broker
/// waits for it makes no difference.
pub(super) fn crash(state: &mut State, member: MemberId) {
    state.faults_left -= 1;
    for it in &mut state.records {
        if let Step::Committing(claim) = it.of(member) {
            it.add_late(Late::Open(claim));
        }
        it.set(member, Step::Idle);
    }
    for partition in 0..state.owners.len() {
        if state.is_owner(member, partition) {
            state.owners[partition] = None;
        }
        state.set_view(member, partition, View::No);
    }
}
