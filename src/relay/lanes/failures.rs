//! What a failure does to a row of a lane, and to its key.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::in_flight::InFlightRow;
use super::topic::{TopicLanes, Turn};
use crate::crash_points::crash_point;
use crate::events::log_event;
use crate::injected_bugs::{InjectedBug, is_injected};
use crate::limits::{TEMPORARY_WAIT_MAX, WRITE_RETRY_MAX};
use crate::metrics;
use crate::relay::dead_letter_callbacks::DeadLetterEvent;
use crate::relay::engine::Engine;
use crate::relay::engine::rows::Entry;
use crate::relay::settle::failures::{
    FailedRow, PendingDeadLetter, Treatment, failed_dead_letter, failure_record, poisoned_dead_letter, treatment,
    wait_of, write_in_parts,
};
use crate::store::{Failed, NewDeadLetter, Poisoned, RowKey, WithFence};
use crate::topic::OnFailedKey;
use crate::transport::TransportError;

/// A failed row of a lane.
pub(crate) struct FailedInLane {
    pub(crate) row: RowKey,
    pub(crate) in_flight: InFlightRow,
    pub(crate) entry: Entry,
    pub(crate) error: TransportError,
}

/// What to write for the rows of one topic.
#[derive(Default)]
struct Writes {
    failed: Vec<(InFlightRow, WithFence<Failed>)>,
    dead: Vec<(InFlightRow, PendingDeadLetter)>,
}

/// Writes failures of rows in lanes. The row's key waits until that is done, and then for the back-off.
pub(crate) async fn write(engine: &Arc<Engine>, failed: Vec<FailedInLane>) {
    let mut by_topic: HashMap<Arc<str>, (Arc<TopicLanes>, Writes)> = HashMap::new();
    for FailedInLane { row, in_flight, entry, error } in failed {
        let lanes = Arc::clone(&in_flight.lanes);
        let failed = FailedRow { row, epoch: in_flight.epoch, entry, error };
        let writes = &mut by_topic.entry(lanes.name()).or_insert_with(|| (lanes, Writes::default())).1;
        treat(engine, in_flight, failed, writes);
    }
    for (_, (lanes, writes)) in by_topic {
        write_failed(engine, &lanes, writes.failed).await;
        write_dead_letters(engine, &lanes, writes.dead).await;
    }
}

fn treat(engine: &Engine, in_flight: InFlightRow, failed: FailedRow, writes: &mut Writes) {
    let topic = Arc::clone(&failed.entry.topic);
    let fence = in_flight.ownership.held.fence;
    match treatment(&failed) {
        Treatment::Leave => {
            engine.ledger.remove(failed.row);
            in_flight.requeue(failed.row);
        }
        Treatment::Retry { wait, spends_attempt } => {
            writes.failed.push((in_flight, WithFence { fence, value: failure_record(&failed, wait, spends_attempt) }));
        }
        Treatment::RetryAlone => {
            writes.failed.push((in_flight, WithFence { fence, value: failure_record(&failed, Duration::ZERO, false) }));
        }
        Treatment::DeadLetter { reason } if topic.config.on_failed_key_policy() == OnFailedKey::DeadLetter => {
            writes.dead.push((in_flight, failed_dead_letter(&failed, &reason)));
        }
        Treatment::DeadLetter { reason } => {
            let wait = wait_of(&topic.config, failed.entry.failures.saturating_add(1));
            log_event!(KEY_BLOCKED, message_id = %failed.row.message_id, topic = topic.config.name(), %reason, ?wait, error = %failed.error);
            writes.failed.push((in_flight, WithFence { fence, value: failure_record(&failed, wait, true) }));
        }
    }
}

