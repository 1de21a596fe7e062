//! Late jobs: of an assignment that is over, or a COMMIT whose answer was lost. Nobody takes their outcome, so only the
//! database matters.
//!
//! A job outlives the crash of its process here, which allows more than can happen. A record has at most two of them.

use super::Consumers;
use super::actions::Action;
use super::database::{self, Answer};
use super::job::Late;
use super::state::State;

pub(super) fn enabled(model: &Consumers, state: &State, actions: &mut Vec<Action>) {
    for (record, it) in state.records.iter().enumerate() {
        for (job, late) in it.late.iter().enumerate() {
            match *late {
                Late::No => {}
                Late::Taken { seen } => {
                    actions.push(Action::LateEnd { record, job });
                    if database::claim(model, state, record, seen) != Answer::Waits {
                        actions.push(Action::LateClaim { record, job });
                    }
                }
                Late::Open(_) => {
                    actions.push(Action::LateEnd { record, job });
                    actions.push(Action::LateCommit { record, job });
                }
            }
        }
    }
}

pub(super) fn claim(model: &Consumers, state: &mut State, record: usize, job: usize) {
    let Late::Taken { seen } = state.records[record].late[job] else { return };
    let late = match database::claim(model, state, record, seen) {
        Answer::Waits => return,
        Answer::Done | Answer::Moved => Late::No,
        Answer::Claimed(claim) => Late::Open(database::begin(model, state, record, claim)),
    };
    set(state, record, job, late);
}

pub(super) fn commit(model: &Consumers, state: &mut State, record: usize, job: usize) {
    let Late::Open(claim) = state.records[record].late[job] else { return };
    database::commit(model, state, record, claim);
    set(state, record, job, Late::No);
}

pub(super) fn end(state: &mut State, record: usize, job: usize) {
    set(state, record, job, Late::No);
}

fn set(state: &mut State, record: usize, job: usize, late: Late) {
    let it = &mut state.records[record];
    it.late[job] = late;
    it.late.sort_unstable();
}
