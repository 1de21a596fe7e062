//! Mistakes to plant: each takes one rule out of the protocol, and the checker has to find what it breaks.

/// A protocol with one mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A node that could not renew its lease goes on sending after it.
    KeepsLanePastLease,
    /// Leases are measured by a clock that stands still while the process is stopped.
    ClockStopsInSuspend,
    /// Whether the lease runs is looked at when a row is read, and not when it is sent.
    LeaseNotLookedAtBySend,
    /// A lane is taken although the lease of its owner runs.
    TakesBeforeLeaseEnds,
    /// Who takes a lane over begins at once, with records of the last owner still on their way.
    NoQuietPeriod,
    /// A lane is handed over with messages in flight.
    HandsOverUndrained,
    /// A lane is handed over with messages that are acknowledged and not yet settled.
    HandsOverUnsettled,
    /// A lane is handed over with messages in flight from an earlier time as its owner.
    HandsOverWhatIsOlder,
    /// Failures and dead letters are written without owner and fence.
    FailureWithoutFence,
    /// The next message of a key goes while the one before is in flight.
    NextBeforeOutcome,
    /// A key goes on behind a message that failed.
    FailedKeyGoesOn,
    /// What this process has in flight from an earlier time as the lane's owner stands in no key's way.
    RetakeForgetsInFlight,
    /// What this process knows delivered, and has not settled yet, is sent again.
    RetakeForgetsDelivered,
    /// What this process has in flight from an earlier time is looked for only when it is sent, and not before it is read.
    LoadsWhatIsInFlight,
    /// A page goes past rows of transactions that are still open, and what follows them is sent.
    FrontPassesOpen,
    /// A message that is refused for good becomes a dead letter, and its key was to hold.
    DeadLettersHeldKey,
    /// Rows that became visible late are never looked for.
    NoLateRead,
}
