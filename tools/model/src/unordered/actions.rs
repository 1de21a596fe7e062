//! Every step of the model, and the source it mirrors: change both together.

use super::state::RelayId;

/// A step. `message` is an index of [`State::messages`](super::state::State::messages).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "`relay`, `message` and `by` say the same everywhere")]
pub enum Action {
    /// An application writes a row in its transaction, leased to its own process. An application without a relay, whose
    /// rows are due at once, behaves like one whose hook saw no commit and whose born lease is over. The ref is in
    /// transit from here on: the hook hands it over at the end of a COMMIT, which proves nothing. A confirm before the
    /// row is visible also covers a lost ref. `reused`: the database assigns the id of a row that is gone (T5).
    Enqueue { message: usize, by: RelayId, reused: bool },
    /// The same for a delayed row: it has no holder, and nothing is handed over.
    EnqueueDelayed { message: usize, by: RelayId },
    /// The transaction takes longer than the slack of the watermark: its row appears late.
    ExceedSlack { message: usize },
    /// The row becomes visible.
    Commit { message: usize },
    /// `outbox.transaction` commits verified, and its row is inline.
    CommitVerified { message: usize },
    /// The transaction is rolled back, whatever was handed over.
    Rollback { message: usize },

    /// The dispatcher reads a handed-over row.
    Confirm { relay: RelayId, message: usize },
    /// The dispatcher offers a row to the transport.
    SendRead { relay: RelayId, message: usize },

    /// The sweeper claims what is due: everything, or a single row as a trial.
    Claim { relay: RelayId, only: Option<usize> },
    /// A full scan moves the watermark back below the rows it had passed.
    FullScan { relay: RelayId },
    /// The sweeper offers the claimed rows to the transport.
    SendClaimed { relay: RelayId },
    /// The claim is closed: delivered rows are settled, those in flight are held, the others are released.
    Close { relay: RelayId },
    /// The close fails, with effect (its answer is lost) or without (COMMIT answers ROLLBACK, the connection breaks).
    CloseFails { relay: RelayId, applied: bool },

    /// The settler removes a delivered row.
    Settle { relay: RelayId, message: usize },
    /// The settler writes a failure or a dead letter.
    RecordFailure { relay: RelayId, message: usize },
    /// The settler's statement for a failure fails: the row is due again when its lease ends.
    RecordFailureFails { relay: RelayId, message: usize },
    /// The lease renewer extends a lease.
    Extend { relay: RelayId, message: usize },
    /// The lease renewer abandons a lease that ended and could not be extended.
    AbandonLease { relay: RelayId, message: usize },

    /// A person redrives a dead letter.
    Redrive { message: usize },

    /// The broker stores a copy.
    Store { relay: RelayId, message: usize },
    /// Its acknowledgement arrives.
    Acknowledge { relay: RelayId, message: usize },
    /// Its acknowledgement is lost: the client reports a time-out.
    LoseAcknowledgement { relay: RelayId, message: usize },
    /// The broker refuses the record.
    Refuse { relay: RelayId, message: usize },
    /// The client reports a message that failed in an outage.
    Disconnect { relay: RelayId, message: usize },
    /// The broker goes down, and both relays know it. A send before a relay knows it counts as before this step.
    GoDown,
    /// The broker recovers and answers probes. Before its first probe it counts as down.
    ComeBack,

    /// `due_at` passes, and before it the lease of the holder.
    LeaseEnds { message: usize },
    /// A process stalls past its claim window, or, if `long`, past its leases as well.
    Pause { relay: RelayId, long: bool },
    /// The connection of a claim breaks.
    CutClaim { relay: RelayId },
    /// A process dies and starts again. One that stays away behaves like one that is idle.
    Crash { relay: RelayId },
}

impl Action {
    /// The library's files that implement this step.
    pub fn mirrors(&self) -> &'static [&'static str] {
        match self {
            Self::Enqueue { .. } | Self::EnqueueDelayed { .. } => {
                &["src/outbox/write.rs", "src/enqueue/statement/postgres.rs"]
            }
            Self::Commit { .. } | Self::Rollback { .. } | Self::ExceedSlack { .. } => {
                &["src/hook/mod.rs", "src/hook/savepoints.rs", "src/relay/direct/queue.rs"]
            }
            Self::CommitVerified { .. } => &["src/outbox/transaction/pipeline.rs", "src/outbox/pending_commit.rs"],
            Self::Confirm { .. } => &["src/relay/direct/dispatcher.rs", "src/store/memory/state/mod.rs"],
            Self::SendRead { .. } => {
                &["src/relay/direct/dispatcher.rs", "src/relay/engine/mod.rs", "src/relay/ledger/mod.rs"]
            }
            Self::Claim { .. } => &["src/relay/sweep/sweeper.rs", "src/store/memory/state/claim.rs"],
            Self::FullScan { .. } => &["src/relay/topics/claim_cursor.rs", "src/relay/sweep/full_scan.rs"],
            Self::SendClaimed { .. } => &["src/relay/sweep/claim_run.rs", "src/relay/engine/mod.rs"],
            Self::Close { .. } | Self::CloseFails { .. } => {
                &["src/relay/sweep/claim_run.rs", "src/store/memory/state/claim.rs"]
            }
            Self::Settle { .. } => &["src/relay/settle/delivered.rs", "src/store/memory/state/writes.rs"],
            Self::RecordFailure { .. } | Self::RecordFailureFails { .. } => {
                &["src/relay/settle/failures.rs", "src/store/memory/state/writes.rs"]
            }
            Self::Extend { .. } => &["src/relay/ledger/lease_renewer.rs", "src/store/memory/state/writes.rs"],
            Self::AbandonLease { .. } => &["src/relay/ledger/lease_renewer.rs", "src/relay/ledger/mod.rs"],
            Self::Redrive { .. } => &["src/admin/dead_letters.rs", "src/store/memory/state/admin.rs"],
            Self::Store { .. } => &["src/transport/mod.rs"],
            Self::GoDown => &["src/relay/ledger/lease_renewer.rs", "src/relay/health/breaker.rs"],
            Self::ComeBack => &["src/relay/health/prober.rs", "src/relay/health/breaker.rs"],
            Self::Acknowledge { .. }
            | Self::LoseAcknowledgement { .. }
            | Self::Refuse { .. }
            | Self::Disconnect { .. } => {
                &["src/relay/engine/mod.rs", "src/relay/health/breaker.rs", "src/relay/ledger/claim_outcomes.rs"]
            }
            Self::LeaseEnds { .. } | Self::Pause { .. } => &["src/clock.rs", "src/relay/ledger/mod.rs"],
            Self::CutClaim { .. } => &["src/store/pool/connection.rs"],
            Self::Crash { .. } => &["src/crash_points.rs"],
        }
    }
}
