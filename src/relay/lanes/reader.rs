//! The reader of one ordered topic: reads its lanes and sends the rows whose turn it is.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::failures::dead_letter_poisoned;
use super::in_flight::InFlightRow;
use super::lane::ownership::LaneOwnership;
use super::lane::page::{KeyHash, Scan};
use super::load::load;
use super::topic::{TopicLanes, Turn};
use crate::clock::BootInstant;
use crate::crash_points::crash_point;
use crate::limits::{
    LANE_PAGE_ROWS_MAX, LANE_PAGE_ROWS_MIN, LANE_PAUSE_MIN, LANE_READ_ROWS_MAX, LANE_RECHECK, LANES_READ_MAX,
};
use crate::metrics;
use crate::relay::engine::Engine;
use crate::relay::engine::outgoing::{Offer, Offered, Outgoing, SendMode};
use crate::relay::engine::rows::{Holder, Reservation};
use crate::relay::engine::stop::Stage;
use crate::relay::engine::store_call::store_call;
use crate::relay::health::breaker::BreakerState;
use crate::relay::ledger::entry::Progress;
use crate::relay::path::Path;
use crate::relay::topics::Gate;
use crate::repeated::{Repeated, warn_once_a_minute};
use crate::store::{LaneScan, LaneStore, Loaded, Row, RowKey, StoreError};
use crate::transport::OutboxRow;

/// Behind which lanes the next step begins, so that no lane starves.
#[derive(Default)]
struct RoundRobin {
    read: u16,
    send: u16,
}

/// Runs until the relay drains.
pub(crate) async fn run(engine: Arc<Engine>, lanes: Arc<TopicLanes>) {
    let (mut cursor, failures) = (RoundRobin::default(), Repeated::default());
    while !engine.stop.has_reached(Stage::Draining) {
        let wakeup = lanes.reader_wakeup.notified();
        let stepped = step(&engine, &lanes, &mut cursor).await;
        // A locked table blocks every node: leaving the lanes to others would help nobody.
        let has_failed = matches!(&stepped, Err(error) if !matches!(error, StoreError::Conflict(_)));
        lanes.note_read(has_failed, engine.clock.now());
        let did_something = match stepped {
            Ok(did_something) => did_something,
            Err(error) => {
                ::metrics::counter!(metrics::LANE_READ_FAILED).increment(1);
                warn_once_a_minute!(LANES_NOT_READ, failures, error, topic = %lanes.name());
                engine.wait_after_failed_read().await;
                true
            }
        };
        // Whoever waits for the relay to be idle checks again.
        engine.ledger.notify_waiters();
        if did_something {
            continue;
        }
        tokio::select! {
            () = wakeup => {}
            () = sleep(pause(&engine, &lanes)) => {}
            () = engine.stop.reached(Stage::Draining) => {}
        }
    }
}

/// How long to sleep without a wake-up: until a page or a blocked key is due.
fn pause(engine: &Engine, lanes: &TopicLanes) -> Duration {
    let poll = engine.limits.poll_interval;
    let at = lanes.next_at().filter(|_| may_work(engine, lanes));
    at.map_or(poll, |at| engine.clock.now().until(at)).clamp(LANE_PAUSE_MIN.min(poll), poll)
}

/// Reads what is to be read and sends what may go. Returns whether there was anything to do.
async fn step(engine: &Arc<Engine>, lanes: &Arc<TopicLanes>, cursor: &mut RoundRobin) -> Result<bool, StoreError> {
    let store = engine.store.lanes();
    count_late(lanes, lanes.refresh(engine.clock.now()));
    if !may_work(engine, lanes) {
        return Ok(false);
    }
    // Rows that can be sent go while more is read.
    if lanes.ready(engine.clock.now()) {
        let read = read(engine, store, lanes, &mut cursor.read);
        // Both run to their ends: rows taken to be sent must not be dropped because the read failed.
        let (has_read, has_sent) = tokio::join!(read, send(engine, store, lanes, &mut cursor.send));
        if let (Err(_), Err(error)) = (&has_read, &has_sent) {
            warn_once_a_minute!(LANE_ROWS_NOT_READ, engine.failure_log.lane_reads, error, topic = %lanes.name());
        }
        return has_read.and_then(|has_read| Ok(has_sent? || has_read));
    }
    let has_read = read(engine, store, lanes, &mut cursor.read).await?;
    Ok(send(engine, store, lanes, &mut cursor.send).await? || has_read)
}

