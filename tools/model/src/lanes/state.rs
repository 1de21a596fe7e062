//! The whole state of the model: the lane, its owners, the broker, and the messages.

use super::message::Message;
use crate::relay::RelayId;

/// The number of messages in a state.
pub const MESSAGES_MAX: usize = 3;

/// The whole state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct State {
    /// The lane in the database.
    pub lane: Lane,
    /// Each relay's belief to own the lane.
    pub owned: [Option<Owned>; 2],
    /// The messages, including those not enqueued yet.
    pub messages: [Message; MESSAGES_MAX],
    /// Whether the broker can be reached.
    pub broker_up: bool,
    /// How many faults may still happen.
    pub faults_left: u8,
    /// How often the lane may still be released.
    pub moves_left: u8,
    /// A violation by the last step.
    pub breach: Option<Breach>,
}

/// The row of `outbox_lanes`. A fence is only ever compared with this row's.
/// [`Entry::is_current`](super::message::Entry::is_current) says whether a relay owns the lane under the current fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane {
    /// The last owner.
    pub owner: Owner,
    /// Whether the lease is running.
    pub leased: bool,
    /// Whether the owner must not send yet: records of the last owner may still arrive.
    pub quiet: bool,
}

/// The last owner of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// None: the lane was handed over.
    Nobody,
    /// A relay.
    Of(RelayId),
    /// A process that has died. If it starts again, it is another node.
    DeadProcess,
}

/// A relay's own lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owned {
    /// It sends nothing more, and hands the lane over once nothing is in flight.
    pub draining: bool,
}

/// A violation, found by comparing the states before and after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Breach {
    /// The first copy of a message was stored before that of an earlier message of its key.
    Inverted,
    /// A failure or a dead letter was written by a node that does not own the lane.
    ForeignFence,
    /// A message was sent while a record of another owner was in flight.
    SentConcurrently,
    /// A message became a dead letter although its key should hold.
    DeadLettered,
}

impl Lane {
    /// The lane of a new topic.
    pub const FREE: Self = Self { owner: Owner::Nobody, leased: false, quiet: false };

    /// Whether the relay owns the lane in the database, within its lease.
    pub fn is_of(&self, relay: RelayId) -> bool {
        self.owner == Owner::Of(relay) && self.leased
    }
}

impl State {
    /// The relay's belief to own the lane.
    pub fn owned(&self, relay: RelayId) -> Option<Owned> {
        self.owned[relay as usize]
    }

    /// Whether the relay believes that it may send now.
    pub fn may_send(&self, relay: RelayId) -> bool {
        self.owned(relay).is_some() && self.broker_up
    }

    /// The relay forgets the lane, and what it has read of it.
    pub(super) fn disown(&mut self, relay: RelayId) {
        self.owned[relay as usize] = None;
        for it in &mut self.messages {
            it.of_mut(relay).lose_lane();
            it.passed[relay as usize] = false;
        }
    }

    /// Another relay may send again what this relay has in its ledger, for a good reason.
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
