//! Settles delivered rows: removes them, many in one statement, or moves them to the history.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::time::sleep;

use super::settle_batch::SettleBatch;
use crate::crash_points::crash_point;
use crate::limits::{SETTLE_RETRY_INTERVAL, WRITE_RETRY_MAX, WRITE_RETRY_MIN};
use crate::metrics;
use crate::relay::engine::Engine;
use crate::relay::engine::rows::Holder;
use crate::relay::engine::stop::Stage;
use crate::relay::engine::store_call::store_call;
use crate::repeated::warn_once_a_minute;
use crate::retry::{Exponential, RetryPolicy as _};
use crate::store::{Locking, RowKey, RowRef, StoreError};
use crate::transport::{OutboxRow, Outcome};

/// Waits between retries of a write that the database could not do.
const WRITE_RETRY: Exponential = Exponential::new(WRITE_RETRY_MIN, WRITE_RETRY_MAX);

/// The rest of a batch, some rows of which could not be removed.
struct Unsettled {
    error: StoreError,
    /// Whether the database already answered a statement about the batch: then somebody has the rest locked.
    has_answered: bool,
}

/// Removes delivered rows. Halves a batch that fails permanently, down to the row that causes it. That row, and rows
/// that stay locked, are retried later. This process never sends any of them again.
pub(crate) async fn settle(engine: &Arc<Engine>, rows: Vec<RowKey>) {
    let mut batches = batches_of(engine, rows);
    let mut tries = 0;
    while let Some(mut batch) = batches.pop() {
        let Err(Unsettled { error, has_answered }) = settle_batch(engine, &mut batch).await else {
            tries = 0;
            continue;
        };
        ::metrics::counter!(metrics::SETTLE_RETRIED).increment(1);
        if engine.stop.has_reached(Stage::Ending) {
            return;
        }
        match batch.len() {
            rows if error.is_retriable() && !has_answered => {
                tries += 1;
                let failures = &engine.failure_log.settle;
                warn_once_a_minute!(SETTLE_FAILED, failures, error, rows);
                sleep(WRITE_RETRY.wait(tries)).await;
                batches.push(batch);
            }
            rows if error.is_retriable() || rows == 1 => {
                let (failures, keys) = (&engine.failure_log.settle_later, batch.keys());
                warn_once_a_minute!(SETTLE_DEFERRED, failures, error, ?keys);
                settle_later(engine, batch);
            }
            _ => batches.extend(batch.split()),
        }
    }
}

/// Rows for the history have statements of their own, so that the others cost no more than without a history.
fn batches_of(engine: &Engine, rows: Vec<RowKey>) -> Vec<SettleBatch> {
    let (kept, deleted) = if engine.topics.iter().any(|topic| topic.config.keep().is_some()) {
        engine.ledger.kept_and_deleted(&rows)
    } else {
        (Vec::new(), rows)
    };
    [SettleBatch::Deleted(deleted), SettleBatch::Kept(kept)].into_iter().filter(|batch| batch.len() > 0).collect()
}

/// Settles a batch. Removed rows leave the batch and the ledger at once, so that a later failure concerns only the
/// rest.
#[tracing::instrument(name = "outbox.settle", level = "debug", skip_all, fields(rows = batch.len()))]
async fn settle_batch(engine: &Engine, batch: &mut SettleBatch) -> Result<(), Unsettled> {
    crash_point!(SETTLING);
    remove(engine, batch, Locking::Skip).await.map_err(|error| Unsettled { error, has_answered: false })?;
    remove(engine, batch, Locking::Wait).await.map_err(|error| Unsettled { error, has_answered: true })?;
    crash_point!(SETTLED);
    check_missing(engine, batch).await.map_err(|error| Unsettled { error, has_answered: true })
}