/// Whether lanes may be read: not while the broker is down, refuses the topic, or the topic is paused.
fn may_work(engine: &Engine, lanes: &TopicLanes) -> bool {
    !matches!(engine.breaker.state(), BreakerState::Open { .. }) && lanes.topic.may_begin(engine.clock.now())
}

/// Reads one page of each lane that needs one, in one statement.
async fn read(engine: &Engine, store: &dyn LaneStore, lanes: &TopicLanes, turn: &mut u16) -> Result<bool, StoreError> {
    let now = engine.clock.now();
    let wanted = lanes.scans(turn, LANES_READ_MAX, now);
    if wanted.is_empty() {
        return Ok(false);
    }
    let rows_max = page_rows(wanted.len());
    let scan = |(ownership, scan): &(LaneOwnership, Scan)| LaneScan {
        lane: ownership.lane(),
        after: scan.after,
        rows_max: rows_max + scan.reread,
    };
    let scans: Vec<LaneScan> = wanted.iter().map(scan).collect();
    let entries = store_call("lane_entries", store.lane_entries(&lanes.name(), &scans)).await;
    let read_at = (now, engine.clock.now());
    if matches!(entries, Err(StoreError::TimedOut { .. })) {
        wanted
            .iter()
            .for_each(|(ownership, scan)| lanes.with_lane(*ownership, |lane| lane.note_scan_duration(*scan, read_at)));
    }
    let entries = entries?;
    let (mut remaining, mut late) = (&entries[..], 0);
    for (place, scan) in wanted.iter().enumerate() {
        let (page, behind) = remaining.split_at(remaining.partition_point(|entry| entry.scan <= place));
        remaining = behind;
        late += note(engine, lanes, *scan, page, page.len() == rows_max + scan.1.reread, read_at);
    }
    count_late(lanes, late);
    Ok(!entries.is_empty())
}

fn count_late(lanes: &TopicLanes, late: usize) {
    if late > 0 {
        lanes.topic.counter(metrics::LANE_LATE).increment(late as u64);
    }
}

/// How many new rows of each lane one read brings, for this number of lanes.
fn page_rows(lanes: usize) -> usize {
    (LANE_READ_ROWS_MAX / lanes).clamp(LANE_PAGE_ROWS_MIN, LANE_PAGE_ROWS_MAX)
}

fn note(
    engine: &Engine,
    lanes: &TopicLanes,
    scan: (LaneOwnership, Scan),
    page: &[crate::store::LaneEntry],
    is_full: bool,
    read_at: (BootInstant, BootInstant),
) -> usize {
    let late_at = read_at.0 + engine.limits.poll_interval;
    lanes.note(scan, page, is_full, read_at, late_at, |row| {
        engine.ledger.progress(row).map(|progress| progress == Progress::Delivered)
    })
}

/// Sends the rows whose turn it is, as many as there is room for.
async fn send(
    engine: &Arc<Engine>,
    store: &dyn LaneStore,
    lanes: &Arc<TopicLanes>,
    turn: &mut u16,
) -> Result<bool, StoreError> {
    if !lanes.ready(engine.clock.now()) || lanes.topic.is_gated() {
        return Ok(false);
    }
    let limits = &engine.limits;
    let size = lanes.topic.claim_size();
    let mut room = tokio::select! {
        room = engine.ledger.reserve(size.of(limits.claim_rows_max), size.of(limits.claim_bytes_max)) => room,
        () = engine.stop.reached(Stage::Draining) => return Ok(false),
    };
    let wanted = if lanes.topic.is_on_trial() { 1 } else { room.rows() };
    let admission = engine.breaker.admit(wanted, engine.clock.now());
    if admission.rows() == 0 {
        return Ok(false);
    }
    let mut turns = TakenRows::new(lanes, lanes.take(turn, admission.rows(), room.bytes(), engine.clock.now()));
    turns.block_known(|row| engine.ledger.progress(row).is_some(), engine.clock.now() + LANE_RECHECK);
    let sent = send_taken(engine, store, turns, &mut room).await;
    admission.end(matches!(sent, Ok(true)));
    sent
}

