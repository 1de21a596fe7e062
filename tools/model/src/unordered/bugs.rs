//! Mistakes to plant: each takes one rule out of the protocol, and the checker has to find what it breaks.

/// A protocol with one mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// The dispatcher sends what the hook handed over without reading it (rule 1).
    SendWithoutConfirm,
    /// Confirm finds rows of any epoch (T13).
    ConfirmIgnoresEpoch,
    /// A row is sent although its term is over (rule 2).
    TermNotChecked,
    /// Terms are measured by a clock that stands still while the process is stopped (rule 2).
    ClockStopsInSuspend,
    /// Nobody extends the leases of rows in flight.
    LeaseNotExtended,
    /// A delivered row is removed by its `id`, whatever its message id (T5).
    SettleByIdAlone,
    /// An outage is written as a failure of the message (rule 7, T16).
    AttemptSpentInOutage,
    /// A failure leaves the epoch as it was (rule 4).
    FailKeepsEpoch,
    /// A failure is written whatever the epoch.
    FailIgnoresEpoch,
    /// A row that is held on leaves its epoch as it was (rule 4).
    HoldKeepsEpoch,
    /// A claim gives back what the client still has, as if it had been flushed.
    ReleaseBeforeFlush,
    /// A COMMIT that was answered with ROLLBACK counts as one (rule 5, T12).
    CommitTagIgnored,
    /// A claim that did not commit forgets what of it was acknowledged (rule 5).
    ForgetsFailedClaim,
    /// Outcomes that come after the close of their claim are left there.
    OutcomeAfterCloseLost,
    /// A claim reads without locks, or takes what others have locked.
    ClaimIgnoresLocks,
    /// The watermark passes rows that others hold locked (rule 3, T15).
    WatermarkPassesLocked,
    /// A claim takes delayed rows before their time.
    ClaimIgnoresDelay,
    /// A redrive removes the dead letter and writes no row.
    RedriveLosesRow,
    /// A row is removed when the client has its message.
    SettleOnSend,
    /// A message that the client gave up in an outage counts as delivered.
    TimeOutIsDelivery,
    /// A message that is given up is removed and not kept.
    DeadLetterDropped,
}
