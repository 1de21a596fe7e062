//! Bugs to inject: each removes one rule of the protocol, and the checker must find what that breaks.

/// A protocol with one bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// The dispatcher sends rows from the hook without reading them (rule 1).
    SendWithoutConfirm,
    /// Confirm finds rows of any epoch (T13).
    ConfirmIgnoresEpoch,
    /// A row is sent although its lease is over (rule 2).
    LeaseNotChecked,
    /// Leases are measured by a clock that stops while the process is stopped (rule 2).
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
    /// A held row keeps its epoch (rule 4).
    HoldKeepsEpoch,
    /// A claim releases what the client still has, as if it had been flushed.
    ReleaseBeforeFlush,
    /// A COMMIT that was answered with ROLLBACK counts as a commit (rule 5, T12).
    CommitTagIgnored,
    /// A claim that did not commit forgets what was acknowledged (rule 5).
    ForgetsFailedClaim,
    /// Outcomes that arrive after the close of their claim are lost.
    OutcomeAfterCloseLost,
    /// A claim reads without locks, or takes rows that others have locked.
    ClaimIgnoresLocks,
    /// The watermark passes rows that others have locked (rule 3, T15).
    WatermarkPassesLocked,
    /// A claim takes delayed rows before their time.
    ClaimIgnoresDelay,
    /// A redrive removes the dead letter and writes no row.
    RedriveLosesRow,
    /// A row is removed when the client accepts its message.
    SettleOnSend,
    /// A message that timed out in an outage counts as delivered.
    TimeOutIsDelivery,
    /// A dead letter is removed and not stored.
    DeadLetterDropped,
}
