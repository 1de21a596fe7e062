//! Times the calls of a store, and counts their errors.

use std::sync::OnceLock;

use ::metrics::{Counter, Histogram};
use tokio::time::Instant;

use crate::metrics;
use crate::store::StoreError;

macro_rules! statements {
    ($($statement:ident = $name:literal,)+) => {
        /// A call that is timed.
        #[derive(Debug, Clone, Copy)]
        pub(super) enum Statement {
            $($statement,)+
        }

        /// Their names, in the same order: those of the methods.
        const NAMES: &[&str] = &[$($name,)+];
    };
}

statements! {
    Check = "check",
    Confirm = "confirm",
    Remaining = "remaining",
    Claim = "claim",
    Close = "close",
    Settle = "settle",
    FlushSettled = "flush_settled",
    SettleDeadLetters = "settle_dead_letters",
    Extend = "extend",
    Fail = "fail",
    DeadLetter = "dead_letter",
    Poll = "poll",
    Backlog = "backlog",
    PrepareLanes = "prepare_lanes",
    HasOrderedRows = "has_ordered_rows",
    ReadLanes = "read_lanes",
    BalanceLanes = "balance_lanes",
    LaneEntries = "lane_entries",
    LaneRows = "lane_rows",
    FailInLanes = "fail_in_lanes",
    DeadLetterFromLanes = "dead_letter_from_lanes",
    SettleIntoHistory = "settle_into_history",
    SettleDeadLettersIntoHistory = "settle_dead_letters_into_history",
    EnsurePartitions = "ensure_partitions",
    Prune = "prune",
    PruneDeadLetters = "prune_dead_letters",
    ApplyProcessedReports = "apply_processed_reports",
    PruneAudit = "prune_audit",
    Notify = "notify",
}

/// The metrics of a store's calls, each fetched at the first call: most relays never make some of them.
pub(super) struct Timer {
    store: &'static str,
    calls: [OnceLock<(Histogram, Counter)>; NAMES.len()],
}

impl Timer {
    pub(super) fn new(store: &'static str) -> Self {
        Self { store, calls: [const { OnceLock::new() }; NAMES.len()] }
    }

    /// Times a call. One that is dropped before its end counts as none.
    pub(super) async fn time<T>(
        &self,
        statement: Statement,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let began = Instant::now();
        let answer = call.await;
        let (seconds, errors) = self.calls[statement as usize].get_or_init(|| self.metrics(NAMES[statement as usize]));
        seconds.record(began.elapsed().as_secs_f64());
        if answer.is_err() {
            errors.increment(1);
        }
        answer
    }

    fn metrics(&self, statement: &'static str) -> (Histogram, Counter) {
        let store = self.store;
        (
            ::metrics::histogram!(metrics::STATEMENT, "store" => store, "statement" => statement),
            ::metrics::counter!(metrics::STATEMENT_ERRORS, "store" => store, "statement" => statement),
        )
    }
}
