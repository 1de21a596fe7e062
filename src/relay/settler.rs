//! The settler: writes the outcomes of leased rows, many in one statement.

use std::sync::Arc;

use crate::events::log_event;
use crate::injected_bugs::{InjectedBug, is_injected};
use crate::limits::{LANE_RECHECK, TEMPORARY_WAIT_MAX};
use crate::metrics;
use crate::panic_guard::catch_panic_async;
use crate::relay::engine::Engine;
use crate::relay::engine::rows::Holder;
use crate::relay::engine::stop::Stage;
use crate::relay::lanes::failures::{self as lane_failures, FailedInLane};
use crate::relay::ledger::entry::Progress;
use crate::relay::settle::{delivered, failures};
use crate::store::RowKey;
use crate::transport::Outcome;

/// Runs until the relay ends.
pub(crate) async fn run(engine: Arc<Engine>) {
    let linger = engine.limits.settle_linger_duration;
    loop {
        let batch = tokio::select! {
            batch = engine.outcome_queue.take(engine.limits.settle_rows_max, linger) => batch,
            () = engine.stop.reached(Stage::Ending) => return,
        };
        write_guarded(&engine, batch).await;
    }
}

/// Batches of outcomes that a settler is writing. Outcomes left unwritten, for whatever reason, go back to the outcome
/// queue.
struct PendingBatches<'a> {
    engine: &'a Engine,
    batches: Vec<Vec<(RowKey, Outcome)>>,
}

impl PendingBatches<'_> {
    /// What is left of the last batch. A written row is no longer in the ledger, or is there because it was sent again.
    fn unwritten(&self) -> Vec<(RowKey, Outcome)> {
        let progress = |outcome: &Outcome| match outcome {
            Outcome::Delivered => Progress::Delivered,
            Outcome::Failed(_) | Outcome::Busy => Progress::Failed,
        };
        let batch = self.batches.last().into_iter().flatten();
        batch.filter(|(row, outcome)| self.engine.ledger.progress(*row) == Some(progress(outcome))).cloned().collect()
    }
}

impl Drop for PendingBatches<'_> {
    fn drop(&mut self) {
        while !self.batches.is_empty() {
            let unwritten = self.unwritten();
            self.engine.outcome_queue.extend(unwritten);
            self.batches.pop();
        }
    }
}

/// Writes the outcomes of a batch. At a panic the batch is halved, down to the row that causes it. That row is set
/// aside, its neighbours are written, and the task goes on.
async fn write_guarded(engine: &Arc<Engine>, batch: Vec<(RowKey, Outcome)>) {
    if is_injected(InjectedBug::PolicyUnguarded) {
        return write(engine, batch).await;
    }
    let mut pending = PendingBatches { engine, batches: vec![batch] };
    while let Some(batch) = pending.batches.last() {
        let written = catch_panic_async("settler", "", write(engine, batch.clone())).await;
        let mut unwritten = if written.is_some() { Vec::new() } else { pending.unwritten() };
        let second = unwritten.split_off(unwritten.len() / 2);
        pending.batches.pop();
        match (unwritten.is_empty(), &second[..]) {
            (true, [(row, outcome)]) => set_aside(engine, *row, outcome),
            (true, _) => {}
            (false, _) => pending.batches.extend([second, unwritten]),
        }
    }
}

async fn write(engine: &Arc<Engine>, batch: Vec<(RowKey, Outcome)>) {
    let (mut settled, mut failed, mut failed_in_lanes) = (Vec::new(), Vec::new(), Vec::new());
    for (row, outcome) in batch {
        match outcome {
            Outcome::Delivered => settled.push(row),
            Outcome::Failed(error) => match engine.ledger.lane(row) {
                Some((in_flight, entry)) => failed_in_lanes.push(FailedInLane { row, in_flight, entry, error }),
                None => failed.push((row, error)),
            },
            Outcome::Busy => postpone(engine, row),
        }
    }
    delivered::settle(engine, settled).await;
    failures::write(engine, failed).await;
    lane_failures::write(engine, failed_in_lanes).await;
}

/// Sets a row aside because writing its outcome panics. A delivered row is settled later and not sent again. A failed
/// row is due again when its lease ends, and its failure is not noted; in a lane its key tries again after a while.
fn set_aside(engine: &Arc<Engine>, row: RowKey, outcome: &Outcome) {
    log_event!(OUTCOME_SET_ASIDE, ?row);
    if matches!(outcome, Outcome::Delivered) {
        return delivered::settle_row_later(engine, row);
    }
    ::metrics::counter!(metrics::LEASE_LOST).increment(1);
    if let Some(Holder::Lane(in_flight)) = engine.ledger.remove(row).map(|entry| entry.holder) {
        in_flight.block(row, engine.clock.now() + TEMPORARY_WAIT_MAX);
    }
}

/// Leaves a row that the client had no room for. In a lane its key tries again after a while.
fn postpone(engine: &Engine, row: RowKey) {
    if let Some(Holder::Lane(in_flight)) = engine.ledger.remove(row).map(|entry| entry.holder) {
        in_flight.block(row, engine.clock.now() + LANE_RECHECK);
    }
}
