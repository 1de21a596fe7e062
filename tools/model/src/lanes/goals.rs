//! States that some execution must reach: a model in which they cannot happen would satisfy every property.

use stateright::Property;

use super::message::{LaneRow, Message, Progress, RelayView, Row, Stray};
use super::state::{Owned, Owner, State};
use super::{Lanes, Policy};

/// A state to reach, and the scope it takes.
struct Goal {
    name: &'static str,
    policy: Option<Policy>,
    is_reached: fn(&Lanes, &State) -> bool,
}

impl Goal {
    const fn new(name: &'static str, is_reached: fn(&Lanes, &State) -> bool) -> Self {
        Self { name, policy: None, is_reached }
    }

    const fn only(self, policy: Policy) -> Self {
        Self { policy: Some(policy), ..self }
    }
}

/// Within two faults and one hand-over.
const GOALS: &[Goal] = &[
    Goal::new("two keys are in flight at once", |_, state| sending(state) == 2),
    Goal::new("the next message of a key is sent before the previous one is settled", |model, state| {
        pairs(model).any(|(first, then)| {
            is(state, first, |view| view.progress() == Some(Progress::Delivered))
                && is(state, then, |view| view.lane_row == LaneRow::Sending)
        })
    }),
    Goal::new("a row becomes visible after a higher id", |_, state| {
        state.messages[0].row == Row::Live && state.messages[1].copies > 0 && state.messages[0].copies == 0
    }),
    Goal::new("a row is skipped", |_, state| some(state, |it| it.row == Row::Live && it.passed[0])),
    Goal::new("a lane is released with a message in flight", |_, state| {
        state.owned.contains(&Some(Owned { draining: true })) && sending(state) > 0
    }),
    Goal::new("a lane is handed over to the other, with messages", |model, state| {
        model.moves > state.moves_left
            && model.faults == state.faults_left
            && some(state, |it| it.row == Row::Settled)
            && some(state, |it| it.view[0].lane_row == LaneRow::Sending)
            && some(state, |it| it.row == Row::Live)
    }),
    Goal::new("an owner waits for what the last one sent", |_, state| {
        state.lane.quiet
            && some(state, |it| it.stray == Some(Stray::Orphaned))
            && state.owned.iter().any(Option::is_some)
    }),
    Goal::new("a lane is lost with a message in flight, and taken again by the same node", |_, state| {
        some(state, |it| {
            it.view.iter().zip(state.owned).any(|(view, owned)| {
                owned.is_some() && view.is_still_in_flight() && view.entry.is_some_and(|entry| !entry.is_current)
            })
        })
    }),
    Goal::new("a key waits for what is in flight from an earlier ownership", |_, state| {
        some(state, |it| view(it, |view| view.lane_row == LaneRow::Blocked && view.entry.is_some()))
    }),
    Goal::new("a paused node sends what another has taken over", |_, state| {
        some(state, |it| it.view.iter().all(|view| view.progress() == Some(Progress::InClient)))
    }),
    Goal::new("a message that timed out arrives after the next message of its key", |model, state| {
        pairs(model).any(|(first, then)| {
            state.messages[first].stray == Some(Stray::TimedOut) && state.messages[then].copies > 0
        })
    }),
    Goal::new("a failure arrives when another node owns the lane", |_, state| {
        some(state, |it| {
            view(it, |view| {
                matches!(view.progress(), Some(Progress::Failed(_)))
                    && view.entry.is_some_and(|entry| !entry.is_current)
            })
        }) && state.owned.iter().any(Option::is_some)
    }),
    Goal::new("a key is blocked and another goes on", |model, state| {
        pairs(model).next().is_some()
            && some(state, |it| view(it, |view| view.lane_row == LaneRow::Blocked))
            && sending(state) > 0
    }),
    Goal::new("the answer to a take is lost", |_, state| {
        state.lane.leased && matches!(state.lane.owner, Owner::Of(_)) && state.owned == [None; 2]
    }),
    Goal::new("a message becomes a dead letter, and the next one of its key is sent", |model, state| {
        pairs(model)
            .any(|(first, then)| state.messages[first].row == Row::DeadLetter && state.messages[then].copies > 0)
    })
    .only(Policy::DeadLetter),
    Goal::new("a refused message is delivered in the end", |_, state| {
        state.messages[0].row == Row::Settled && state.faults_left == 0 && state.breach.is_none()
    })
    .only(Policy::BlockKey),
];

pub(super) fn of(model: &Lanes) -> Vec<Property<Lanes>> {
    let within = GOALS.iter().filter(|goal| goal.policy.is_none_or(|policy| policy == model.policy));
    within.map(|goal| Property::sometimes(goal.name, goal.is_reached)).collect()
}

/// Two messages of one key, the earlier one first.
fn pairs(model: &Lanes) -> impl Iterator<Item = (usize, usize)> {
    let keys = model.keys;
    let first = (0..keys.len()).flat_map(move |first| (first + 1..keys.len()).map(move |then| (first, then)));
    first.filter(move |(first, then)| keys[*first] == keys[*then])
}

fn some(state: &State, is: impl Fn(&Message) -> bool) -> bool {
    state.messages.iter().any(is)
}

fn view(it: &Message, is: impl Fn(&RelayView) -> bool) -> bool {
    it.view.iter().any(is)
}

fn is(state: &State, message: usize, is: impl Fn(&RelayView) -> bool) -> bool {
    view(&state.messages[message], is)
}

fn sending(state: &State) -> usize {
    state.messages.iter().filter(|it| view(it, |view| view.lane_row == LaneRow::Sending)).count()
}
