//! Checks each step by comparing the states before and after it, whatever the step claims to do.

use super::Consumers;
use super::actions::Action;
use super::job::Claim;
use super::state::{Breach, State};

pub(super) fn audit(model: &Consumers, before: &State, after: &mut State, action: &Action) {
    let found = inverted(model, before, after)
        .or_else(|| claimed_again(model, before, after, action))
        .or_else(|| went_back(before, after));
    after.breach = found.or(after.breach);
}

/// The first effect of a record, with an earlier one of its key that is neither processed nor parked.
fn inverted(model: &Consumers, before: &State, after: &State) -> Option<Breach> {
    let effects = |state: &State, record: usize| state.records[record].effects + state.records[record].aged;
    let appears = |record: &usize| effects(before, *record) < effects(after, *record);
    let is_first = |record: &usize| !model.is_processed(before, *record);
    let is_skipped = |record: usize| {
        let of_key = |other: &usize| model.log[*other].key == model.log[record].key;
        let mut earlier = model.of_partition(model.log[record].partition).take_while(|other| *other < record);
        earlier.any(|other| of_key(&other) && !model.is_handled(after, other))
    };
    let mut first = (0..model.log.len()).filter(appears).filter(is_first);
    first.any(is_skipped).then_some(Breach::Inverted)
}

/// A handler would run again, whether or not its transaction commits. A copy that is too old is not known as such.
fn claimed_again(model: &Consumers, before: &State, after: &State, action: &Action) -> Option<Breach> {
    let (Action::Claim { record, .. } | Action::LateClaim { record, .. } | Action::ClaimFails { record, .. }) = *action
    else {
        return None;
    };
    let running = |state: &State| {
        let claims = state.records[record].open().filter(|claim| matches!(claim, Claim::New | Claim::Outside));
        claims.count()
    };
    (model.is_processed(before, record) && running(after) > running(before)).then_some(Breach::ClaimedAgain)
}

fn went_back(before: &State, after: &State) -> Option<Breach> {
    before.next.iter().zip(&after.next).any(|(was, is)| is < was).then_some(Breach::WentBack)
}
