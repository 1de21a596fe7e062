//! Messages of ordered topics: one lane, two nodes that may own it, one broker.
//!
//! | file | contents |
//! |---|---|
//! | `application` | transactions: enqueue, commit, rollback |
//! | `balancer` | who owns the lane: taken, released, handed over, lost, taken over |
//! | `reader` | pages, the second read, and the send |
//! | `broker` | the broker, and the client's answers |
//! | `settler` | settle, failures, blocked keys |
//! | `faults` | processes that stall or die |
//! | `audit` | checks what each step may do |
//! | `canonical` | which states are equivalent |
//!
//! A message's index is its id. A page is of any size. A key keeps all of its rows in memory; only those of a blocked
//! key are dropped and read again.
//!
//! # Faults
//!
//! An execution has a limited number of faults:
//!
//! - a crash, or a pause past the lease;
//! - a lease that cannot be renewed, or a lane taken or handed over by a call whose answer is lost;
//! - a lost acknowledgement, a time-out, a refusal, or an outage;
//! - a failure that cannot be written, or a transaction longer than the slack of the front.
//!
//! Releasing a lane without a fault has its own limit. A rollback is free, and so is a row that becomes visible after a
//! higher id.
//!
//! # What ends
//!
//! No step leads back to an earlier state, so each execution ends, and "everything ends" is meaningful.

pub mod actions;
mod application;
mod audit;
mod balancer;
mod broker;
pub mod bugs;
mod canonical;
mod faults;
pub mod goals;
pub mod message;
pub mod properties;
mod reader;
mod settler;
pub mod state;

use stateright::{Model, Property};

use self::actions::Action;
use self::bugs::Bug;
use self::message::{Message, Row};
use self::state::{Lane, MESSAGES_MAX, State};

/// What a message that is refused for good does to its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// It is tried again, and its key waits.
    BlockKey,
    /// It becomes a dead letter, and its key goes on.
    DeadLetter,
}

/// The protocol, the scope to explore, and the injected bug.
#[derive(Debug, Clone, Copy)]
pub struct Lanes {
    /// The key of each message, by id; at most [`MESSAGES_MAX`].
    pub keys: &'static [u8],
    /// What a failed message does to its key.
    pub policy: Policy,
    /// How many faults may happen in one execution.
    pub faults: u8,
    /// How often a lane may be released without a fault.
    pub moves: u8,
    /// The injected bug.
    pub bug: Option<Bug>,
    /// Whether to search for the goals instead of checking the properties.
    pub goals: bool,
}

impl Lanes {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn step(&self, state: &mut State, action: Action) {
        match action {
            Action::Enqueue { message } => application::enqueue(self, state, message),
            Action::ExceedSlack { message } => application::exceed_slack(state, message),
            Action::Commit { message } => application::end(state, message, Row::Live),
            Action::Rollback { message } => application::end(state, message, Row::RolledBack),
            Action::Take { relay } => balancer::take(self, state, relay, true),
            Action::TakeResponseLost { relay } => balancer::take(self, state, relay, false),
            Action::BeginHandover { relay } => balancer::begin_handover(state, relay),
            Action::CancelHandover { relay } => balancer::cancel_handover(state, relay),
            Action::Release { relay } => balancer::release(state, relay),
            Action::ReleaseFails { relay } => balancer::release_fails(state, relay),
            Action::LeaseEnds => balancer::lease_ends(self, state),
            Action::LeaseRunsOut => balancer::lease_runs_out(state),
            Action::QuietEnds => balancer::quiet_ends(state),
            Action::ReadFront { relay } => reader::read(self, state, relay, false),
            Action::ReadLate { relay } => reader::read(self, state, relay, true),
            Action::Load { relay, message } => reader::load(self, state, relay, message),
            Action::Send { relay, message } => reader::send(self, state, relay, message),
            Action::Unblock { relay, message } => reader::unblock(state, relay, message),
            Action::Store { relay, message } => broker::store(state, relay, message),
            Action::Acknowledge { relay, message } => broker::acknowledge(state, relay, message),
            Action::LoseAcknowledgement { relay, message } => broker::lose_acknowledgement(state, relay, message),
            Action::TimeOut { relay, message } => broker::time_out(state, relay, message),
            Action::Refuse { relay, message } => broker::refuse(state, relay, message),
            Action::Disconnect { relay, message } => broker::disconnect(state, relay, message),
            Action::StoreStray { message } => broker::store_stray(state, message),
            Action::LoseStray { message } => broker::lose_stray(state, message),
            Action::GoDown => broker::go_down(state),
            Action::ComeBack => broker::come_back(state),
            Action::Settle { relay, message } => settler::settle(state, relay, message),
            Action::RecordFailure { relay, message } => settler::record_failure(self, state, relay, message),
            Action::RecordFailureFails { relay, message } => settler::record_failure_fails(self, state, relay, message),
            Action::Pause { relay, in_send } => faults::pause(self, state, relay, in_send),
            Action::Crash { relay } => faults::crash(state, relay),
        }
    }
}

impl Model for Lanes {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            lane: Lane::FREE,
            owned: [None; 2],
            messages: [Message::UNWRITTEN; MESSAGES_MAX],
            broker_up: true,
            faults_left: self.faults,
            moves_left: self.moves,
            breach: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        application::enabled(self, state, actions);
        balancer::enabled(self, state, actions);
        reader::enabled(self, state, actions);
        broker::enabled(state, actions);
        settler::enabled(state, actions);
        faults::enabled(state, actions);
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut after = *before;
        self.step(&mut after, action);
        audit::audit(self, before, &mut after, &action);
        canonical::forget(&mut after);
        (after != *before).then_some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        if self.goals { goals::of(self) } else { properties::all() }
    }
}

impl State {
    /// The representative of two states that differ only in the relays' names.
    pub fn representative(&self) -> Self {
        canonical::representative(self)
    }
}