async fn send_taken(
    engine: &Arc<Engine>,
    store: &dyn LaneStore,
    mut taken: TakenRows<'_>,
    room: &mut Reservation,
) -> Result<bool, StoreError> {
    if taken.turns.is_empty() {
        return Ok(false);
    }
    let lanes = taken.lanes;
    let mut loaded = load(engine, store, lanes, taken.turns.values()).await?;
    crash_point!(LANE_LOADED);
    // By id, so that rows sent together leave in their order as far as possible.
    loaded.sort_unstable_by_key(|row| row.key().id);
    let (mut suspects, mut poisoned) = (Vec::new(), Vec::new());
    let mut has_sent = false;
    let mut outgoing = Outgoing::new(engine);
    // Unsent rows keep their turn in `taken`, so that a panic puts them back.
    let mut later = HashSet::new();
    for row in loaded {
        let Some(turn) = taken.turns.get(&row.key()) else { continue };
        let key = (turn.ownership.lane(), turn.key);
        // Once a row of a key cannot be sent, none of the later ones of that key may.
        let goes = match row {
            row if taken.stopped.contains(&key) => {
                taken.requeue(row.key());
                continue;
            }
            Loaded::Poisoned(row) => {
                later.insert(row.key);
                poisoned.push(row);
                false
            }
            Loaded::Row(row) if row.is_suspect => {
                later.insert(row.key);
                suspects.push(row);
                false
            }
            Loaded::Row(row) => taken.offer(engine, row, false, &mut outgoing, room),
        };
        has_sent |= goes;
        if !goes {
            taken.stopped.insert(key);
        }
    }
    outgoing.send();
    // Somebody else settled these rows, or removed them by hand.
    for (row, turn) in taken.turns.extract_if(|row, _| !later.contains(row)) {
        InFlightRow::new(lanes, turn, 0).done(row);
    }
    dead_letter_poisoned(engine, lanes, poisoned, &mut taken.turns).await;
    has_sent |= send_suspects(engine, &mut taken, suspects, room).await;
    Ok(has_sent)
}

/// Rows that were taken and not yet sent. Dropped early, it puts them back into their lanes.
struct TakenRows<'a> {
    lanes: &'a Arc<TopicLanes>,
    turns: HashMap<RowKey, Turn>,
    /// Keys of which a row cannot be sent, each with its lane.
    stopped: HashSet<(u16, KeyHash)>,
}

impl<'a> TakenRows<'a> {
    fn new(lanes: &'a Arc<TopicLanes>, turns: Vec<Turn>) -> Self {
        let turns = turns.into_iter().map(|turn| (turn.waiting.row, turn)).collect();
        Self { lanes, turns, stopped: HashSet::new() }
    }

    /// Blocks rows in flight from an earlier ownership until they are answered or settled. Done before the read: a row
    /// that is settled between read and send would be sent again.
    fn block_known(&mut self, is_in_ledger: impl Fn(RowKey) -> bool, until: BootInstant) {
        for (row, turn) in self.turns.extract_if(|row, _| is_in_ledger(*row)) {
            self.stopped.insert((turn.ownership.lane(), turn.key));
            InFlightRow::new(self.lanes, turn, 0).block(row, until);
        }
    }
}

impl TakenRows<'_> {
    fn requeue(&mut self, row: RowKey) {
        if let Some(turn) = self.turns.remove(&row) {
            InFlightRow::new(self.lanes, turn, 0).requeue(row);
        }
    }

    /// Hands a row to the transport if it is its turn. Returns whether it was sent.
    fn offer(
        &mut self,
        engine: &Arc<Engine>,
        row: Row,
        alone: bool,
        outgoing: &mut Outgoing<'_>,
        room: &mut Reservation,
    ) -> bool {
        let turn = self.turns.remove(&row.key);
        turn.is_some_and(|turn| offer(engine, self.lanes, row, turn, alone, outgoing, room))
    }
}

