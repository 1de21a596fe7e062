//! What must hold in every state, and how every execution must end.

use stateright::Property;

use super::Lanes;
use super::message::{Message, Progress, Row};
use super::state::{Breach, State};
use crate::relay::RelayId;

/// I1: the broker stored what was removed as delivered.
pub const NOTHING_LOST: &str = "I1: nothing is lost";
/// I1: no consumer ever sees an uncommitted message.
pub const NO_PHANTOM: &str = "I1: no phantom";
/// I6, the guarantee: of two messages of a key, the one that was committed before the other was enqueued appears first.
pub const IN_ORDER: &str = "I6: keys appear in order";
/// I6, the mechanism: for messages that nobody else has settled, and that no process stalled with.
pub const ONE_IN_FLIGHT: &str = "I6: one message of a key is in flight in a process";
/// I4.
pub const FENCED: &str = "I4: only a lane's owner writes failures";
/// I5, for lanes.
pub const ONE_OWNER: &str = "I5: at most one node believes that it owns the lane";
/// I5, as intended: the database agrees that the node is the owner.
pub const OWNER_OWNS: &str = "I5: a node that believes that it owns the lane owns it";
/// The purpose of the quiet period.
pub const ONE_SENDER: &str = "I5: nothing is sent next to what another owner has in flight";
/// I5: second sends. Handing over a lane without a fault makes none.
pub const COPIES_EXPLAINED: &str = "I5: every second copy has a reason";
/// A process never sends again what it knows to be delivered, even if it lost the lane meanwhile.
pub const SENT_ONCE: &str = "I5: nothing sends again what it knows to be delivered";
/// The policy `BlockKey`.
pub const HELD: &str = "no message becomes a dead letter whose key holds";
/// Every committed message ends settled or dead, and no relay holds anything of it.
pub const EVERYTHING_ENDS: &str = "everything ends";

pub(super) fn all() -> Vec<Property<Lanes>> {
    vec![
        Property::always(NOTHING_LOST, |_, state| each(state, |it| it.row != Row::Settled || it.copies > 0)),
        Property::always(NO_PHANTOM, |_, state| each(state, |it| is_committed(it) || it.copies == 0)),
        Property::always(IN_ORDER, |_, state| !is_broken(state, Breach::Inverted)),
        Property::always(ONE_IN_FLIGHT, is_one_in_flight),
        Property::always(FENCED, |_, state| !is_broken(state, Breach::ForeignFence)),
        Property::always(ONE_OWNER, |_, state: &State| state.owned.iter().flatten().count() <= 1),
        Property::always(OWNER_OWNS, |_, state: &State| {
            RelayId::BOTH.iter().all(|relay| state.owned(*relay).is_none() || state.lane.is_of(*relay))
        }),
        Property::always(ONE_SENDER, |_, state| !is_broken(state, Breach::SentConcurrently)),
        Property::always(COPIES_EXPLAINED, |_, state| each(state, |it| it.copies < 2 || it.duplicate_allowed)),
        Property::always(SENT_ONCE, |_, state| each(state, |it| !is_sent_again(it))),
        Property::always(HELD, |_, state| !is_broken(state, Breach::DeadLettered)),
        Property::eventually(EVERYTHING_ENDS, |model: &Lanes, state: &State| {
            state.messages[..model.keys.len()].iter().all(Message::has_ended)
        }),
    ]
}

fn is_broken(state: &State, breach: Breach) -> bool {
    state.breach == Some(breach)
}

fn each(state: &State, holds: impl Fn(&Message) -> bool) -> bool {
    state.messages.iter().all(holds)
}

fn is_committed(it: &Message) -> bool {
    !matches!(it.row, Row::Unwritten | Row::Uncommitted | Row::RolledBack)
}

fn is_one_in_flight(model: &Lanes, state: &State) -> bool {
    RelayId::BOTH.iter().all(|relay| {
        let in_flight = |key: u8| {
            let of_key = state.messages.iter().zip(model.keys).filter(move |(_, of)| **of == key);
            of_key.filter(|(it, _)| it.row == Row::Live && it.of(*relay).is_still_in_flight()).count()
        };
        model.keys.iter().all(|key| in_flight(*key) <= 1)
    })
}

fn is_sent_again(it: &Message) -> bool {
    let is_sending = |relay: &RelayId| it.of(*relay).progress() == Some(Progress::InClient);
    RelayId::BOTH.iter().any(|relay| it.acknowledged_to[*relay as usize] && is_sending(relay))
}
