//! The consumers' half: a log of records, a group of two members, one database.
//!
//! | file | contents |
//! |---|---|
//! | `job` | a record, and the jobs that process it |
//! | `group` | who reads a partition: assigned, opened, handed over, lost; offsets that the broker is told |
//! | `worker` | the transaction of a record, step by step |
//! | `late` | jobs that go on although their assignment is over |
//! | `database` | what a claim finds and waits for, what a COMMIT writes, and the prune |
//! | `faults` | processes that die |
//! | `audit` | checks what each step may do |
//! | `canonical` | which states are equivalent |
//!
//! The log is whole from the beginning, and a member that reads a partition has all of its records in memory. So a
//! record that arrives late is one that is taken late. Two records may be copies of one message.
//!
//! # Faults
//!
//! An execution has a limited number of faults:
//!
//! - a crash, or a partition that the broker gives to another member while this one goes on;
//! - a claim, handler or COMMIT that fails, or a COMMIT whose answer is lost;
//! - an offset that does not arrive when a partition is handed over.
//!
//! Revoking a partition without a fault has its own limit, and so has the age of messages. Free is that a rebalance
//! does not wait for a handler any longer, what becomes of the jobs that it leaves, and when the broker is told an
//! offset, by whom, and in which order.
//!
//! # What ends
//!
//! No step leads back to an earlier state, so each execution ends, and "everything ends" is meaningful.

pub mod actions;
mod audit;
pub mod bugs;
mod canonical;
mod database;
mod faults;
pub mod goals;
mod group;
pub mod job;
mod late;
pub mod member;
pub mod properties;
pub mod state;
mod worker;

use stateright::{Model, Property};

use self::actions::Action;
use self::bugs::Bug;
use self::job::Record;
use self::state::{PARTITIONS_MAX, RECORDS_MAX, State, View};

/// What keeps a record from being processed twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Entries in the inbox.
    Inbox,
    /// An offset in the database.
    Offsets,
    /// Both.
    InboxAndOffsets,
}

/// A record of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRecord {
    /// Its partition, less than [`PARTITIONS_MAX`].
    pub partition: usize,
    /// Its key.
    pub key: u8,
    /// Its message. Messages are numbered by their age; records with one number are copies.
    pub message: u8,
}

/// The protocol, the scope to explore, and the injected bug.
#[derive(Debug, Clone, Copy)]
pub struct Consumers {
    /// What keeps a record from being processed twice.
    pub progress: Progress,
    /// The records, at most [`RECORDS_MAX`].
    pub log: &'static [LogRecord],
    /// How many faults may happen in one execution.
    pub faults: u8,
    /// How often a partition may be revoked without a fault.
    pub moves: u8,
    /// How many messages the inbox's start may pass.
    pub ages: u8,
    /// The injected bug.
    pub bug: Option<Bug>,
    /// Whether to search for the goals instead of checking the properties.
    pub goals: bool,
}

impl Consumers {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn has_inbox(&self) -> bool {
        self.progress != Progress::Offsets
    }

    fn has_offsets(&self) -> bool {
        self.progress != Progress::Inbox
    }

    /// The partitions of the log.
    fn partitions(&self) -> impl Iterator<Item = usize> {
        (0..PARTITIONS_MAX).filter(|partition| self.log.iter().any(|record| record.partition == *partition))
    }

    /// The records of a partition, in order.
    fn of_partition(&self, partition: usize) -> impl Iterator<Item = usize> {
        (0..self.log.len()).filter(move |record| self.log[*record].partition == partition)
    }

    /// The offset of a record in its partition.
    pub fn offset(&self, record: usize) -> u8 {
        let before = self.of_partition(self.log[record].partition).take_while(|other| *other < record);
        before.fold(0, |offset, _| offset + 1)
    }

    /// Where the next record of a partition would go.
    pub fn end(&self, partition: usize) -> u8 {
        self.of_partition(partition).fold(0, |end, _| end + 1)
    }

