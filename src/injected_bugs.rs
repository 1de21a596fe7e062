//! Mistakes that can be made on purpose, one in a process, so that the fault harness can show that it finds them.
//!
//! They are compiled only with the private feature `_injected_bugs`; otherwise `is_injected` is a constant.

macro_rules! injected_bugs {
    ($($name:ident = $text:literal, $help:literal;)+) => {
        /// A mistake in the library that `cargo xtask faults --inject-all-bugs` has to find.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[cfg_attr(
            not(feature = "_injected_bugs"),
            allow(dead_code, unreachable_pub, reason = "which are named depends on the features")
        )]
        pub enum InjectedBug { $(#[doc = $help] $name,)+ }

        #[cfg(feature = "_injected_bugs")]
        impl InjectedBug {
            /// Every bug.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Its name on the command line.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }
        }
    };
}

injected_bugs! {
    CommitBelieved = "commit-believed", "Rows that the hook saw committed are sent without confirm.";
    SettleById = "settle-by-id", "A settle names the id of a row alone.";
    SettleOnSend = "settle-on-send", "A row is settled when the client has it.";
    LostAckIsSent = "lost-ack-is-sent", "A message that timed out counts as delivered.";
    LeaseNotExtended = "lease-not-extended", "Leases of rows in flight are not extended.";
    AttemptInOutage = "attempt-in-outage", "Time-outs and outages spend attempts.";
    ClaimGivesBack = "claim-gives-back", "A claim gives back what the client still has.";
    ClaimUnlocked = "claim-unlocked", "A claim neither locks its rows nor respects other locks.";
    DeadLetterNotKept = "dead-letter-not-kept", "A message that should be dead-lettered is deleted.";
    LaneNeverLost = "lane-never-lost", "The owner of a lane goes on after its lease.";
    LaneLeftInFlight = "lane-left-in-flight", "A lane is handed over with its rows in flight.";
    FenceSkipped = "fence-skipped", "A node fences its lane only against itself.";
    DeliveredForgotten = "delivered-forgotten", "The next owner of an exactly-once lane does not read what was delivered.";
    FailedKeyGoesOn = "failed-key-goes-on", "The next message of a key does not wait for one that failed.";
    DelayForgotten = "delay-forgotten", "A delayed message is due when it is enqueued.";
    RedriveLosesRow = "redrive-loses-row", "A redrive removes the dead letter and writes no row.";
    RecordTimeIsCreation = "record-time-is-creation", "The time of a record of Kafka is that of its row.";
    PolicyUnguarded = "policy-unguarded", "A panic of the retry policy loses the settler's batch.";
    StatementLeftBehind = "statement-left-behind", "An abandoned statement goes on in the server.";
    PollReadsDeadRows = "poll-reads-dead-rows", "Each poll reads from the first index entry on.";
    OffsetBeforeCommit = "offset-before-commit", "A consumer commits the offsets of records that it has not processed.";
    InboxPrunedEarly = "inbox-pruned-early", "An inbox forgets what it must still recognise.";
    OffsetNotCompared = "offset-not-compared", "A consumer moves an offset that another process has moved.";
    ClaimErrorSwallowed = "claim-error-swallowed", "A consumer goes on as if a claim that failed had succeeded.";
}

#[cfg(feature = "_injected_bugs")]
static INJECTED: std::sync::OnceLock<InjectedBug> = std::sync::OnceLock::new();

/// Makes this mistake from now on, in the whole process; the first choice counts.
#[cfg(feature = "_injected_bugs")]
pub fn inject(mistake: InjectedBug) {
    let _ = INJECTED.set(mistake);
}

/// Whether this mistake is to be made.
#[cfg(feature = "_injected_bugs")]
pub(crate) fn is_injected(mistake: InjectedBug) -> bool {
    INJECTED.get() == Some(&mistake)
}

#[cfg(not(feature = "_injected_bugs"))]
pub(crate) const fn is_injected(_: InjectedBug) -> bool {
    false
}
