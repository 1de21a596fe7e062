//! A worker: the transaction of a record.

use super::Consumers;
use super::actions::Action;
use super::bugs::Bug;
use super::database::{self, Answer};
use super::job::{Claim, Late, Step};
use super::member::MemberId;
use super::state::State;

pub(super) fn enabled(model: &Consumers, state: &State, actions: &mut Vec<Action>) {
    let may_fail = state.faults_left > 0;
    for member in MemberId::BOTH {
        for record in 0..model.log.len() {
            match state.records[record].of(member) {
                Step::Idle if is_its_turn(model, state, member, record) => {
                    actions.push(Action::Take { member, record })
                }
                Step::Idle | Step::Done => {}
                Step::Taken { seen } => {
                    if database::claim(model, state, record, seen) != Answer::Waits {
                        actions.push(Action::Claim { member, record });
                    }
                    if may_fail {
                        actions.push(Action::ClaimFails { member, record });
                    }
                }
                Step::Claimed(claim) => {
                    let runs = is_handled(model, claim);
                    actions.push(if runs {
                        Action::Handle { member, record }
                    } else {
                        Action::SendCommit { member, record }
                    });
                    if may_fail {
                        actions.push(Action::Fail { member, record });
                    }
                }
                Step::Handled(_) => {
                    actions.push(Action::SendCommit { member, record });
                    if may_fail {
                        actions.push(Action::Fail { member, record });
                    }
                }
                Step::Committing(_) => {
                    actions.push(Action::Commit { member, record });
                    if may_fail {
                        actions.push(Action::RefuseCommit { member, record });
                        actions.push(Action::LoseAnswer { member, record });
                    }
                }
                Step::Committed => {
                    actions.push(Action::Acknowledge { member, record });
                    if may_fail {
                        actions.push(Action::LoseAnswer { member, record });
                    }
                }
            }
        }
    }
}

/// Whether the handler runs for it. A record that is too old is parked, unless the offset says that nobody has processed it.
fn is_handled(model: &Consumers, claim: Claim) -> bool {
    match claim {
        Claim::New | Claim::Outside => true,
        Claim::Duplicate => false,
        Claim::TooOld => model.has_offsets(),
    }
}

/// The first of its key that is not done; with offsets in the database, the first of its partition.
fn is_its_turn(model: &Consumers, state: &State, member: MemberId, record: usize) -> bool {
    let of = model.log[record];
    let Some(open) = state.open(member, of.partition) else { return false };
    if open.is_closing || open.is_moved || model.offset(record) < open.next {
        return false;
    }
    let is_before = |other: &usize| *other < record && model.offset(*other) >= open.next;
    let of_queue = |other: &usize| model.has_offsets() || model.log[*other].key == of.key;
    let mut before = model.of_partition(of.partition).filter(is_before).filter(of_queue);
    before.all(|other| state.records[other].of(member) == Step::Done) || model.has(Bug::TwoOfKey)
}

pub(super) fn take(model: &Consumers, state: &mut State, member: MemberId, record: usize) {
    let seen = if model.has(Bug::StartReadFirst) { state.start } else { 0 };
    state.records[record].set(member, Step::Taken { seen });
}

pub(super) fn claim(model: &Consumers, state: &mut State, member: MemberId, record: usize) {
    let Step::Taken { seen } = state.records[record].of(member) else { return };
    match database::claim(model, state, record, seen) {
        Answer::Waits => {}
        Answer::Done => finish(model, state, member, record),
        Answer::Moved => {
            state.records[record].set(member, Step::Idle);
            if let Some(open) = state.open_mut(member, model.log[record].partition) {
                open.is_moved = true;
            }
        }
        Answer::Claimed(claim) => {
            let claim = database::begin(model, state, record, claim);
            state.records[record].set(member, Step::Claimed(claim));
        }
    }
}

pub(super) fn claim_fails(model: &Consumers, state: &mut State, member: MemberId, record: usize) {
    state.faults_left -= 1;
    let swallowed = model.has(Bug::ClaimErrorSwallowed);
    state.records[record].set(member, if swallowed { Step::Claimed(Claim::Outside) } else { Step::Idle });
}

pub(super) fn handle(state: &mut State, member: MemberId, record: usize) {
    let Step::Claimed(claim) = state.records[record].of(member) else { return };
    state.records[record].set(member, Step::Handled(claim));
}

/// It is rolled back, and tried again.
pub(super) fn fail(state: &mut State, member: MemberId, record: usize) {
    state.faults_left -= 1;
    state.records[record].set(member, Step::Idle);
}

pub(super) fn send_commit(state: &mut State, member: MemberId, record: usize) {
    let Some(claim) = state.records[record].of(member).claim() else { return };
    state.records[record].set(member, Step::Committing(claim));
}

pub(super) fn commit(model: &Consumers, state: &mut State, member: MemberId, record: usize) {
    let Some(claim) = state.records[record].of(member).claim() else { return };
    database::commit(model, state, record, claim);
    state.records[record].set(member, Step::Committed);
}

/// The record is tried again, behind what becomes of its COMMIT.
pub(super) fn lose_answer(model: &Consumers, state: &mut State, member: MemberId, record: usize) {
    state.faults_left -= 1;
    let it = &mut state.records[record];
    if let Some(claim) = it.of(member).claim() {
        it.add_late(Late::Open(claim));
    }
    it.set(member, Step::Idle);
    if model.has(Bug::LostAnswerIsDone) {
        finish(model, state, member, record);
    }
}

/// The watermark moves on over all that is done.
pub(super) fn finish(model: &Consumers, state: &mut State, member: MemberId, record: usize) {
    let partition = model.log[record].partition;
    state.records[record].set(member, Step::Done);
    let Some(mut next) = state.open(member, partition).map(|open| open.next) else { return };
    let is_gap_passed = model.has(Bug::OffsetPassesGap);
    for other in model.of_partition(partition) {
        let offset = model.offset(other);
        let is_done = state.records[other].of(member) == Step::Done;
        if is_done && (offset == next || is_gap_passed) {
            state.records[other].set(member, Step::Idle);
            next = next.max(offset + 1);
        }
    }
    if let Some(open) = state.open_mut(member, partition) {
        open.next = next;
    }
}
