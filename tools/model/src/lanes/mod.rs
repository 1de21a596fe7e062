//! Messages of ordered topics: one lane, two nodes that may own it, one broker.
//!
//! | file | what happens there |
//! |---|---|
//! | `application` | transactions: enqueue, commit, rollback |
//! | `keeper` | who owns the lane: taken, given up, handed over, lost, taken over |
//! | `reader` | pages, the second read, and the send |
//! | `broker` | the broker, and the client's answers |
//! | `settler` | settle, failures, blocked keys |
//! | `faults` | processes that stand still or die |
//! | `audit` | what a step may do, held to each |
//! | `normal` | which states are the same |
//!
//! A message's place is its id. A page is of any size, and a key keeps all of its rows in memory: what is dropped and read
//! again is that of a blocked key.
//!
//! # Faults
//!
//! What has to go wrong for a step to happen is counted, and a run has so many of them: a crash, a pause past the lease, a
//! lease that cannot be renewed, a lane taken or handed over by a call whose answer is lost, a lost acknowledgement, a
//! time-out, a refusal, an outage, a failure that cannot be written, a transaction longer than the slack of the front. How
//! often a lane is given up in health has a bound of its own. A rollback is free, and so is a row that becomes visible behind
//! a higher id.
//!
//! # What ends
//!
//! A step leads nowhere that was there before, so each run ends, and "everything ends" means what it says.

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
    Hold,
    /// It becomes a dead letter, and its key goes on.
    DeadLetter,
}

/// The protocol, how much of it to explore, and what is wrong with it.
#[derive(Debug, Clone, Copy)]
pub struct Lanes {
    /// The key of each message, by id; at most [`MESSAGES_MAX`].
    pub keys: &'static [u8],
    /// What a failed message does to its key.
    pub policy: Policy,
    /// How many faults may happen in one run.
    pub faults: u8,
    /// How often a lane may be given up in health.
    pub moves: u8,
    /// The planted mistake.
    pub bug: Option<Bug>,
    /// Whether to look for what some run has to reach, in place of what has to hold.
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
            Action::TakeUnanswered { relay } => balancer::take(self, state, relay, false),
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
    /// The state that stands for both that differ in the relays' names only.
    pub fn representative(&self) -> Self {
        canonical::representative(self)
    }
}
