//! Every step of the model, and the source it mirrors: change both together.

use super::member::MemberId;

/// A step. `record` is an index of [`State::records`](super::state::State::records).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "`member`, `partition` and `record` say the same everywhere")]
pub enum Action {
    /// The broker gives a partition to a member.
    Assign { member: MemberId, partition: usize },
    /// The member asks broker and database where to begin.
    Open { member: MemberId, partition: usize },
    /// It commits that offset, and reads the partition from there.
    Start { member: MemberId, partition: usize },
    /// The database's offset was not what the member wrote: it opens the partition again.
    Reopen { member: MemberId, partition: usize },
    /// The member tells the broker how far it is. The broker may believe one that has lost the partition, too.
    CommitOffset { member: MemberId, partition: usize },
    /// The broker asks for a partition: another member joined, or this one shuts down.
    Revoke { partition: usize },
    /// Nothing of the partition runs any more, or the wait for it is over: its offset is committed, and it is free.
    HandOver { member: MemberId, partition: usize },
    /// The same, and the offset does not arrive.
    HandOverUncommitted { member: MemberId, partition: usize },
    /// The broker takes a partition away from a member that does not answer, or that counts its share late.
    LoseSession { partition: usize },
    /// The member learns of it.
    LearnLoss { member: MemberId, partition: usize },

    /// A worker takes the record whose turn it is.
    Take { member: MemberId, record: usize },
    /// Its transaction begins: it moves the offset, and claims the message.
    Claim { member: MemberId, record: usize },
    /// The claim fails.
    ClaimFails { member: MemberId, record: usize },
    /// The handler does its work in the transaction.
    Handle { member: MemberId, record: usize },
    /// The transaction fails, and is rolled back.
    Fail { member: MemberId, record: usize },
    /// COMMIT is sent.
    SendCommit { member: MemberId, record: usize },
    /// The database commits.
    Commit { member: MemberId, record: usize },
    /// The database refuses the COMMIT, and rolls back.
    RefuseCommit { member: MemberId, record: usize },
    /// The answer arrives.
    Acknowledge { member: MemberId, record: usize },
    /// The answer is lost. The COMMIT may still be on its way.
    LoseAnswer { member: MemberId, record: usize },

    /// A late job begins its transaction.
    LateClaim { record: usize, job: usize },
    /// A late job commits.
    LateCommit { record: usize, job: usize },
    /// A late job fails, or its process has died.
    LateEnd { record: usize, job: usize },

    /// The inbox's start moves past a message.
    MoveStart,
    /// Entries below the start are removed.
    Prune,
    /// A member's process dies, and starts again.
    Crash { member: MemberId },
}

impl Action {
    /// The library's files that implement this step.
    pub fn mirrors(&self) -> &'static [&'static str] {
        match self {
            Self::Assign { .. } => &["src/consumer/kafka/context.rs", "src/consumer/rocketmq/members.rs"],
            Self::Open { .. } | Self::Start { .. } => {
                &["src/consumer/runner.rs", "src/consumer/database/lookups.rs", "src/consumer/kafka/source.rs"]
            }
            Self::Reopen { .. } => &["src/consumer/runner.rs", "src/consumer/engine/settle.rs"],
            Self::CommitOffset { .. } => &[
                "src/consumer/engine/bounds.rs",
                "src/consumer/engine/watermark.rs",
                "src/consumer/rocketmq/commits.rs",
            ],
            Self::Revoke { .. }
            | Self::HandOver { .. }
            | Self::HandOverUncommitted { .. }
            | Self::LoseSession { .. }
            | Self::LearnLoss { .. } => &["src/consumer/shared.rs", "src/consumer/kafka/context.rs"],
            Self::Take { .. } => &["src/consumer/engine/mod.rs", "src/consumer/engine/key_queue.rs"],
            Self::Claim { .. } | Self::ClaimFails { .. } => &[
                "src/consumer/database/transaction.rs",
                "src/consumer/database/statements.rs",
                "src/inbox/statement/postgres.rs",
                "src/inbox/statement/mysql.rs",
                "src/inbox/outcomes.rs",
            ],
            Self::Handle { .. } | Self::SendCommit { .. } | Self::Commit { .. } => {
                &["src/consumer/database/transaction.rs"]
            }
            Self::Fail { .. } | Self::RefuseCommit { .. } | Self::LoseAnswer { .. } => {
                &["src/consumer/database/failure.rs", "src/consumer/engine/settle.rs"]
            }
            Self::Acknowledge { .. } => &["src/consumer/engine/settle.rs", "src/consumer/engine/watermark.rs"],
            Self::LateClaim { .. } | Self::LateCommit { .. } | Self::LateEnd { .. } => {
                &["src/consumer/database/transaction.rs", "src/consumer/engine/outcome.rs"]
            }
            Self::MoveStart | Self::Prune => &["src/inbox/prune.rs", "src/inbox/prune_sql.rs"],
            Self::Crash { .. } => &["src/consumer/running.rs"],
        }
    }
}
