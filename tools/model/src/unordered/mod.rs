//! Messages of unordered topics: two relays on one table, one broker.
//!
//! | file | contents |
//! |---|---|
//! | `application` | transactions: enqueue, commit, rollback |
//! | `dispatcher` | confirm, and the send of what was confirmed |
//! | `claim`, `close` | the sweeper |
//! | `settler` | settle, failures, the lease renewer |
//! | `broker` | the broker, its answers, the breaker |
//! | `admin` | redriven dead letters |
//! | `time` | leases that end, processes that stall or die, connections that break |
//! | `audit` | checks what each step may write |
//! | `canonical` | which states are equivalent |
//!
//! # Faults
//!
//! Steps that need something to go wrong are counted, and an execution has a limited number of them: a crash, a pause,
//! a broken connection, a close without an answer, a lost acknowledgement, a refusal, an outage, a lease that cannot be
//! extended, a failure that cannot be written, a transaction longer than the watermark's slack, a reused id. Ordinary
//! events are free: a rollback, a lost ref, a born lease that ends before its message was read.
//!
//! Delayed messages and redrives have their own limits, which are zero unless the scope sets them.
//!
//! # What ends
//!
//! No step leads back to an earlier state, so each execution ends, and "everything ends" is meaningful: without further
//! faults, whatever happened before, every committed message is settled or dead. A test checks this.

pub mod actions;
mod admin;
mod application;
mod audit;
mod broker;
pub mod bugs;
mod canonical;
mod claim;
mod close;
mod dispatcher;
pub mod goals;
pub mod message;
pub mod properties;
pub mod relay_view;
mod settler;
pub mod state;
mod time;

use stateright::{Model, Property};

use self::actions::Action;
use self::bugs::Bug;
use self::message::Message;
use self::state::{MESSAGES_MAX, Relay, State};

/// How a claim holds its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimMode {
    /// By row locks: PostgreSQL, MySQL and MariaDB.
    Locked,
    /// By a lease that it writes: SQLite.
    Leased,
}

/// The protocol, the scope to explore, and the injected bug.
#[derive(Debug, Clone, Copy)]
pub struct Unordered {
    /// How a claim holds its rows.
    pub claim_mode: ClaimMode,
    /// How many messages there are, at most [`MESSAGES_MAX`].
    pub messages: usize,
    /// How many faults may happen in one execution.
    pub faults: u8,
    /// How many messages may be delayed.
    pub delays: u8,
    /// How many times a dead letter may be redriven. While there is one, and a redrive is left, an execution has not
    /// ended.
    pub redrives: u8,
    /// The injected bug.
    pub bug: Option<Bug>,
    /// Whether to search for the goals instead of checking the properties. The checker stores a path for each state
    /// that reaches a goal, which in a large scope takes most of its time. What a small scope reaches, a larger one
    /// reaches too.
    pub goals: bool,
}

impl Unordered {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn step(&self, state: &mut State, action: Action) {
        match action {
            Action::Enqueue { message, by, reused } => application::enqueue(state, message, by, reused),
            Action::EnqueueDelayed { message, by } => application::enqueue_delayed(state, message, by),
            Action::ExceedSlack { message } => application::exceed_slack(state, message),
            Action::Commit { message } => application::commit(state, message, false),
            Action::CommitVerified { message } => application::commit(state, message, true),
            Action::Rollback { message } => application::roll_back(state, message),
            Action::Confirm { relay, message } => dispatcher::confirm(self, state, relay, message),
            Action::SendRead { relay, message } => dispatcher::send_read(self, state, relay, message),
            Action::Claim { relay, only } => claim::claim(self, state, relay, only),
            Action::FullScan { relay } => claim::full_scan(state, relay),
            Action::SendClaimed { relay } => claim::send_claimed(self, state, relay),
            Action::Close { relay } => close::close(self, state, relay),
            Action::CloseFails { relay, applied } => close::close_fails(self, state, relay, applied),
            Action::Settle { relay, message } => settler::settle(self, state, relay, message),
            Action::RecordFailure { relay, message } => settler::record_failure(self, state, relay, message),
            Action::RecordFailureFails { relay, message } => settler::record_failure_fails(state, relay, message),
            Action::AbandonLease { relay, message } => settler::abandon_lease(state, relay, message),
            Action::Extend { relay, message } => settler::extend(state, relay, message),
            Action::Redrive { message } => admin::redrive(self, state, message),
            Action::Store { relay, message } => broker::store(state, relay, message),
            Action::Acknowledge { relay, message } => broker::acknowledge(state, relay, message),
            Action::LoseAcknowledgement { relay, message } => broker::lose_acknowledgement(state, relay, message),
            Action::Refuse { relay, message } => broker::refuse(state, relay, message),
            Action::Disconnect { relay, message } => broker::disconnect(self, state, relay, message),
            Action::GoDown => broker::go_down(state),
            Action::ComeBack => broker::come_back(state),
            Action::LeaseEnds { message } => time::lease_ends(self, state, message),
            Action::Pause { relay, long } => time::pause(self, state, relay, long),
            Action::CutClaim { relay } => time::cut_claim(state, relay),
            Action::Crash { relay } => time::crash(state, relay),
        }
    }
}

impl Model for Unordered {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            relays: [Relay::IDLE; 2],
            messages: [Message::UNWRITTEN; MESSAGES_MAX],
            broker_up: true,
            faults_left: self.faults,
            delays_left: self.delays,
            redrives_left: self.redrives,
            breach: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        application::enabled(self, state, actions);
        dispatcher::enabled(state, actions);
        claim::enabled(self, state, actions);
        close::enabled(state, actions);
        settler::enabled(self, state, actions);
        admin::enabled(state, actions);
        broker::enabled(state, actions);
        time::enabled(self, state, actions);
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut after = *before;
        self.step(&mut after, action);
        audit::audit(before, &mut after, &action);
        canonical::forget(self, &mut after);
        (after != *before).then_some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        if self.goals { goals::of(self) } else { properties::all() }
    }
}

impl State {
    /// The representative of all states that differ only in names.
    pub fn representative(&self) -> Self {
        canonical::representative(self)
    }
}
