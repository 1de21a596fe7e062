//! The settler: writes what became of leased rows, many in one statement.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::time::sleep;

use super::engine::Engine;
use super::entry::{Holder, Progress};
use super::failures;
use super::group::Group;
use super::inbox::Fate;
use super::lanes::failures::{self as lane_failures, FailedInLane};
use super::stop::Stage;
use super::store_call::store_call;
use crate::crash_points::crash_point;
use crate::guarded::guarded_async;
use crate::limits::{LANE_RECHECK, SETTLE_LATER_INTERVAL, TEMPORARY_WAIT_MAX, WRITE_RETRY_MAX, WRITE_RETRY_MIN};
use crate::metrics;
use crate::planted::{Mistake, planted};
use crate::retry::{Exponential, RetryPolicy as _};
use crate::store::{Locking, RowKey, RowRef, StoreError};

/// Waits between tries of a write that the database could not do.
const WRITE_RETRY: Exponential = Exponential::new(WRITE_RETRY_MIN, WRITE_RETRY_MAX);

/// Runs until the relay ends.
pub(crate) async fn run(engine: Arc<Engine>) {
    let linger = engine.limits.settle_linger_duration;
    loop {
        let group = tokio::select! {
            group = engine.inbox.take(engine.limits.settle_rows_max, linger) => group,
            () = engine.stop.reached(Stage::Ending) => return,
        };
        write_in_hand(&engine, group).await;
    }
}

/// Outcomes in the hands of a settler, in groups. Those that it leaves unwritten, whatever ended it, go back to the inbox.
struct InHand<'a> {
    engine: &'a Engine,
    groups: Vec<Vec<(RowKey, Fate)>>,
}

impl InHand<'_> {
    /// What is left of the last group: a row is written that is not in the ledger any more, or is there because it was sent anew.
    fn unwritten(&self) -> Vec<(RowKey, Fate)> {
        let progress = |fate: &Fate| match fate {
            Fate::Delivered => Progress::Delivered,
            Fate::Failed(_) | Fate::Unsent => Progress::Failed,
        };
        let group = self.groups.last().into_iter().flatten();
        group.filter(|(row, fate)| self.engine.ledger.progress(*row) == Some(progress(fate))).cloned().collect()
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        while !self.groups.is_empty() {
            let unwritten = self.unwritten();
            self.engine.inbox.extend(unwritten);
            self.groups.pop();
        }
    }
}

/// Writes what became of a group of rows. Where that panics, the group is halved, down to the row that is the reason, and that one is
/// left: it costs its neighbours nothing, and the task goes on.
async fn write_in_hand(engine: &Arc<Engine>, group: Vec<(RowKey, Fate)>) {
    if planted(Mistake::PolicyUnguarded) {
        return write(engine, group).await;
    }
    let mut hand = InHand { engine, groups: vec![group] };
    while let Some(group) = hand.groups.last() {
        let written = guarded_async("settler", "", write(engine, group.clone())).await;
        let mut unwritten = if written.is_some() { Vec::new() } else { hand.unwritten() };
        let second = unwritten.split_off(unwritten.len() / 2);
        hand.groups.pop();
        match (unwritten.is_empty(), &second[..]) {
            (true, [(row, fate)]) => leave(engine, *row, fate),
            (true, _) => {}
            (false, _) => hand.groups.extend([second, unwritten]),
        }
    }
}

async fn write(engine: &Arc<Engine>, group: Vec<(RowKey, Fate)>) {
    let (mut delivered, mut failed, mut failed_in_lanes) = (Vec::new(), Vec::new(), Vec::new());
    for (row, fate) in group {
        match fate {
            Fate::Delivered => delivered.push(row),
            Fate::Failed(error) => match engine.ledger.lane(row) {
                Some((hold, entry)) => failed_in_lanes.push(FailedInLane { row, hold, entry, error }),
                None => failed.push((row, error)),
            },
            Fate::Unsent => unsent(engine, row),
        }
    }
    settle(engine, delivered).await;
    failures::write(engine, failed).await;
    lane_failures::write(engine, failed_in_lanes).await;
}

/// Leaves a row at whose outcome the settler panics. What was delivered is tried again later and is not sent again. What failed comes
/// back when its lease ends, without a note of it; in a lane its key tries again after a while.
fn leave(engine: &Arc<Engine>, row: RowKey, fate: &Fate) {
    tracing::error!(?row, "what became of a row cannot be written: it is left");
    if matches!(fate, Fate::Delivered) {
        return groups_of(engine, vec![row]).into_iter().for_each(|group| settle_later(engine, group));
    }
    ::metrics::counter!(metrics::LEASE_LOST).increment(1);
    if let Some(Holder::Lane(hold)) = engine.ledger.strike(row).map(|entry| entry.holder) {
        hold.block(row, engine.clock.now() + TEMPORARY_WAIT_MAX);
    }
}

