//! Every step of the model, and the source it mirrors: change both together.

use crate::relay::RelayId;

/// A step. `message` is an index of [`State::messages`](super::state::State::messages), which is its `id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "`relay` and `message` say the same everywhere")]
pub enum Action {
    /// An application writes the row of the next id, in its own transaction.
    Enqueue { message: usize },
    /// The transaction takes longer than the slack of the front.
    ExceedSlack { message: usize },
    /// The row becomes visible. No relay is notified: a wakeup is only an earlier read.
    Commit { message: usize },
    /// The transaction is rolled back.
    Rollback { message: usize },

    /// A node takes a lane that is free, whose lease is over, or that a lost answer left to it.
    Take { relay: RelayId },
    /// The same, and the answer is lost.
    TakeResponseLost { relay: RelayId },
    /// The lane exceeds the node's share now: another node joined, or this one shuts down, or its broker is down.
    BeginHandover { relay: RelayId },
    /// The other node has left again: the lane is kept.
    CancelHandover { relay: RelayId },
    /// A drained lane is handed over.
    Release { relay: RelayId },
    /// The node forgets the lane, but the database does not learn of it.
    ReleaseFails { relay: RelayId },
    /// The lease renewer cannot renew the lease, and the node forgets the lane in time.
    LeaseEnds,
    /// A lease ends that no process knows of any more.
    LeaseRunsOut,
    /// What the last owner had in flight has arrived, or never will.
    QuietEnds,

    /// The reader reads the lane from its last position, less the slack.
    ReadFront { relay: RelayId },
    /// The reader reads the lane from its beginning.
    ReadLate { relay: RelayId },
    /// The payload of a key's next row is read by primary key.
    Load { relay: RelayId, message: usize },
    /// It is handed to the client, if the lane is still owned.
    Send { relay: RelayId, message: usize },
    /// A blocked key is retried.
    Unblock { relay: RelayId, message: usize },

    /// The broker stores a copy.
    Store { relay: RelayId, message: usize },
    /// Its acknowledgement arrives.
    Acknowledge { relay: RelayId, message: usize },
    /// Its acknowledgement is lost: the client reports a time-out.
    LoseAcknowledgement { relay: RelayId, message: usize },
    /// The client times out a message that is still in flight.
    TimeOut { relay: RelayId, message: usize },
    /// The broker refuses the record.
    Refuse { relay: RelayId, message: usize },
    /// The client reports a message that failed in an outage.
    Disconnect { relay: RelayId, message: usize },
    /// A record that nobody waits for is stored after all.
    StoreStray { message: usize },
    /// Such a record is lost.
    LoseStray { message: usize },
    /// The broker goes down.
    GoDown,
    /// The broker recovers.
    ComeBack,

    /// The settler removes a delivered row, whoever owns its lane.
    Settle { relay: RelayId, message: usize },
    /// The settler writes a failure or a dead letter, if the node owns the lane.
    RecordFailure { relay: RelayId, message: usize },
    /// The settler's statement fails.
    RecordFailureFails { relay: RelayId, message: usize },

    /// A process stalls past its lease. With a message `in_send`, it stalls between the check of the lease and the call
    /// into the client.
    Pause { relay: RelayId, in_send: Option<usize> },
    /// A process dies, and starts again as another node.
    Crash { relay: RelayId },
}

impl Action {
    /// The library's files that implement this step.
    pub fn mirrors(&self) -> &'static [&'static str] {
        match self {
            Self::Enqueue { .. } | Self::ExceedSlack { .. } | Self::Commit { .. } | Self::Rollback { .. } => {
                &["src/outbox/write.rs", "src/enqueue/statement/postgres.rs", "src/lane.rs"]
            }
            Self::Take { .. } | Self::TakeResponseLost { .. } => {
                &["src/store/lanes.rs", "src/store/sql/lanes.rs", "src/relay/lanes/balancer.rs"]
            }
            Self::BeginHandover { .. } | Self::CancelHandover { .. } => {
                &["src/relay/lanes/balancer.rs", "src/store/lanes.rs"]
            }
            Self::Release { .. } | Self::ReleaseFails { .. } => &["src/relay/lanes/balancer.rs", "src/store/lanes.rs"],
            Self::LeaseEnds | Self::LeaseRunsOut | Self::QuietEnds => &["src/relay/lanes/balancer.rs", "src/clock.rs"],
            Self::ReadFront { .. } | Self::ReadLate { .. } => &[
                "src/relay/lanes/lane/mod.rs",
                "src/relay/lanes/topic/mod.rs",
                "src/store/sql/statements/lane_rows.rs",
            ],
            Self::Load { .. } | Self::Send { .. } => &["src/relay/lanes/reader.rs", "src/relay/engine/outgoing.rs"],
            Self::Unblock { .. } => &["src/relay/lanes/lane/mod.rs"],
            Self::Store { .. } | Self::StoreStray { .. } | Self::LoseStray { .. } => &["src/transport/mod.rs"],
            Self::Acknowledge { .. }
            | Self::LoseAcknowledgement { .. }
            | Self::TimeOut { .. }
            | Self::Refuse { .. }
            | Self::Disconnect { .. } => &["src/relay/engine/mod.rs", "src/relay/lanes/failures.rs"],
            Self::GoDown | Self::ComeBack => &["src/relay/health/breaker.rs", "src/relay/lanes/reader.rs"],
            Self::Settle { .. } => &["src/relay/settle/delivered.rs"],
            Self::RecordFailure { .. } | Self::RecordFailureFails { .. } => {
                &["src/relay/lanes/failures.rs", "src/store/memory/state/lanes.rs"]
            }
            Self::Pause { .. } => &["src/clock.rs", "src/relay/engine/outgoing.rs"],
            Self::Crash { .. } => &["src/relay/api/shutdown.rs"],
        }
    }
}
