//! Every step of the model, and the source it mirrors: whoever changes the one changes the other.

use super::state::RelayId;

/// A step. `message` is its place in [`State::messages`](super::state::State::messages).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "`relay`, `message` and `by` say the same everywhere")]
pub enum Action {
    /// An application writes a row in its transaction, leased to its own process. One without a relay, whose rows are due at
    /// once, does what one does whose hook saw no commit and whose born lease is over. The ref is on its way from here: the
    /// hook hands it over at the end of a COMMIT, which proves nothing, and a confirm that comes before the row can be seen
    /// stands for a ref that got lost. `reused`: the database gives the row the id of one that is gone (T5).
    Enqueue { message: usize, by: RelayId, reused: bool },
    /// The same with a row that is to be sent later: it belongs to nobody, and nothing is handed over.
    EnqueueDelayed { message: usize, by: RelayId },
    /// The transaction takes longer than the slack of the watermark: its row appears late.
    ExceedSlack { message: usize },
    /// The row becomes visible.
    Commit { message: usize },
    /// `outbox.transaction` commits with a proof, and carries the row itself.
    CommitVerified { message: usize },
    /// The transaction is rolled back, whatever was handed over.
    Rollback { message: usize },

    /// The dispatcher reads a handed-over row.
    Confirm { relay: RelayId, message: usize },
    /// The dispatcher offers a row to the transport.
    SendRead { relay: RelayId, message: usize },

    /// The sweeper takes what is due: everything, or a single row as a trial.
    Claim { relay: RelayId, only: Option<usize> },
    /// A look from the beginning sets the watermark back to before what is below it.
    FullScan { relay: RelayId },
    /// The sweeper offers the claimed rows to the transport.
    SendClaimed { relay: RelayId },
    /// The claim is closed: delivered rows are settled, those in flight are held, the others go back.
    Close { relay: RelayId },
    /// The close fails, with effect (its answer is lost) or without (COMMIT answers ROLLBACK, the connection breaks).
    CloseFails { relay: RelayId, applied: bool },

    /// The settler removes a delivered row.
    Settle { relay: RelayId, message: usize },
    /// The settler writes a failure, or gives the message up.
    RecordFailure { relay: RelayId, message: usize },
    /// The statement of a failure fails: the row comes back when its lease ends.
    RecordFailureFails { relay: RelayId, message: usize },
    /// The keeper extends a lease.
    Extend { relay: RelayId, message: usize },
    /// The keeper gives up a lease that ended and could not be extended.
    AbandonLease { relay: RelayId, message: usize },

    /// Somebody sends a dead letter again.
    Redrive { message: usize },

    /// The broker stores a copy.
    Store { relay: RelayId, message: usize },
    /// Its acknowledgement arrives.
    Acknowledge { relay: RelayId, message: usize },
    /// Its acknowledgement gets lost: the client reports a time-out.
    LoseAcknowledgement { relay: RelayId, message: usize },
    /// The broker refuses the record.
    Refuse { relay: RelayId, message: usize },
    /// The client reports a message that an outage has caught.
    Disconnect { relay: RelayId, message: usize },
    /// The broker is gone, and both relays know it. What one of them sends before it knows was sent before this.
    GoDown,
    /// The broker is back, and answers probes. One that is back and was not probed yet is one that is not back yet.
    ComeBack,

    /// `due_at` passes, and before it the term of whoever holds the row.
    LeaseEnds { message: usize },
    /// A process stands still past its claim window, or, where it is `long`, past its leases as well.
    Pause { relay: RelayId, long: bool },
    /// The connection of a claim breaks.
    CutClaim { relay: RelayId },
    /// A process dies and starts again. One that stays away does what one that is up and idle does.
    Crash { relay: RelayId },
}

impl Action {
    /// The files that do in the library what this step does in the model.
    pub fn mirrors(&self) -> &'static [&'static str] {
        match self {
            Self::Enqueue { .. } | Self::EnqueueDelayed { .. } => {
                &["src/outbox/write.rs", "src/enqueue/statement/postgres.rs"]
            }
            Self::Commit { .. } | Self::Rollback { .. } | Self::ExceedSlack { .. } => {
                &["src/hook/mod.rs", "src/hook/buffer.rs", "src/relay/direct/queue.rs"]
            }
            Self::CommitVerified { .. } => &["src/outbox/transaction/pipeline.rs", "src/outbox/pending_commit.rs"],
            Self::Confirm { .. } => &["src/relay/direct/dispatcher.rs", "src/store/memory/state.rs"],
            Self::SendRead { .. } => {
                &["src/relay/direct/dispatcher.rs", "src/relay/engine/mod.rs", "src/relay/ledger/mod.rs"]
            }
            Self::Claim { .. } => &["src/relay/sweep/sweeper.rs", "src/store/memory/state/claim.rs"],
            Self::FullScan { .. } => &["src/relay/topics/claim_cursor.rs", "src/relay/sweep/full_scan.rs"],
            Self::SendClaimed { .. } => &["src/relay/sweep/claim_run.rs", "src/relay/engine/mod.rs"],
            Self::Close { .. } | Self::CloseFails { .. } => {
                &["src/relay/sweep/claim_run.rs", "src/store/memory/state/claim.rs"]
            }
            Self::Settle { .. } => &["src/relay/settle/settler.rs", "src/store/memory/state/writes.rs"],
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
            Self::CutClaim { .. } => &["src/store/pool/lease.rs"],
            Self::Crash { .. } => &["src/crash_points.rs"],
        }
    }
}
