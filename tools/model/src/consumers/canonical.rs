//! Merges states that nothing can tell apart. It drops only what no step and no property uses.

use std::cmp::min;

use super::Consumers;
use super::job::Late;
use super::state::State;

/// Drops what cannot matter any more.
pub(super) fn forget(model: &Consumers, state: &mut State) {
    if model.bug.is_some() {
        return;
    }
    for record in 0..model.log.len() {
        let is_futile = is_claim_futile(model, state, record);
        let it = &mut state.records[record];
        for late in &mut it.late {
            if is_futile && matches!(late, Late::Taken { .. }) {
                *late = Late::No;
            }
        }
        it.late.sort_unstable();
    }
}

/// Whether a claim of it will always find that it is done, however long it takes to come.
fn is_claim_futile(model: &Consumers, state: &State, record: usize) -> bool {
    let of = model.log[record];
    let is_offset_past = model.has_offsets() && state.next[of.partition] > model.offset(record);
    let is_entry_kept =
        !model.has_offsets() && of.message >= state.start + state.ages_left && state.entries & (1 << of.message) != 0;
    is_offset_past || is_entry_kept
}

/// The representative of both equivalent states: members are interchangeable.
pub(super) fn representative(state: &State) -> State {
    min(*state, state.swapped())
}
