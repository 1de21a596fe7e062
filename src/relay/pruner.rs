//! The pruner: removes expired history, dead letters, processed reports and audit entries in bounded steps, and creates partitions
//! ahead of time.
//!
//! Every relay has one, and each removes rows of all relays. It skips rows that another one has locked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::engine::engines::Engines;
use super::engine::stop::Stage;
use crate::limits::{PROCESSED_REPORT_AGE_MAX, PRUNE_PAUSE_FACTOR, PRUNE_PAUSE_MIN, PRUNE_ROWS_MAX};
use crate::metrics;
use crate::repeated::{Repeated, warn_once_a_minute};
use crate::retention::DAY;
use crate::store::{HistoryStore, StoreError};

/// The retentions of all topics in days, without duplicates.
pub(crate) fn days(engines: &Engines) -> Vec<u32> {
    let days: BTreeSet<u32> = engines.topics().filter_map(|topic| topic.config.keep()).map(|keep| keep.days).collect();
    days.into_iter().collect()
}

/// Runs until the relay drains.
pub(crate) async fn run(engines: Arc<Engines>) {
    let failures = Repeated::default();
    loop {
        let began = Instant::now();
        let pause = if run_once(&engines, &failures).await {
            pause_after(began.elapsed())
        } else {
            engines.limits.prune_interval
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = engines.stop.reached(Stage::Draining) => return,
        }
    }
}

/// How long to pause after a round that left something.
fn pause_after(took: Duration) -> Duration {
    (took * PRUNE_PAUSE_FACTOR).max(PRUNE_PAUSE_MIN)
}

/// One step of each kind. Returns whether more is left. A step that fails does not stop the others and is retried in
/// the next round.
pub(crate) async fn run_once(engines: &Engines, failures: &Repeated) -> bool {
    let mut more = prune_audit(engines, failures).await;
    let (store, days) = (engines.store.history(), days(engines));
    if !days.is_empty() {
        log_failure(failures, "history partitions could not be created", store.ensure_partitions(&days).await);
    }
    // Also if no topic keeps history any more: older rows still expire. The tables may never have existed.
    let is_absent = async || store.check_history().await.is_err_and(|error| error.is_not_migrated());
    if !days.is_empty() || !is_absent().await {
        more |= note(failures, "history", prune(store).await);
        more |= note(
            failures,
            "processed_reports",
            with_more(store.apply_processed_reports(PROCESSED_REPORT_AGE_MAX, PRUNE_ROWS_MAX).await),
        );
    }
    for topic in engines.topics() {
        if let Some(days) = topic.config.retention().dead_days {
            more |= note(
                failures,
                "dead_letters",
                with_more(store.prune_dead_letters(&topic.name(), DAY * days, PRUNE_ROWS_MAX).await),
            );
        }
    }
    more
}

/// Leaves alone what is to be kept for ever, and what does not exist.
async fn prune_audit(engines: &Engines, failures: &Repeated) -> bool {
    let Some((store, days)) = engines.store.audit().zip(engines.audit_days) else { return false };
    if store.check_audit().await.is_err_and(|error| error.is_not_migrated()) {
        return false;
    }
    note(failures, "audit", with_more(store.prune_audit(DAY * days, PRUNE_ROWS_MAX).await))
}

async fn prune(store: &dyn HistoryStore) -> Result<(usize, bool), StoreError> {
    store.prune(PRUNE_ROWS_MAX).await.map(|pruned| (pruned.rows, pruned.more))
}

/// A step that removed as much as it may has probably left more.
fn with_more(removed: Result<usize, StoreError>) -> Result<(usize, bool), StoreError> {
    removed.map(|rows| (rows, rows >= PRUNE_ROWS_MAX))
}

fn note(failures: &Repeated, what: &'static str, removed: Result<(usize, bool), StoreError>) -> bool {
    let Some((rows, more)) = log_failure(failures, "expired rows could not be removed", removed) else {
        return false;
    };
    ::metrics::counter!(metrics::PRUNED, "what" => what).increment(rows as u64);
    more
}

fn log_failure<T>(failures: &Repeated, what: &'static str, result: Result<T, StoreError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            ::metrics::counter!(metrics::PRUNE_FAILED).increment(1);
            warn_once_a_minute!(PRUNE_FAILED, failures, error, what);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_works_for_half_of_the_time_at_most() {
        for took in [0, 1, 9, 50, 3_000].map(Duration::from_millis) {
            let pause = pause_after(took);
            assert!(
                pause >= took && pause >= PRUNE_PAUSE_MIN && pause <= took.max(PRUNE_PAUSE_MIN),
                "{took:?}: {pause:?}"
            );
        }
    }
}