/// Removes what it can of the batch.
async fn remove(engine: &Engine, batch: &mut SettleBatch, locking: Locking) -> Result<(), StoreError> {
    if batch.len() == 0 {
        return Ok(());
    }
    let removed = batch.settle(&*engine.store, locking).await?;
    ::metrics::histogram!(metrics::SETTLE_ROWS).record(removed.len() as f64);
    if matches!(batch, SettleBatch::Kept(_)) {
        engine.ledger.count_kept(removed.iter());
    }
    forget(engine, &removed).await;
    let removed: HashSet<RowKey> = removed.into_iter().collect();
    batch.retain(|row| !removed.contains(row));
    Ok(())
}

/// Delivered rows that are gone: another holder settled or dead-lettered them.
async fn check_missing(engine: &Engine, missing: &SettleBatch) -> Result<(), StoreError> {
    if missing.len() == 0 {
        return Ok(());
    }
    let dead = missing.settle_dead_letters(&*engine.store).await?;
    let cause = "another relay had them too, and may have sent duplicates";
    let failures = &engine.failure_log.settle_missed;
    warn_once_a_minute!(SETTLE_MISSED, failures, cause, rows = missing.len(), dead);
    ::metrics::counter!(metrics::SETTLE_MISSED, "found" => "dead_letter").increment(dead as u64);
    let nowhere = missing.len().saturating_sub(dead);
    ::metrics::counter!(metrics::SETTLE_MISSED, "found" => "nowhere").increment(nowhere as u64);
    forget(engine, &missing.keys()).await;
    Ok(())
}

/// Forgets rows that have left the table.
async fn forget(engine: &Engine, rows: &[RowKey]) {
    let removed = engine.ledger.remove_all(rows);
    engine.unflushed.extend(removed.into_iter().filter_map(|entry| match entry.holder {
        Holder::Lane(in_flight) => in_flight.row,
        Holder::Claim(_) | Holder::Lease(_) | Holder::Lost => None,
    }));
    let gone = engine.unflushed.take();
    if gone.is_empty() {
        return;
    }
    match store_call("flush_settled", engine.store.flush_settled()).await {
        Ok(()) => gone.iter().for_each(OutboxRow::settle),
        Err(error) => {
            let (failures, rows) = (&engine.failure_log.settle, gone.len());
            warn_once_a_minute!(SETTLE_FAILED, failures, error, rows);
            // With the next batch.
            engine.unflushed.extend(gone);
        }
    }
}

/// Settles a row later, outside of the workers.
pub(crate) fn settle_row_later(engine: &Arc<Engine>, row: RowKey) {
    batches_of(engine, vec![row]).into_iter().for_each(|batch| settle_later(engine, batch));
}

fn settle_later(engine: &Arc<Engine>, mut batch: SettleBatch) {
    let engine = Arc::clone(engine);
    // Bounded by the rows in flight, because the rows keep their places in the ledger.
    tokio::spawn(async move {
        while batch.len() > 0 {
            tokio::select! {
                () = sleep(SETTLE_RETRY_INTERVAL) => {}
                () = engine.stop.reached(Stage::Ending) => return,
            }
            match settle_unlocked(&engine, &mut batch).await {
                Ok(()) => {}
                Err(error) if !error.is_retriable() && batch.len() > 1 => {
                    // The workers find out which row causes it.
                    return engine.outcome_queue.extend(batch.keys().into_iter().map(|row| (row, Outcome::Delivered)));
                }
                Err(error) => {
                    let (failures, rows) = (&engine.failure_log.settle_later, batch.len());
                    warn_once_a_minute!(SETTLE_STILL_FAILS, failures, error, rows);
                }
            }
        }
    });
}

/// Settles the rows that nobody has locked, without waiting for the rest.
async fn settle_unlocked(engine: &Engine, batch: &mut SettleBatch) -> Result<(), StoreError> {
    remove(engine, batch, Locking::Skip).await?;
    if batch.len() == 0 {
        return Ok(());
    }
    let refs: Vec<RowRef> = batch.keys().into_iter().map(RowRef::from).collect();
    let locked: HashSet<RowKey> = store_call("remaining", engine.store.remaining(&refs)).await?.into_iter().collect();
    let mut gone = batch.clone();
    gone.retain(|row| !locked.contains(row));
    check_missing(engine, &gone).await?;
    batch.retain(|row| locked.contains(row));
    Ok(())
}