    /// The records that have one effect together: copies, if there is an inbox to recognise them.
    fn copies(&self, record: usize) -> impl Iterator<Item = usize> {
        let is_copy = move |other: &usize| match self.has_inbox() {
            true => self.log[*other].message == self.log[record].message,
            false => *other == record,
        };
        (0..self.log.len()).filter(is_copy)
    }

    /// How often the database has the effect of a record's message, without copies that were too old.
    pub fn effects(&self, state: &State, record: usize) -> u8 {
        self.copies(record).map(|copy| state.records[copy].effects).sum()
    }

    /// Whether the effect of a record's message is there.
    pub fn is_processed(&self, state: &State, record: usize) -> bool {
        self.copies(record).any(|copy| state.records[copy].effects + state.records[copy].aged > 0)
    }

    /// Whether the record needs nothing more.
    pub fn is_handled(&self, state: &State, record: usize) -> bool {
        state.records[record].parked || self.is_processed(state, record)
    }

    fn step(&self, state: &mut State, action: Action) {
        match action {
            Action::Assign { member, partition } => group::assign(state, member, partition),
            Action::Open { member, partition } => group::open(self, state, member, partition),
            Action::Start { member, partition } => group::start(state, member, partition),
            Action::Reopen { member, partition } => group::forget(self, state, member, partition, View::Assigned),
            Action::CommitOffset { member, partition } => group::commit_offset(self, state, member, partition),
            Action::Revoke { partition } => group::revoke(state, partition),
            Action::HandOver { member, partition } => group::hand_over(self, state, member, partition, true),
            Action::HandOverUncommitted { member, partition } => {
                group::hand_over(self, state, member, partition, false);
            }
            Action::LoseSession { partition } => group::lose_session(state, partition),
            Action::LearnLoss { member, partition } => group::forget(self, state, member, partition, View::No),
            Action::Take { member, record } => worker::take(self, state, member, record),
            Action::Claim { member, record } => worker::claim(self, state, member, record),
            Action::ClaimFails { member, record } => worker::claim_fails(self, state, member, record),
            Action::Handle { member, record } => worker::handle(state, member, record),
            Action::Fail { member, record } | Action::RefuseCommit { member, record } => {
                worker::fail(state, member, record);
            }
            Action::SendCommit { member, record } => worker::send_commit(state, member, record),
            Action::Commit { member, record } => worker::commit(self, state, member, record),
            Action::Acknowledge { member, record } => worker::finish(self, state, member, record),
            Action::LoseAnswer { member, record } => worker::lose_answer(self, state, member, record),
            Action::LateClaim { record, job } => late::claim(self, state, record, job),
            Action::LateCommit { record, job } => late::commit(self, state, record, job),
            Action::LateEnd { record, job } => late::end(state, record, job),
            Action::MoveStart => database::move_start(state),
            Action::Prune => database::prune(self, state),
            Action::Crash { member } => faults::crash(state, member),
        }
    }
}

impl Model for Consumers {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            records: [Record::UNREAD; RECORDS_MAX],
            views: [[View::No; PARTITIONS_MAX]; 2],
            owners: [None; PARTITIONS_MAX],
            committed: [0; PARTITIONS_MAX],
            next: [0; PARTITIONS_MAX],
            entries: 0,
            start: 0,
            faults_left: self.faults,
            moves_left: self.moves,
            ages_left: self.ages,
            breach: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        group::enabled(self, state, actions);
        worker::enabled(self, state, actions);
        late::enabled(self, state, actions);
        database::enabled(self, state, actions);
        faults::enabled(state, actions);
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut after = *before;
        self.step(&mut after, action);
        audit::audit(self, before, &mut after, &action);
        canonical::forget(self, &mut after);
        (after != *before).then_some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        if self.goals { goals::of(self) } else { properties::all() }
    }
}

impl State {
    /// The representative of two states that differ only in the members' names.
    pub fn representative(&self) -> Self {
        canonical::representative(self)
    }
}