async fn write_failed(engine: &Engine, lanes: &TopicLanes, failed: Vec<(InFlightRow, WithFence<Failed>)>) {
    let (in_flight, failed): (Vec<InFlightRow>, Vec<WithFence<Failed>>) = failed.into_iter().unzip();
    if failed.is_empty() {
        return;
    }
    let store = engine.store.lanes();
    crash_point!(FAILING);
    let (topic, loss) = (lanes.name(), "failures of an ordered topic are lost, and their keys wait all the same");
    let fail = |part| store.fail_in_lanes(&topic, engine.lanes.node, part);
    // The key waits even if the failure was not written. Only the row's own counters miss it.
    let written = counted(write_in_parts(engine, "fail_in_lanes", &failed, loss, fail).await, failed.len());
    let now = engine.clock.now();
    for (in_flight, failed) in in_flight.into_iter().zip(failed) {
        let row = failed.value.held.key;
        engine.ledger.remove(row);
        if is_injected(InjectedBug::FailedKeyGoesOn) {
            in_flight.done(row);
            continue;
        }
        // Not at once if the note is missing: a row to be sent alone would be sent with its batch and fail again, in a
        // tight loop.
        let wait_min =
            if written.contains(&row) { Duration::ZERO } else { engine.limits.poll_interval.min(WRITE_RETRY_MAX) };
        in_flight.block(row, now + failed.value.wait.max(wait_min));
    }
}

async fn write_dead_letters(engine: &Engine, lanes: &TopicLanes, pending: Vec<(InFlightRow, PendingDeadLetter)>) {
    let (in_flight, pending): (Vec<InFlightRow>, Vec<PendingDeadLetter>) = pending.into_iter().unzip();
    let in_lane = |(in_flight, of): (&InFlightRow, PendingDeadLetter)| {
        (WithFence { fence: in_flight.ownership.held.fence, value: of.dead }, of.letter)
    };
    let (dead, letters): (Vec<WithFence<NewDeadLetter>>, Vec<DeadLetterEvent>) =
        in_flight.iter().zip(pending).map(in_lane).unzip();
    if dead.is_empty() {
        return;
    }
    let store = engine.store.lanes();
    crash_point!(DEAD_LETTERING);
    let (topic, loss) = (lanes.name(), "messages of an ordered topic are not dead-lettered, and are tried again");
    let dead_letter = |part| store.dead_letter_from_lanes(&topic, engine.lanes.node, part);
    let written = counted(write_in_parts(engine, "dead_letter_from_lanes", &dead, loss, dead_letter).await, dead.len());
    let retry_at = engine.clock.now() + engine.limits.poll_interval.min(WRITE_RETRY_MAX);
    for ((in_flight, dead), letter) in in_flight.into_iter().zip(dead).zip(letters) {
        let row = dead.value.held.key;
        engine.ledger.remove(row);
        if written.contains(&row) {
            in_flight.done(row);
            engine.dead_letter_callbacks.notify(&engine.name, [letter]);
        } else {
            // Presumably still there: its key continues only after it.
            in_flight.block(row, retry_at);
        }
    }
}

/// Returns the rows that were written and counts the others.
fn counted(written: HashSet<RowKey>, wanted: usize) -> HashSet<RowKey> {
    ::metrics::counter!(metrics::LEASE_LOST).increment(wanted.saturating_sub(written.len()) as u64);
    written
}

/// Rows that nobody can decode become dead letters, or block their key until somebody corrects them.
pub(super) async fn dead_letter_poisoned(
    engine: &Engine,
    lanes: &Arc<TopicLanes>,
    poisoned: Vec<Poisoned>,
    turns: &mut HashMap<RowKey, Turn>,
) {
    let goes_on = lanes.topic.config.on_failed_key_policy() == OnFailedKey::DeadLetter;
    let mut dead = Vec::new();
    for row in poisoned {
        let Some(turn) = turns.remove(&row.key) else { continue };
        let in_flight = InFlightRow::new(lanes, turn, row.epoch);
        if goes_on {
            dead.push((in_flight, poisoned_dead_letter(&row)));
        } else {
            log_event!(KEY_BLOCKED_BY_ROW, message_id = %row.key.message_id, topic = %row.topic, error = %row.error);
            in_flight.block(row.key, engine.clock.now() + TEMPORARY_WAIT_MAX);
        }
    }
    write_dead_letters(engine, lanes, dead).await;
}