/// The client had no room for it, and will not have any at once.
fn unsent(engine: &Engine, row: RowKey) {
    if let Some(Holder::Lane(hold)) = engine.ledger.strike(row).map(|entry| entry.holder) {
        hold.block(row, engine.clock.now() + LANE_RECHECK);
    }
}

/// A group of which some rows could not be removed; those are what is left of it.
struct Unsettled {
    error: StoreError,
    /// Whether the database has answered a statement about the group before: then the rest is locked by somebody.
    has_answered: bool,
}

/// Removes delivered rows, whatever it takes: halves a group that fails for good, down to the row that is the reason, and
/// leaves that one, and what somebody holds locked for long, for later. None of them is ever sent again by this process.
pub(crate) async fn settle(engine: &Arc<Engine>, rows: Vec<RowKey>) {
    let mut groups = groups_of(engine, rows);
    let mut tries = 0;
    while let Some(mut group) = groups.pop() {
        let Err(Unsettled { error, has_answered }) = settle_group(engine, &mut group).await else {
            tries = 0;
            continue;
        };
        ::metrics::counter!(metrics::SETTLE_RETRIED).increment(1);
        if engine.stop.has_reached(Stage::Ending) {
            return;
        }
        match group.len() {
            rows if error.is_retriable() && !has_answered => {
                tries += 1;
                tracing::warn!(%error, rows, "delivered rows could not be settled: trying again");
                sleep(WRITE_RETRY.wait(tries)).await;
                groups.push(group);
            }
            rows if error.is_retriable() || rows == 1 => {
                tracing::warn!(%error, rows = ?group.keys(), "delivered rows cannot be settled: trying again later");
                settle_later(engine, group);
            }
            _ => groups.extend(group.halves()),
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

/// Settles a group. What was removed leaves it, and the ledger, at once: whatever fails then is about the rest alone.
#[tracing::instrument(name = "outbox.settle", level = "debug", skip_all, fields(rows = group.len()))]
async fn settle_group(engine: &Engine, group: &mut Group) -> Result<(), Unsettled> {
    crash_point!(SETTLING);
    remove(engine, group, Locking::Skip).await.map_err(|error| Unsettled { error, has_answered: false })?;
    remove(engine, group, Locking::Wait).await.map_err(|error| Unsettled { error, has_answered: true })?;
    crash_point!(SETTLED);
    look_for_missing(engine, group).await.map_err(|error| Unsettled { error, has_answered: true })
}

/// Removes what it can of the group.
async fn remove(engine: &Engine, group: &mut Group, locking: Locking) -> Result<(), StoreError> {
    if group.len() == 0 {
        return Ok(());
    }
    let removed = group.settle(&*engine.store, locking).await?;
    ::metrics::histogram!(metrics::SETTLE_ROWS).record(removed.len() as f64);
    if matches!(group, Group::Kept(_)) {
        engine.ledger.count_kept(removed.iter());
    }
    engine.ledger.strike_all(&removed);
    let removed: HashSet<RowKey> = removed.into_iter().collect();
    group.retain(|row| !removed.contains(row));
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
    engine.ledger.strike_all(&missing.keys());
    Ok(())
}

/// Settles rows that are in the way of others, outside of the workers.
fn settle_later(engine: &Arc<Engine>, mut group: Group) {
    let engine = Arc::clone(engine);
    // Bounded by the rows in flight; the rows keep their places in the ledger meanwhile.
    tokio::spawn(async move {
        while group.len() > 0 {
            tokio::select! {
                () = sleep(SETTLE_LATER_INTERVAL) => {}
                () = engine.stop.reached(Stage::Ending) => return,
            }
            match settle_unlocked(&engine, &mut group).await {
                Ok(()) => {}
                Err(error) if !error.is_retriable() && group.len() > 1 => {
                    // The workers find out which of them it is.
                    return engine.inbox.extend(group.keys().into_iter().map(|row| (row, Fate::Delivered)));
                }
                Err(error) => tracing::warn!(%error, rows = group.len(), "delivered rows still cannot be settled"),
            }
        }
    });
}

/// Settles what nobody holds locked, without waiting for the rest.
async fn settle_unlocked(engine: &Engine, group: &mut Group) -> Result<(), StoreError> {
    remove(engine, group, Locking::Skip).await?;
    if group.len() == 0 {
        return Ok(());
    }
    let refs: Vec<RowRef> = group.keys().into_iter().map(RowRef::from).collect();
    let locked: HashSet<RowKey> = store_call("remaining", engine.store.remaining(&refs)).await?.into_iter().collect();
    let mut gone = group.clone();
    gone.retain(|row| !locked.contains(row));
    look_for_missing(engine, &gone).await?;
    group.retain(|row| locked.contains(row));
    Ok(())
}
