//! The pruner: removes what is kept no longer, a bounded step at a time, and makes room for what comes.
//!
//! One in every relay, and each removes what any of them has kept: what is locked by one is passed over by the others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::engine::engines::Engines;
use super::engine::stop::Stage;
use crate::limits::{PROCESSED_FLAG_AGE_MAX, PRUNE_PAUSE_FACTOR, PRUNE_PAUSE_MIN, PRUNE_ROWS_MAX};
use crate::metrics;
use crate::retention::DAY;
use crate::store::{HistoryStore, SchemaProblem, StoreError};

/// For how many days topics keep what was sent, each number once.
pub(crate) fn days(engines: &Engines) -> Vec<u32> {
    let days: BTreeSet<u32> = engines.topics().filter_map(|topic| topic.topic.keep()).map(|keep| keep.days).collect();
    days.into_iter().collect()
}

/// Runs until the relay drains.
pub(crate) async fn run(engines: Arc<Engines>) {
    loop {
        let began = Instant::now();
        let pause = if run_once(&engines).await { pause_after(began.elapsed()) } else { engines.limits.prune_interval };
        tokio::select! {
            () = sleep(pause) => {}
            () = engines.stop.reached(Stage::Draining) => return,
        }
    }
}

/// How long it rests after a round that left something.
fn pause_after(took: Duration) -> Duration {
    (took * PRUNE_PAUSE_FACTOR).max(PRUNE_PAUSE_MIN)
}

/// One step of each kind; says whether more is left. A step that fails keeps no other back, and is tried again in the next round.
pub(crate) async fn run_once(engines: &Engines) -> bool {
    let Some(store) = engines.store.history() else { return false };
    let mut more = false;
    let days = days(engines);
    if !days.is_empty() {
        log_failure("room could not be made in the history", store.ensure_partitions(&days).await);
    }
    // Also where no topic keeps any more: what was kept before goes with its day. Its tables may never have been there.
    let is_absent =
        async || matches!(store.check_history().await, Err(StoreError::Schema(SchemaProblem::NotMigrated { .. })));
    if !days.is_empty() || !is_absent().await {
        more |= note("history", prune(store).await);
        more |= note("marks", with_more(store.apply_processed_marks(PROCESSED_FLAG_AGE_MAX, PRUNE_ROWS_MAX).await));
    }
    for topic in engines.topics() {
        if let Some(days) = topic.topic.retention().dead_days {
            more |= note(
                "dead_letters",
                with_more(store.prune_dead_letters(&topic.name(), DAY * days, PRUNE_ROWS_MAX).await),
            );
        }
    }
    more
}

async fn prune(store: &dyn HistoryStore) -> Result<(usize, bool), StoreError> {
    store.prune(PRUNE_ROWS_MAX).await.map(|pruned| (pruned.rows, pruned.more))
}

/// More may be left where a step did all that it may.
fn with_more(removed: Result<usize, StoreError>) -> Result<(usize, bool), StoreError> {
    removed.map(|rows| (rows, rows >= PRUNE_ROWS_MAX))
}

fn note(what: &'static str, removed: Result<(usize, bool), StoreError>) -> bool {
    let Some((rows, more)) = log_failure("what is kept no longer could not be removed", removed) else { return false };
    ::metrics::counter!(metrics::PRUNED, "what" => what).increment(rows as u64);
    more
}

fn log_failure<T>(what: &'static str, result: Result<T, StoreError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            ::metrics::counter!(metrics::PRUNE_FAILED).increment(1);
            tracing::warn!(%error, "{what}: trying again");
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
