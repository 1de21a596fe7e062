//! The settler: writes what became of leased rows, many in one statement.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::engine::Engine;
use super::entry::Holder;
use super::failures;
use super::group::Group;
use super::inbox::Fate;
use super::lanes::failures::{self as lane_failures, FailedInLane};
use super::stop::Stage;
use crate::crash_points::crash_point;
use crate::limits::LANE_RECHECK;
use crate::metrics;
use crate::retry::{Exponential, RetryPolicy as _};
use crate::store::{Locking, RowKey, StoreError};

/// Waits between tries of a write that the database could not do: from 50 ms, because a deadlock is over at once, to 5 s,
/// because a database that is away is looked for no more often than that.
const WRITE_RETRY: Exponential = Exponential::new(Duration::from_millis(50), Duration::from_secs(5));

/// Runs until the relay ends.
pub(crate) async fn run(engine: Arc<Engine>) {
    let linger = engine.limits.settle_linger_duration;
    loop {
        let group = tokio::select! {
            group = engine.inbox.take(engine.limits.settle_rows_max, linger) => group,
            () = engine.stop.reached(Stage::Ending) => return,
        };
        let (mut delivered, mut failed, mut failed_in_lanes) = (Vec::new(), Vec::new(), Vec::new());
        for (row, fate) in group {
            match fate {
                Fate::Delivered => delivered.push(row),
                Fate::Failed(error) => match engine.ledger.lane(row) {
                    Some((hold, entry)) => failed_in_lanes.push(FailedInLane { row, hold, entry, error }),
                    None => failed.push((row, error)),
                },
                Fate::Unsent => unsent(&engine, row),
            }
        }
        settle(&engine, delivered).await;
        failures::write(&engine, failed).await;
        lane_failures::write(&engine, failed_in_lanes).await;
    }
}

/// The client had no room for it, and will not have any at once.
fn unsent(engine: &Engine, row: RowKey) {
    if let Some(Holder::Lane(hold)) = engine.ledger.strike(row).map(|entry| entry.holder) {
        hold.block(row, engine.clock.now() + LANE_RECHECK);
    }
}

/// Removes delivered rows, whatever it takes: halves a group that fails for good, down to the row that is the reason, and
/// tries that one again later. None of them is ever sent again by this process.
pub(crate) async fn settle(engine: &Arc<Engine>, rows: Vec<RowKey>) {
    let mut groups = groups_of(engine, rows);
    let mut tries = 0;
    while let Some(group) = groups.pop() {
        match settle_group(engine, &group).await {
            Ok(()) => tries = 0,
            Err(error) => {
                ::metrics::counter!(metrics::SETTLE_RETRIED).increment(1);
                if engine.stop.has_reached(Stage::Ending) {
                    return;
                }
                if error.is_retriable() {
                    tries += 1;
                    tracing::warn!(%error, rows = group.len(), "delivered rows could not be settled: trying again");
                    sleep(WRITE_RETRY.wait(tries)).await;
                    groups.push(group);
                } else if let [row] = group.keys()[..] {
                    tracing::warn!(%error, ?row, "a delivered row cannot be settled: trying again later");
                    settle_later(engine, row);
                } else {
                    groups.extend(group.halves());
                }
            }
        }
    }
}

/// Rows that are kept go by statements of their own, so that the others cost what they do without a history.
fn groups_of(engine: &Engine, rows: Vec<RowKey>) -> Vec<Group> {
    let (kept, deleted) = if engine.topics.iter().any(|topic| topic.topic.keep().is_some()) {
        engine.ledger.kept_and_deleted(&rows)
    } else {
        (Vec::new(), rows)
    };
    [Group::Deleted(deleted), Group::Kept(kept)].into_iter().filter(|group| group.len() > 0).collect()
}

#[tracing::instrument(name = "outbox.settle", level = "debug", skip_all, fields(rows = group.len()))]
async fn settle_group(engine: &Engine, group: &Group) -> Result<(), StoreError> {
    crash_point!(SETTLING);
    let rows = group.keys();
    let mut missing: HashSet<RowKey> = rows.iter().copied().collect();
    for locking in [Locking::Skip, Locking::Wait] {
        let wanted = group.only(&missing);
        if wanted.len() == 0 {
            break;
        }
        for row in wanted.settle(&*engine.store, locking).await? {
            missing.remove(&row);
        }
    }
    crash_point!(SETTLED);
    ::metrics::histogram!(metrics::SETTLE_ROWS).record((rows.len() - missing.len()) as f64);
    look_for_missing(engine, &group.only(&missing)).await?;
    if matches!(group, Group::Kept(_)) {
        engine.ledger.count_kept(rows.iter().filter(|row| !missing.contains(row)));
    }
    engine.ledger.strike_all(&rows);
    Ok(())
}

/// Delivered rows that are gone: another holder settled them, or gave them up as dead.
async fn look_for_missing(engine: &Engine, missing: &Group) -> Result<(), StoreError> {
    if missing.len() == 0 {
        return Ok(());
    }
    let dead = missing.settle_dead(&*engine.store).await?;
    tracing::warn!(rows = missing.len(), dead, "delivered rows were no longer there: another holder had them too");
    ::metrics::counter!(metrics::SETTLE_MISSED, "found" => "dead_letter").increment(dead as u64);
    let nowhere = missing.len().saturating_sub(dead);
    ::metrics::counter!(metrics::SETTLE_MISSED, "found" => "nowhere").increment(nowhere as u64);
    Ok(())
}

fn settle_later(engine: &Arc<Engine>, row: RowKey) {
    let engine = Arc::clone(engine);
    // Bounded by the rows in flight; the row keeps its place in the ledger meanwhile.
    tokio::spawn(async move {
        tokio::select! {
            () = sleep(Duration::from_secs(5)) => engine.inbox.push(row, Fate::Delivered),
            () = engine.stop.reached(Stage::Ending) => {}
        }
    });
}
