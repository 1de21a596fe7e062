//! A record, and what the members' jobs have done with it.

use super::member::MemberId;

/// A record, with its jobs and what the database has of it. Its index is its place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Record {
    /// How far each member is with it, in the assignment that it believes in.
    pub own: [Step; 2],
    /// Jobs whose outcome nobody takes any more, in no order.
    pub late: [Late; 2],
    /// How often its effect is committed; two stand for more.
    pub effects: u8,
    /// How often it was processed although it was too old for the inbox, because the offset said that it is new.
    pub aged: u8,
    /// Whether it is in the table of parked records.
    pub parked: bool,
}

/// How far a member is with a record that it has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// In memory if its partition is read, and no worker has it.
    Idle,
    /// A worker has it, and its transaction has not begun. `seen` is 0, except where a bug reads the inbox's start here.
    Taken {
        /// The inbox's start, read too early.
        seen: u8,
    },
    /// Its transaction is open, and begins with the claim.
    Claimed(Claim),
    /// The handler's work is in the transaction.
    Handled(Claim),
    /// COMMIT is sent.
    Committing(Claim),
    /// The database has committed, and the answer is on its way.
    Committed,
    /// It is done, and an earlier record of the partition is not.
    Done,
}

/// A job of an assignment that is over, or a COMMIT whose answer nobody waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Late {
    /// None.
    No,
    /// As [`Step::Taken`].
    Taken {
        /// As there.
        seen: u8,
    },
    /// Its transaction is open, and ends either way.
    Open(Claim),
}

/// What the first statement of a transaction has found. The transaction commits what it wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Claim {
    /// Nobody has processed it.
    New,
    /// The inbox has its message.
    Duplicate,
    /// It is older than what the inbox keeps.
    TooOld,
    /// The claim is not part of the transaction: only bugs do that.
    Outside,
}

impl Record {
    /// A record that nobody has read.
    pub const UNREAD: Self = Self { own: [Step::Idle; 2], late: [Late::No; 2], effects: 0, aged: 0, parked: false };

    /// How far a member is with it.
    pub fn of(&self, member: MemberId) -> Step {
        self.own[member as usize]
    }

    /// The claims of its open transactions.
    pub fn open(&self) -> impl Iterator<Item = Claim> {
        let own = self.own.into_iter().filter_map(Step::claim);
        own.chain(
            self.late.into_iter().filter_map(|late| if let Late::Open(claim) = late { Some(claim) } else { None }),
        )
    }

    pub(super) fn set(&mut self, member: MemberId, step: Step) {
        self.own[member as usize] = step;
    }

    /// Adds a late job. An open transaction takes the place of a job that has not begun one.
    pub(super) fn add_late(&mut self, job: Late) {
        self.late.sort_unstable();
        let [first, ..] = &mut self.late;
        if !matches!(first, Late::Open(_)) && job > *first {
            *first = job;
        }
        self.late.sort_unstable();
    }

    /// The member gives up its assignment: what its worker does goes on without it.
    pub(super) fn let_go(&mut self, member: MemberId) {
        match std::mem::replace(&mut self.own[member as usize], Step::Idle) {
            Step::Taken { seen } => self.add_late(Late::Taken { seen }),
            Step::Claimed(claim) | Step::Handled(claim) | Step::Committing(claim) => self.add_late(Late::Open(claim)),
            Step::Idle | Step::Committed | Step::Done => {}
        }
    }
}

impl Step {
    /// Whether a worker has it.
    pub fn is_running(self) -> bool {
        !matches!(self, Self::Idle | Self::Done)
    }

    /// The claim of its open transaction.
    pub fn claim(self) -> Option<Claim> {
        match self {
            Self::Claimed(claim) | Self::Handled(claim) | Self::Committing(claim) => Some(claim),
            _ => None,
        }
    }
}