impl Drop for TakenRows<'_> {
    fn drop(&mut self) {
        for (row, turn) in self.turns.drain() {
            InFlightRow::new(self.lanes, turn, 0).requeue(row);
        }
    }
}

/// How a row is sent; `None` if its lane has no producer now, or an earlier row of its key failed.
fn send_mode(lanes: &TopicLanes, in_flight: &InFlightRow) -> Option<SendMode> {
    match &in_flight.sequence {
        None => Some(SendMode::Plain),
        Some(sequence) if sequence.has_failed() => None,
        Some(sequence) => {
            let by = lanes.fenced(in_flight.ownership)?;
            Some(SendMode::Fenced(by, sequence.clone(), in_flight.row.clone()))
        }
    }
}

/// Hands one row to the transport. Returns whether it was sent. An unsent row goes back to its lane.
fn offer(
    engine: &Arc<Engine>,
    lanes: &Arc<TopicLanes>,
    row: Row,
    turn: Turn,
    alone: bool,
    outgoing: &mut Outgoing<'_>,
    room: &mut Reservation,
) -> bool {
    let (key, is_resend, lease_ends_at) = (row.key, row.failures > 0, turn.valid_until);
    let mut in_flight = InFlightRow::new(lanes, turn, row.epoch);
    in_flight.row = lanes.topic.config.is_exactly_once().then(|| OutboxRow::new(key));
    let send_mode =
        send_mode(lanes, &in_flight).filter(|_| may_work(engine, lanes) && (alone || !lanes.topic.is_gated()));
    let Some(send_mode) = send_mode else {
        in_flight.requeue(key);
        return false;
    };
    // Before it is sent: the answer may arrive before this returns.
    lanes.with_lane(in_flight.ownership, |lane| lane.sent(in_flight.key, key));
    let offer = Offer {
        row,
        topic: &lanes.topic,
        holder: Holder::Lane(in_flight.clone()),
        send_mode,
        lease_ends_at,
        path: Path::Lane,
        committed_at: lanes.committed_at(key),
        alone,
        is_resend,
    };
    match outgoing.offer(offer, room) {
        Offered::Sent => return true,
        Offered::Late => in_flight.requeue(key),
        // Only rows that are not in the ledger are read, so this one entered it in between.
        Offered::Known(_) => in_flight.block(key, engine.clock.now() + LANE_RECHECK),
    }
    false
}

/// Sends each suspect with nothing else of its topic in flight, so that a refusal is about that record.
async fn send_suspects(
    engine: &Arc<Engine>,
    taken: &mut TakenRows<'_>,
    suspects: Vec<Row>,
    room: &mut Reservation,
) -> bool {
    if suspects.is_empty() {
        return false;
    }
    let (lanes, patience) = (taken.lanes, engine.limits.claim_window_duration);
    let gate = Gate::close(&lanes.topic);
    let alone = gate.is_some() && timeout(patience, lanes.topic.wait_until_idle()).await.is_ok();
    let mut has_sent = false;
    for row in suspects {
        if alone && lanes.topic.in_flight() == 0 {
            let mut outgoing = Outgoing::new(engine);
            has_sent |= taken.offer(engine, row, true, &mut outgoing, room);
            outgoing.send();
            // The answer may take longer; then the others stay suspects.
            let _ = timeout(patience, lanes.topic.wait_until_idle()).await;
        } else if let Some(turn) = taken.turns.remove(&row.key) {
            InFlightRow::new(lanes, turn, row.epoch).block(row.key, engine.clock.now() + LANE_RECHECK);
        }
    }
    has_sent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_takes_no_more_than_it_may_and_each_of_its_lanes_a_part() {
        for lanes in 1..=LANES_READ_MAX {
            let rows = page_rows(lanes);
            assert!((LANE_PAGE_ROWS_MIN..=LANE_PAGE_ROWS_MAX).contains(&rows), "{lanes}: {rows}");
            assert!(lanes * rows <= LANE_READ_ROWS_MAX, "{lanes}: {rows}");
        }
        assert_eq!((page_rows(1), page_rows(LANES_READ_MAX)), (LANE_PAGE_ROWS_MAX, LANE_PAGE_ROWS_MIN));
    }
}
