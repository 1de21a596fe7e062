//! Everything the model knows: the lane, its owners, the broker, and the messages.

use super::message::Message;
use crate::relay::RelayId;

/// Messages a state has room for.
pub const MESSAGES_MAX: usize = 3;

/// Everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct State {
    /// The lane as the database has it.
    pub lane: Lane,
    /// The lane as each relay believes to own it.
    pub owned: [Option<Owned>; 2],
    /// The messages, those not yet enqueued included.
    pub messages: [Message; MESSAGES_MAX],
    /// Whether the broker can be reached.
    pub broker_up: bool,
    /// How many faults may still happen.
    pub faults_left: u8,
    /// How often a lane may still be given up.
    pub moves_left: u8,
    /// What a step did that no step may do.
    pub breach: Option<Breach>,
}

/// The row of `outbox_lanes`. A fence is compared with this row's and with no other: who owns under the fence that is there
/// says [`Entry::is_current`](super::message::Entry::is_current).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane {
    /// Who owned it last.
    pub owner: Owner,
    /// Whether the lease runs.
    pub leased: bool,
    /// Whether its owner is to send nothing: what the last one had in flight may still arrive.
    pub quiet: bool,
}

/// Who owned a lane last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// Nobody: it was handed over.
    Nobody,
    /// A relay.
    Of(RelayId),
    /// A process that has died since. One that starts again is another node.
    DeadProcess,
}

/// A relay's own lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owned {
    /// It sends nothing more, and hands the lane over once nothing is in flight.
    pub draining: bool,
}

/// What no step may do, found by comparing the states before and after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Breach {
    /// The first copy of a message was stored before that of one it comes behind.
    Inverted,
    /// A failure or a dead letter was written by who does not own the lane.
    ForeignFence,
    /// A message was sent while a record of another owner of the lane was on its way.
    SentConcurrently,
    /// A message was given up, and its key was to hold.
    DeadLettered,
}

impl Lane {
    /// As a topic gets it.
    pub const FREE: Self = Self { owner: Owner::Nobody, leased: false, quiet: false };

    /// Whether the database has the relay as its owner, within its lease.
    pub fn is_of(&self, relay: RelayId) -> bool {
        self.owner == Owner::Of(relay) && self.leased
    }
}

impl State {
    /// The lane as a relay believes to own it.
    pub fn owned(&self, relay: RelayId) -> Option<Owned> {
        self.owned[relay as usize]
    }

    /// Whether a relay believes that it may send now.
    pub fn may_send(&self, relay: RelayId) -> bool {
        self.owned(relay).is_some() && self.broker_up
    }

    /// A relay forgets the lane, and what it has read of it.
    pub(super) fn disown(&mut self, relay: RelayId) {
        self.owned[relay as usize] = None;
        for it in &mut self.messages {
            it.of_mut(relay).lose_lane();
            it.passed[relay as usize] = false;
        }
    }

    /// Whatever a relay has in its ledger may be sent again by another, for a good reason.
    pub(super) fn allow_duplicates(&mut self, relay: RelayId) {
        for it in &mut self.messages {
            it.duplicate_allowed |= it.of(relay).entry.is_some();
        }
    }

    /// The same with the relays' names exchanged.
    pub(super) fn swapped(&self) -> Self {
        let mut state = *self;
        state.owned.swap(0, 1);
        if let Owner::Of(relay) = &mut state.lane.owner {
            *relay = relay.other();
        }
        state.messages.iter_mut().for_each(Message::swap_relays);
        state
    }
}
