//! The database: what a claim finds and waits for, what a COMMIT writes, and the prune of the inbox.
//!
//! A claim is one step, behind whatever it has to wait for: it sees what was committed until then.

use super::Consumers;
use super::actions::Action;
use super::bugs::Bug;
use super::job::Claim;
use super::state::State;

/// What the first statements of a transaction find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Another transaction has the lock.
    Waits,
    /// There is nothing to do, and nothing to commit.
    Done,
    /// The partition's offset is not the record's.
    Moved,
    /// The transaction goes on.
    Claimed(Claim),
}

pub(super) fn enabled(model: &Consumers, state: &State, actions: &mut Vec<Action>) {
    if !model.has_inbox() {
        return;
    }
    if state.ages_left > 0 {
        actions.push(Action::MoveStart);
    }
    if removable(model, state) != 0 {
        actions.push(Action::Prune);
    }
}

pub(super) fn move_start(state: &mut State) {
    state.ages_left -= 1;
    state.start += 1;
}

pub(super) fn prune(model: &Consumers, state: &mut State) {
    state.entries &= !removable(model, state);
}

fn removable(model: &Consumers, state: &State) -> u8 {
    let first_kept = match model.bug {
        Some(Bug::PrunesEarly) => u8::MAX,
        Some(Bug::StartMovesLast) => state.start + state.ages_left,
        _ => state.start,
    };
    (0..8).filter(|entry| *entry < first_kept).map(|entry| state.entries & (1 << entry)).sum()
}

/// The record's place among the entries.
fn entry(model: &Consumers, record: usize) -> u8 {
    let of_place = model.has(Bug::EntryOfPlace);
    1 << if of_place { record } else { usize::from(model.log[record].message) }
}

/// `seen` is the start that a bug has read before.
pub(super) fn claim(model: &Consumers, state: &State, record: usize, seen: u8) -> Answer {
    let partition = model.log[record].partition;
    if model.has_offsets() {
        if model.of_partition(partition).any(|other| state.records[other].open().any(|claim| claim != Claim::Outside)) {
            return Answer::Waits;
        }
        if state.next[partition] != model.offset(record) && !model.has(Bug::OffsetNotCompared) {
            return Answer::Moved;
        }
    }
    if !model.has_inbox() {
        return Answer::Claimed(Claim::New);
    }
    let start = if model.has(Bug::StartReadFirst) { seen } else { state.start };
    if model.log[record].message < start {
        return too_old(model, state, record);
    }
    let is_same = |other: &usize| entry(model, *other) == entry(model, record);
    let mut copies = (0..model.log.len()).filter(is_same).map(|copy| &state.records[copy]);
    if copies.any(|copy| copy.open().any(|claim| claim == Claim::New)) {
        return Answer::Waits;
    }
    match state.entries & entry(model, record) == 0 {
        true => Answer::Claimed(Claim::New),
        false => duplicate(model),
    }
}

fn duplicate(model: &Consumers) -> Answer {
    if model.has_offsets() { Answer::Claimed(Claim::Duplicate) } else { Answer::Done }
}

/// With an inbox alone nobody knows whether it was processed: it is parked. The table takes a record once.
fn too_old(model: &Consumers, state: &State, record: usize) -> Answer {
    let it = &state.records[record];
    match model.bug {
        Some(Bug::TooOldIsDuplicate) => duplicate(model),
        Some(Bug::TooOldIsNew) => Answer::Claimed(Claim::Outside),
        _ if model.has_offsets() => Answer::Claimed(Claim::TooOld),
        _ if it.parked => Answer::Done,
        _ if it.open().any(|claim| claim == Claim::TooOld) => Answer::Waits,
        _ => Answer::Claimed(Claim::TooOld),
    }
}

/// What the claim has written is part of the transaction.
pub(super) fn begin(model: &Consumers, state: &mut State, record: usize, claim: Claim) -> Claim {
    if !model.has(Bug::ClaimOutsideTransaction) || claim != Claim::New {
        return claim;
    }
    write_progress(model, state, record, claim);
    Claim::Outside
}

fn write_progress(model: &Consumers, state: &mut State, record: usize, claim: Claim) {
    if model.has_offsets() {
        state.next[model.log[record].partition] = model.offset(record) + 1;
    }
    if model.has_inbox() && claim == Claim::New {
        state.entries |= entry(model, record);
    }
}

/// Everything that the transaction wrote becomes visible at once.
pub(super) fn commit(model: &Consumers, state: &mut State, record: usize, claim: Claim) {
    if claim != Claim::Outside {
        write_progress(model, state, record, claim);
    }
    let it = &mut state.records[record];
    match claim {
        Claim::New | Claim::Outside => it.effects = (it.effects + 1).min(2),
        Claim::Duplicate => {}
        Claim::TooOld if !model.has_offsets() => it.parked = true,
        Claim::TooOld => it.aged = (it.aged + 1).min(2),
    }
}
