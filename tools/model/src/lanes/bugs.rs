//! Bugs to inject: each removes one rule of the protocol, and the checker must find what that breaks.

/// A protocol with one bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A node that could not renew its lease goes on sending after it.
    KeepsLanePastLease,
    /// Leases are measured by a clock that stops while the process is stopped.
    ClockStopsInSuspend,
    /// The lease is checked when a row is read, but not when it is sent.
    LeaseNotCheckedAtSend,
    /// A lane is taken although its owner's lease still runs.
    TakesBeforeLeaseEnds,
    /// A new owner sends at once, while records of the last owner are still in flight.
    NoQuietPeriod,
    /// A lane is handed over with messages in flight.
    HandsOverUndrained,
    /// A lane is handed over with messages that are acknowledged and not yet settled.
    HandsOverUnsettled,
    /// A lane is handed over with messages in flight from an earlier ownership.
    HandsOverOlderInFlight,
    /// Failures and dead letters are written without owner and fence.
    FailureWithoutFence,
    /// The next message of a key is sent while the previous one is in flight.
    NextBeforeOutcome,
    /// A key goes on past a failed message.
    FailedKeyGoesOn,
    /// What this process has in flight from an earlier ownership of the lane does not block its keys.
    RetakeForgetsInFlight,
    /// What this process knows to be delivered, but has not settled yet, is sent again.
    RetakeForgetsDelivered,
    /// What this process has in flight from an earlier ownership is checked only before the send, and not before the
    /// read.
    LoadsRowsInFlight,
    /// A page skips rows of transactions that are still open, and the rows after them are sent.
    FrontPassesOpen,
    /// A message that is refused for good becomes a dead letter although its key should hold.
    DeadLettersHeldKey,
    /// Rows that became visible late are never read.
    NoLateRead,
}
