//! States that some execution must reach: a model in which they cannot happen would satisfy every property.

use stateright::Property;

use super::message::{Due, Message, Row};
use super::relay_view::{Class, DirectPath, Entry, Holder, Progress, RelayView, Stage};
use super::state::{Breaker, Claim, RelayId, State};
use super::{ClaimMode, Unordered};

/// A state to reach, and the scope it takes.
struct Goal {
    name: &'static str,
    messages: usize,
    faults: u8,
    claim_mode: Option<ClaimMode>,
    delays: u8,
    redrives: u8,
    is_reached: fn(&Unordered, &State) -> bool,
}

impl Goal {
    const fn new(name: &'static str, messages: usize, faults: u8, is_reached: fn(&Unordered, &State) -> bool) -> Self {
        Self { name, messages, faults, claim_mode: None, delays: 0, redrives: 0, is_reached }
    }

    const fn delayed(self) -> Self {
        Self { delays: 1, ..self }
    }

    const fn redriven(self) -> Self {
        Self { redrives: 1, ..self }
    }

    const fn only(self, claim_mode: ClaimMode) -> Self {
        Self { claim_mode: Some(claim_mode), ..self }
    }

    fn is_within(&self, model: &Unordered) -> bool {
        self.messages <= model.messages
            && self.faults <= model.faults
            && self.delays <= model.delays
            && self.redrives <= model.redrives
            && self.claim_mode.is_none_or(|claim_mode| claim_mode == model.claim_mode)
    }
}

const GOALS: &[Goal] = &[
    Goal::new("a message is delivered", 1, 0, |_, state| some(state, |it| it.row == Row::Settled)),
    Goal::new("a ref waits whose transaction was rolled back", 1, 0, |_, state| {
        some(state, |it| it.row == Row::RolledBack && view(it, |view| view.direct == DirectPath::Ref))
    }),
    Goal::new("a claim settles what it sent", 1, 0, |_, state| entry(state, Holder::Claim, Progress::Delivered)),
    Goal::new("a claim keeps what is in flight", 1, 0, |_, state| {
        some(state, |it| view(it, |view| view.lease().is_some_and(|lease| lease.running && lease.epoch > 0)))
    }),
    Goal::new("two claims are open", 2, 0, |_, state| state.relays.iter().all(|relay| relay.claim == Claim::Open)),
    Goal::new("a second copy is stored", 1, 1, |_, state| some(state, |it| it.copies > 1)),
    Goal::new("a second copy follows a lost acknowledgement", 1, 1, |_, state| {
        state.relays.iter().all(|relay| relay.claim == Claim::None && relay.breaker == Breaker::Closed)
            && some(state, |it| it.copies > 1 && failed(it, Class::Temporary) && it.live().is_some())
    }),
    Goal::new("a late ref meets a row of another epoch", 1, 1, |_, state| {
        some(state, |it| {
            it.live().is_some_and(|live| live.epoch > 0) && view(it, |view| view.direct == DirectPath::Ref)
        })
    }),
    Goal::new("a lease is over with its message in flight", 1, 1, |_, state| {
        some(state, |it| view(it, |view| view.lease().is_some_and(|lease| !lease.running)))
    }),
    Goal::new("a holder remembers an old epoch", 1, 1, |_, state| some(state, is_held_under_an_old_epoch)),
    Goal::new("a refused message waits", 1, 1, |_, state| {
        some(state, |it| it.live().is_some_and(|live| live.attempts > 0 && live.due == Due::Later))
    }),
    Goal::new("a claim goes on without its locks", 1, 1, |_, state| {
        RelayId::BOTH
            .iter()
            .any(|relay| state.relay(*relay).claim == Claim::Cut && some(state, |it| it.of(*relay).is_ready()))
    })
    .only(ClaimMode::Locked),
    Goal::new("a claim fails after an acknowledgement", 1, 1, |_, state| {
        entry(state, Holder::Lost, Progress::Delivered)
    }),
    Goal::new("a claimed row goes back", 1, 1, |_, state| {
        some(state, |it| view(it, |view| view.claimed.is_some_and(|claimed| claimed.stage == Stage::Untouched)))
    }),
    Goal::new("a row lies below a watermark", 1, 1, |_, state| some(state, |it| it.live().is_some() && it.hidden[0])),
    Goal::new("a single row is tried", 1, 1, |_, state| {
        state.relays.iter().any(|relay| relay.breaker == Breaker::HalfOpen && relay.claim == Claim::Open)
    }),
    Goal::new("another relay has settled what is in flight", 1, 1, |_, state| {
        some(state, |it| it.row == Row::Settled && view(it, |view| view.progress() == Some(Progress::InClient)))
    }),
    Goal::new("a message becomes a dead letter", 1, 2, |_, state| some(state, |it| it.row == Row::DeadLetter)),
    Goal::new("a live row has the id of one that a relay will settle", 2, 2, |_, state| {
        some(state, |it| it.shares_id && it.live().is_some()) && some(state, |it| it.shares_id && is_delivered(it))
    }),
    Goal::new("a dead letter turns out to be delivered", 1, 3, |_, state| {
        some(state, |it| it.row == Row::DeadLetter && is_delivered(it))
    }),
    Goal::new("a message waits for its time", 1, 0, |_, state| {
        some(state, |it| it.live().is_some_and(|live| live.due == Due::Delayed))
    })
    .delayed(),
    Goal::new("a delayed message is delivered", 1, 0, |model, state| {
        state.delays_left < model.delays && some(state, |it| it.row == Row::Settled)
    })
    .delayed(),
    Goal::new("a redriven message is delivered", 1, 2, |model, state| {
        state.redrives_left < model.redrives && some(state, |it| it.row == Row::Settled)
    })
    .redriven(),
    Goal::new("a redriven message is live, and was delivered", 1, 3, |model, state| {
        state.redrives_left < model.redrives && some(state, |it| it.live().is_some() && is_delivered(it))
    })
    .redriven(),
];

pub(super) fn of(model: &Unordered) -> Vec<Property<Unordered>> {
    let within = GOALS.iter().filter(|goal| goal.is_within(model));
    within.map(|goal| Property::sometimes(goal.name, goal.is_reached)).collect()
}

fn some(state: &State, is: impl Fn(&Message) -> bool) -> bool {
    state.messages.iter().any(is)
}

fn view(it: &Message, is: impl Fn(&RelayView) -> bool) -> bool {
    it.view.iter().any(is)
}

fn entry(state: &State, holder: Holder, progress: Progress) -> bool {
    some(state, |it| it.live().is_some() && view(it, |view| view.entry == Some(Entry { holder, progress })))
}

fn failed(it: &Message, class: Class) -> bool {
    view(it, |view| view.progress() == Some(Progress::Failed(class)))
}

fn is_delivered(it: &Message) -> bool {
    view(it, |view| view.progress() == Some(Progress::Delivered))
}

fn is_held_under_an_old_epoch(it: &Message) -> bool {
    let Some(live) = it.live() else { return false };
    view(it, |view| view.lease().is_some_and(|lease| lease.epoch < live.epoch))
}
