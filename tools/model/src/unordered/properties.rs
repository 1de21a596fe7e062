//! What must hold in every state, and how every execution must end.

use stateright::Property;

use super::Unordered;
use super::admin;
use super::message::{Message, Row};
use super::relay_view::Progress;
use super::state::{Breach, Claim, RelayId, State};

/// I1: the broker stored what was removed as delivered.
pub const NOTHING_LOST: &str = "I1: nothing is lost";
/// I1: no consumer ever sees an uncommitted message.
pub const NO_PHANTOM: &str = "I1: no phantom";
/// I2 ensures it: a watermark passes only rows that were not visible.
pub const NOTHING_HIDDEN: &str = "I2, I8: a sweep sees every due row";
/// I4: the first half.
pub const EPOCHS_RISE: &str = "I4: every write but extend raises the epoch";
/// I4: the second half.
pub const EPOCHS_PROTECT: &str = "I4: nothing is written under another epoch";
/// I5, as the protocol states it.
pub const ONE_HOLDER: &str = "I5: at most one holder believes that it may send";
/// I5, as intended: the database agrees with the holder.
pub const HOLDER_OWNS: &str = "I5: a relay that believes that it holds a row holds it";
/// I5: second sends.
pub const COPIES_EXPLAINED: &str = "I5: every second copy has a reason";
/// Rule 5: a process never sends again what it knows to be delivered, whatever became of its claim.
pub const SENT_ONCE: &str = "I5: nothing sends again what it knows to be delivered";
/// I7.
pub const ATTEMPTS_EARNED: &str = "I7: only a refusal spends an attempt";
/// For delayed messages.
pub const NOT_BEFORE_DUE: &str = "nothing is sent before its time";
/// Every committed message ends settled or dead, and no relay holds anything of it.
pub const EVERYTHING_ENDS: &str = "everything ends";

pub(super) fn all() -> Vec<Property<Unordered>> {
    vec![
        Property::always(NOTHING_LOST, |_, state| each(state, |it| it.row != Row::Settled || it.copies > 0)),
        Property::always(NO_PHANTOM, |_, state| each(state, |it| is_committed(it) || it.copies == 0)),
        Property::always(NOTHING_HIDDEN, |_, state| each(state, |it| it.hidden == [false; 2] || it.exceeds_slack)),
        Property::always(EPOCHS_RISE, |_, state| !has(state, &[Breach::EpochKept, Breach::EpochFell])),
        Property::always(EPOCHS_PROTECT, |_, state| !has(state, &[Breach::ForeignEpoch])),
        Property::always(ONE_HOLDER, |_, state| each(state, |it| believers(state, it).count() <= 1)),
        Property::always(HOLDER_OWNS, |_, state| each(state, |it| is_held_by_its_believers(state, it))),
        Property::always(COPIES_EXPLAINED, |_, state| each(state, |it| it.copies < 2 || it.duplicate_allowed)),
        Property::always(SENT_ONCE, |_, state| each(state, |it| !is_sent_again(it))),
        Property::always(ATTEMPTS_EARNED, |_, state| !has(state, &[Breach::AttemptSpent])),
        Property::always(NOT_BEFORE_DUE, |_, state| {
            !has(state, &[Breach::BeforeDue]) && each(state, |it| !it.is_early())
        }),
        Property::eventually(EVERYTHING_ENDS, |model, state| {
            each_of(model, state, Message::has_ended) && admin::is_done(state)
        }),
    ]
}

fn has(state: &State, breaches: &[Breach]) -> bool {
    state.breach.is_some_and(|breach| breaches.contains(&breach))
}

fn each(state: &State, holds: impl Fn(&Message) -> bool) -> bool {
    state.messages.iter().all(holds)
}

fn each_of(model: &Unordered, state: &State, holds: impl Fn(&Message) -> bool) -> bool {
    state.messages[..model.messages].iter().all(holds)
}

fn is_committed(it: &Message) -> bool {
    !matches!(it.row, Row::Unwritten | Row::Uncommitted { .. } | Row::RolledBack)
}

/// The relays that believe that they hold a message. A claim whose connection broke is left out: within its window it
/// cannot know, and its sends are counted among the copies.
fn believers<'a>(state: &'a State, it: &'a Message) -> impl Iterator<Item = RelayId> + 'a {
    let is_cut = |relay: &RelayId| state.relay(*relay).claim == Claim::Cut && it.of(*relay).is_ready();
    RelayId::BOTH.into_iter().filter(move |relay| it.of(*relay).believes_to_hold() && !is_cut(relay))
}

fn is_held_by_its_believers(state: &State, it: &Message) -> bool {
    it.live().is_none_or(|live| believers(state, it).all(|who| live.holder() == Some(who)))
}

fn is_sent_again(it: &Message) -> bool {
    let is_sending = |relay: &RelayId| it.of(*relay).progress() == Some(Progress::InClient);
    RelayId::BOTH.iter().any(|relay| it.acknowledged_to[*relay as usize] && is_sending(relay))
}
