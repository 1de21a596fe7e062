//! The group: who reads a partition, from where on, and what the broker is told.
//!
//! An offset arrives when it is sent: one that is late is one that its sender sends late, after it has lost the partition.

use super::Consumers;
use super::actions::Action;
use super::bugs::Bug;
use super::member::MemberId;
use super::state::{Open, State, View};

pub(super) fn enabled(model: &Consumers, state: &State, actions: &mut Vec<Action>) {
    for partition in model.partitions() {
        if state.owners[partition].is_some() {
            if state.moves_left > 0 {
                actions.push(Action::Revoke { partition });
            }
            if state.faults_left > 0 {
                actions.push(Action::LoseSession { partition });
            }
        }
        for member in MemberId::BOTH {
            let is_owner = state.is_owner(member, partition);
            match state.view(member, partition) {
                View::No if state.owners[partition].is_none() => actions.push(Action::Assign { member, partition }),
                View::No => {}
                View::Assigned => actions.push(Action::Open { member, partition }),
                View::Opening { .. } => actions.push(Action::Start { member, partition }),
                View::Open(open) => enabled_open(model, state, member, partition, open, actions),
            }
            if !is_owner && state.view(member, partition) != View::No {
                actions.push(Action::LearnLoss { member, partition });
            }
        }
    }
}

fn enabled_open(
    model: &Consumers,
    state: &State,
    member: MemberId,
    partition: usize,
    open: Open,
    actions: &mut Vec<Action>,
) {
    let is_owner = state.is_owner(member, partition);
    if open.is_closing && is_owner {
        actions.push(Action::HandOver { member, partition });
        if state.faults_left > 0 && !open.is_moved {
            actions.push(Action::HandOverUncommitted { member, partition });
        }
    }
    let is_quiet = !model.of_partition(partition).any(|record| state.records[record].of(member).is_running());
    if open.is_moved {
        if is_quiet && !open.is_closing {
            actions.push(Action::Reopen { member, partition });
        }
        return;
    }
    let next = to_commit(model, partition, open);
    if state.committed[partition] != next && (is_owner || open.told != Some(next)) {
        actions.push(Action::CommitOffset { member, partition });
    }
}

fn to_commit(model: &Consumers, partition: usize, open: Open) -> u8 {
    if model.has(Bug::OffsetBeforeCommit) { model.end(partition) } else { open.next }
}

pub(super) fn assign(state: &mut State, member: MemberId, partition: usize) {
    state.owners[partition] = Some(member);
    state.set_view(member, partition, View::Assigned);
}

/// The database's offset decides, if there is one.
pub(super) fn open(model: &Consumers, state: &mut State, member: MemberId, partition: usize) {
    if model.has(Bug::OpeningOverwritesOffset) {
        state.next[partition] = state.committed[partition];
    }
    let start = if model.has_offsets() { state.next[partition] } else { state.committed[partition] };
    state.set_view(member, partition, View::Opening { start });
}

/// The broker may have been told more since it was asked.
pub(super) fn start(state: &mut State, member: MemberId, partition: usize) {
    let View::Opening { start } = state.view(member, partition) else { return };
    state.committed[partition] = start;
    let open = Open { next: start, is_closing: false, is_moved: false, told: None };
    state.set_view(member, partition, View::Open(open));
}

pub(super) fn commit_offset(model: &Consumers, state: &mut State, member: MemberId, partition: usize) {
    let Some(open) = state.open(member, partition) else { return };
    let next = to_commit(model, partition, open);
    let is_owner = state.is_owner(member, partition);
    state.committed[partition] = next;
    if let (false, Some(open)) = (is_owner, state.open_mut(member, partition)) {
        open.told = Some(next);
    }
}

pub(super) fn revoke(state: &mut State, partition: usize) {
    let Some(member) = state.owners[partition] else { return };
    state.moves_left -= 1;
    match state.open_mut(member, partition) {
        Some(open) => open.is_closing = true,
        None => {
            state.owners[partition] = None;
            state.set_view(member, partition, View::No);
        }
    }
}

/// The broker takes the offset before the member's next request, on the same connection.
pub(super) fn hand_over(model: &Consumers, state: &mut State, member: MemberId, partition: usize, commits: bool) {
    let Some(open) = state.open(member, partition) else { return };
    if !commits {
        state.faults_left -= 1;
    } else if !open.is_moved {
        let running = model.of_partition(partition).filter(|record| state.records[*record].of(member).is_running());
        let begun = running.map(|record| model.offset(record) + 1).max();
        let passed = begun.filter(|_| model.has(Bug::HandsOverUnfinished)).unwrap_or(open.next);
        state.committed[partition] = passed.max(open.next);
    }
    state.owners[partition] = None;
    forget(model, state, member, partition, View::No);
}

pub(super) fn lose_session(state: &mut State, partition: usize) {
    state.faults_left -= 1;
    state.owners[partition] = None;
}

/// Ends the assignment, or begins a new one of the same partition. What still runs goes on.
pub(super) fn forget(model: &Consumers, state: &mut State, member: MemberId, partition: usize, then: View) {
    for record in model.of_partition(partition) {
        state.records[record].let_go(member);
    }
    state.set_view(member, partition, then);
}
