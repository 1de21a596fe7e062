//! Everything the model knows: the relays, the broker, and the messages.

use super::message::Message;
pub use crate::relay::RelayId;

/// Messages a state has room for.
pub const MESSAGES_MAX: usize = 3;

/// Everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct State {
    /// The relays, apart from what they know of single messages.
    pub relays: [Relay; 2],
    /// The messages, those not yet enqueued included.
    pub messages: [Message; MESSAGES_MAX],
    /// Whether the broker can be reached.
    pub broker_up: bool,
    /// How many faults may still happen.
    pub faults_left: u8,
    /// How many messages may still be delayed.
    pub delays_left: u8,
    /// How many dead letters may still be sent again.
    pub redrives_left: u8,
    /// What a write did that no write may do.
    pub breach: Option<Breach>,
}

/// A relay, apart from what it knows of single messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Relay {
    /// Its breaker.
    pub breaker: Breaker,
    /// Its claim. The library has two claim workers; here two claims are open at once only where both relays have one.
    pub claim: Claim,
}

impl Relay {
    /// As it starts.
    pub const IDLE: Self = Self { breaker: Breaker::Closed, claim: Claim::None };
}

/// `relay::health::breaker::BreakerState`, where a trial is a half-open breaker: one row at a time, and one without an outcome
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
    /// Its transaction is gone with its locks, which the relay learns only when it closes the claim.
    Cut,
}

/// A write that no statement of the protocol may do, found by comparing the rows before and after each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Breach {
    /// `due_at` was written and the epoch was not raised.
    EpochKept,
    /// The epoch fell.
    EpochFell,
    /// A holder changed a row under an epoch that was not its own.
    ForeignEpoch,
    /// A message spent an attempt, or was given up, and the broker had not refused it.
    AttemptSpent,
    /// A delayed row was touched before its time.
    BeforeDue,
}

impl State {
    /// A relay.
    pub fn relay(&self, id: RelayId) -> &Relay {
        &self.relays[id as usize]
    }

    /// As [`relay`](Self::relay), to be changed.
    pub fn relay_mut(&mut self, id: RelayId) -> &mut Relay {
        &mut self.relays[id as usize]
    }
}
