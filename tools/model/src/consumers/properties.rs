//! What must hold in every state, and how every execution must end.

use stateright::Property;

use super::Consumers;
use super::job::Record;
use super::member::MemberId;
use super::state::{Breach, State};

/// The guarantee. Without an inbox it is about each record, with one about each message.
pub const ONCE: &str = "each message has its effect at most once";
/// The mechanism: what comes again is recognised before a handler runs, also if the broker's offset went back.
pub const RECOGNISED: &str = "no handler runs for what is processed";
/// The guarantee of the order.
pub const IN_ORDER: &str = "the records of a key have their effects in order";
/// The mechanism, for the jobs of one assignment.
pub const ONE_OF_KEY: &str = "one record of a key runs in a process";
/// Nothing is lost: whoever reads next begins at or before the first record that is not processed.
pub const BROKER_BEHIND: &str = "the broker's offset passes no record that is not processed";
/// The same of the offset in the database.
pub const DATABASE_BEHIND: &str = "the database's offset passes no record that is not processed";
/// The offset in the database only grows.
pub const NEVER_BACK: &str = "the database's offset never goes back";
/// Every record ends processed or parked, the broker knows it, and no transaction is open.
pub const EVERYTHING_ENDS: &str = "everything ends";

pub(super) fn all() -> Vec<Property<Consumers>> {
    vec![
        Property::always(ONCE, |model: &Consumers, state: &State| {
            each(model, |record| model.effects(state, record) <= 1 && is_once(&state.records[record]))
        }),
        Property::always(RECOGNISED, |_, state: &State| !is_broken(state, Breach::ClaimedAgain)),
        Property::always(IN_ORDER, |_, state: &State| !is_broken(state, Breach::Inverted)),
        Property::always(ONE_OF_KEY, is_one_of_key),
        Property::always(BROKER_BEHIND, |model: &Consumers, state: &State| is_behind(model, state, &state.committed)),
        Property::always(DATABASE_BEHIND, |model: &Consumers, state: &State| is_behind(model, state, &state.next)),
        Property::always(NEVER_BACK, |_, state: &State| !is_broken(state, Breach::WentBack)),
        Property::eventually(EVERYTHING_ENDS, has_ended),
    ]
}

fn is_broken(state: &State, breach: Breach) -> bool {
    state.breach == Some(breach)
}

fn each(model: &Consumers, holds: impl Fn(usize) -> bool) -> bool {
    (0..model.log.len()).all(holds)
}

/// A copy that is too old for the inbox is one that only the offset knows.
fn is_once(it: &Record) -> bool {
    it.effects + it.aged <= 1
}

fn is_behind(model: &Consumers, state: &State, offsets: &[u8]) -> bool {
    each(model, |record| {
        model.offset(record) >= offsets[model.log[record].partition] || model.is_handled(state, record)
    })
}

/// With offsets in the database, one record of a partition.
fn is_one_of_key(model: &Consumers, state: &State) -> bool {
    let queue = |record: usize| (model.log[record].partition, (!model.has_offsets()).then(|| model.log[record].key));
    MemberId::BOTH.iter().all(|member| {
        let running = |record: &usize| state.records[*record].of(*member).is_running();
        let is_alone = |record: usize| (0..record).filter(running).all(|other| queue(other) != queue(record));
        (0..model.log.len()).filter(running).all(is_alone)
    })
}

fn has_ended(model: &Consumers, state: &State) -> bool {
    each(model, |record| model.is_handled(state, record) && state.records[record].open().next().is_none())
        && model.partitions().all(|partition| state.committed[partition] == model.end(partition))
}
