//! What a failure does to a row of a lane, and to its key.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::hold::LaneHold;
use super::topic::{TopicLanes, Turn};
use crate::crash_points::crash_point;
use crate::limits::TEMPORARY_WAIT_MAX;
use crate::metrics;
use crate::planted::{Mistake, planted};
use crate::relay::dispatcher::give_up as poisoned_to_dead;
use crate::relay::engine::Engine;
use crate::relay::entry::Entry;
use crate::relay::failures::{Burial, FailedRow, Treatment, give_up, note, treatment, wait_of, write_in_parts};
use crate::relay::teller::GivenUp;
use crate::store::{Dead, Failed, InLane, Poisoned, RowKey};
use crate::topic::OnFailedKey;
use crate::transport::TransportError;

/// A failed row of a lane.
pub(crate) struct FailedInLane {
    pub(crate) row: RowKey,
    pub(crate) hold: LaneHold,
    pub(crate) entry: Entry,
    pub(crate) error: Arc<TransportError>,
}

/// What is to be written of the rows of one topic.
#[derive(Default)]
struct Writes {
    failed: Vec<(LaneHold, InLane<Failed>)>,
    dead: Vec<(LaneHold, Burial)>,
}

/// Writes failures of rows of lanes. Each row's key waits until that is done, and then as long as the failure says.
pub(crate) async fn write(engine: &Arc<Engine>, failed: Vec<FailedInLane>) {
    let mut by_topic: HashMap<Arc<str>, (Arc<TopicLanes>, Writes)> = HashMap::new();
    for FailedInLane { row, hold, entry, error } in failed {
        let lanes = Arc::clone(&hold.lanes);
        let failed = FailedRow { row, epoch: hold.epoch, entry, error };
        let writes = &mut by_topic.entry(lanes.name()).or_insert_with(|| (lanes, Writes::default())).1;
        treat(engine, hold, failed, writes);
    }
    for (_, (lanes, writes)) in by_topic {
        write_failed(engine, &lanes, writes.failed).await;
        write_dead(engine, &lanes, writes.dead).await;
    }
}

fn treat(engine: &Engine, hold: LaneHold, failed: FailedRow, writes: &mut Writes) {
    let topic = Arc::clone(&failed.entry.topic);
    let fence = hold.tenure.held.fence;
    match treatment(&failed) {
        Treatment::Leave => {
            engine.ledger.strike(failed.row);
            hold.put_back(failed.row);
        }
        Treatment::Retry { wait, spends_attempt } => {
            writes.failed.push((hold, InLane { fence, what: note(&failed, wait, spends_attempt) }));
        }
        Treatment::RetryAlone => {
            writes.failed.push((hold, InLane { fence, what: note(&failed, Duration::ZERO, false) }));
        }
        Treatment::GiveUp { reason } if topic.topic.on_failed_key_policy() == OnFailedKey::DeadLetter => {
            writes.dead.push((hold, give_up(&failed, reason)));
        }
        Treatment::GiveUp { reason } => {
            let wait = wait_of(&topic.topic, failed.entry.failures.saturating_add(1));
            tracing::error!(message_id = %failed.row.message_id, topic = topic.topic.name(), reason, ?wait,
                error = %failed.error, "a message is refused, and its key waits behind it");
            writes.failed.push((hold, InLane { fence, what: note(&failed, wait, true) }));
        }
    }
}

async fn write_failed(engine: &Engine, lanes: &TopicLanes, failed: Vec<(LaneHold, InLane<Failed>)>) {
    let (holds, failed): (Vec<LaneHold>, Vec<InLane<Failed>>) = failed.into_iter().unzip();
    let Some(store) = engine.store.lanes().filter(|_| !failed.is_empty()) else { return };
    crash_point!(FAILING);
    let (topic, loss) = (lanes.name(), "failures of an ordered topic could not be noted");
    let fail = |part| store.fail_in_lanes(&topic, engine.lanes.node, part);
    // Not noted, it is a failure all the same: its key waits, and only the row does not know.
    let written = counted(write_in_parts("fail_in_lanes", &failed, loss, fail).await, failed.len());
    let now = engine.clock.now();
    for (hold, failed) in holds.into_iter().zip(failed) {
        let row = failed.what.held.key;
        engine.ledger.strike(row);
        if planted(Mistake::FailedKeyGoesOn) {
            hold.done(row);
            continue;
        }
        // Not at once where the note is not there: what was to go alone would fail with its batch again, as fast as it can.
        let wait_min = if written.contains(&row) { Duration::ZERO } else { engine.limits.poll_interval };
        hold.block(row, now + failed.what.wait.max(wait_min));
    }
}

async fn write_dead(engine: &Engine, lanes: &TopicLanes, burials: Vec<(LaneHold, Burial)>) {
    let (holds, burials): (Vec<LaneHold>, Vec<Burial>) = burials.into_iter().unzip();
    let in_lane =
        |(hold, of): (&LaneHold, Burial)| (InLane { fence: hold.tenure.held.fence, what: of.dead }, of.letter);
    let (dead, letters): (Vec<InLane<Dead>>, Vec<GivenUp>) = holds.iter().zip(burials).map(in_lane).unzip();
    let Some(store) = engine.store.lanes().filter(|_| !dead.is_empty()) else { return };
    crash_point!(DYING);
    let (topic, loss) = (lanes.name(), "messages of an ordered topic could not be given up");
    let bury = |part| store.bury_from_lanes(&topic, engine.lanes.node, part);
    let written = counted(write_in_parts("bury_from_lanes", &dead, loss, bury).await, dead.len());
    let again_at = engine.clock.now() + engine.limits.poll_interval;
    for ((hold, dead), letter) in holds.into_iter().zip(dead).zip(letters) {
        let row = dead.what.held.key;
        engine.ledger.strike(row);
        if written.contains(&row) {
            hold.done(row);
            engine.teller.tell([letter]);
        } else {
            // Still there, as far as is known: its key goes on only behind it.
            hold.block(row, again_at);
        }
    }
}

/// The rows that were written; what was not is counted.
fn counted(written: HashSet<RowKey>, wanted: usize) -> HashSet<RowKey> {
    ::metrics::counter!(metrics::LEASE_LOST).increment(wanted.saturating_sub(written.len()) as u64);
    written
}

/// Rows that nobody can decode: dead letters, or in their key's way until somebody mends them.
pub(super) async fn give_up_poisoned(
    engine: &Engine,
    lanes: &Arc<TopicLanes>,
    poisoned: Vec<Poisoned>,
    turns: &mut HashMap<RowKey, Turn>,
) {
    let goes_on = lanes.topic.topic.on_failed_key_policy() == OnFailedKey::DeadLetter;
    let mut dead = Vec::new();
    for row in poisoned {
        let Some(turn) = turns.remove(&row.key) else { continue };
        let hold =
            LaneHold { lanes: Arc::clone(lanes), tenure: turn.tenure, key: turn.key, epoch: row.epoch, run: turn.run };
        if goes_on {
            dead.push((hold, poisoned_to_dead(&row)));
        } else {
            tracing::error!(message_id = %row.key.message_id, topic = %row.topic, error = %row.error,
                "a row cannot be decoded, and its key waits behind it");
            hold.block(row.key, engine.clock.now() + TEMPORARY_WAIT_MAX);
        }
    }
    write_dead(engine, lanes, dead).await;
}
