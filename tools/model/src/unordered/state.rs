//! The whole state of the model: the relays, the broker, and the messages.

use super::message::Message;
pub use crate::relay::RelayId;

/// The number of messages in a state.
pub const MESSAGES_MAX: usize = 3;

/// The whole state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct State {
    /// The relays, apart from what they know of single messages.
    pub relays: [Relay; 2],
    /// The messages, including those not enqueued yet.
    pub messages: [Message; MESSAGES_MAX],
    /// Whether the broker can be reached.
    pub broker_up: bool,
    /// How many faults may still happen.
    pub faults_left: u8,
    /// How many messages may still be delayed.
    pub delays_left: u8,
    /// How many dead letters may still be redriven.
    pub redrives_left: u8,
    /// A violation by the last step.
    pub breach: Option<Breach>,
}

/// A relay, apart from what it knows of single messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Relay {
    /// Its breaker.
    pub breaker: Breaker,
    /// Its claim. The library has two claim workers; here two claims are open at once only if both relays have one.
    pub claim: Claim,
}

impl Relay {
    /// As it starts.
    pub const IDLE: Self = Self { breaker: Breaker::Closed, claim: Claim::None };
}

/// `relay::health::breaker::BreakerState`. A half-open breaker admits one row at a time, and one without an outcome
/// blocks no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Breaker {
    /// Admits everything.
    Closed,
    /// Admits nothing.
    Open,
    /// Admits single rows.
    HalfOpen,
}

/// A claim of a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Claim {
    /// None.
    None,
    /// Open.
    Open,
    /// Its transaction and locks are gone. The relay learns this only when it closes the claim.
    Cut,
}

/// A write that the protocol forbids, found by comparing the rows before and after each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Breach {
    /// `due_at` was written without raising the epoch.
    EpochKept,
    /// The epoch decreased.
    EpochFell,
    /// A holder changed a row under an epoch other than its own.
    ForeignEpoch,
    /// A message spent an attempt, or became a dead letter, without a refusal by the broker.
    AttemptSpent,
    /// A delayed row was touched before its time.
    BeforeDue,
}

impl State {
    /// A relay.
    pub fn relay(&self, id: RelayId) -> &Relay {
        &self.relays[id as usize]
    }

    /// Like [`relay`](Self::relay), mutable.
    pub fn relay_mut(&mut self, id: RelayId) -> &mut Relay {
        &mut self.relays[id as usize]
    }
}
