//! The reader of one ordered topic: reads its lanes, and sends the rows whose turn it is.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::failures::give_up_poisoned;
use super::hold::LaneHold;
use super::load::load;
use super::page::{KeyHash, Scan};
use super::tenure::Tenure;
use super::topic::{TopicLanes, Turn};
use crate::clock::BootInstant;
use crate::crash_points::crash_point;
use crate::limits::{
    LANE_PAGE_ROWS_MAX, LANE_PAGE_ROWS_MIN, LANE_PAUSE_MIN, LANE_READ_ROWS_MAX, LANE_RECHECK, LANES_READ_MAX,
};
use crate::metrics;
use crate::relay::breaker::BreakerState;
use crate::relay::engine::Engine;
use crate::relay::entry::{Holder, Progress};
use crate::relay::ledger::Reservation;
use crate::relay::outgoing::{Offer, Offered, Outgoing, Way};
use crate::relay::path::Path;
use crate::relay::stop::Stage;
use crate::relay::store_call::store_call;
use crate::relay::topics::Gate;
use crate::store::{LaneScan, LaneStore, Loaded, Row, RowKey, StoreError};

/// Behind which lanes the next round begins, so that none waits for those before it.
#[derive(Default)]
struct Turns {
    read: u16,
    send: u16,
}

/// Runs until the relay drains.
pub(crate) async fn run(engine: Arc<Engine>, lanes: Arc<TopicLanes>) {
    let mut turns = Turns::default();
    while !engine.stop.has_reached(Stage::Draining) {
        let woken = lanes.wake.notified();
        let stepped = step(&engine, &lanes, &mut turns).await;
        // A lock in the way is in every node's way: to leave the lanes to others helps nobody.
        let has_failed = matches!(&stepped, Err(error) if !matches!(error, StoreError::Conflict(_)));
        lanes.note_read(has_failed, engine.clock.now());
        let did_something = match stepped {
            Ok(did_something) => did_something,
            Err(error) => {
                ::metrics::counter!(metrics::LANE_READ_FAILED).increment(1);
                tracing::warn!(%error, topic = %lanes.name(), "lanes could not be read: trying again");
                rest(&engine).await;
                true
            }
        };
        // Whoever waits for the relay to be idle looks again.
        engine.ledger.look_again();
        if did_something {
            continue;
        }
        tokio::select! {
            () = woken => {}
            () = sleep(pause(&engine, &lanes)) => {}
            () = engine.stop.reached(Stage::Draining) => {}
        }
    }
}

/// How long nothing is to be done unless somebody wakes: until a page, or a blocked key, is due.
fn pause(engine: &Engine, lanes: &TopicLanes) -> Duration {
    let poll = engine.limits.poll_interval;
    let at = lanes.next_at().filter(|_| may_work(engine, lanes));
    at.map_or(poll, |at| engine.clock.now().until(at)).clamp(LANE_PAUSE_MIN.min(poll), poll)
}

async fn rest(engine: &Engine) {
    tokio::select! {
        () = sleep(engine.limits.poll_interval) => {}
        () = engine.stop.reached(Stage::Draining) => {}
    }
}

/// Reads what is to be read and sends what may go; says whether there was anything.
async fn step(engine: &Arc<Engine>, lanes: &Arc<TopicLanes>, turns: &mut Turns) -> Result<bool, StoreError> {
    let Some(store) = engine.store.lanes() else { return Ok(false) };
    count_late(lanes, lanes.refresh(engine.clock.now()));
    if !may_work(engine, lanes) {
        return Ok(false);
    }
    // What can be sent already goes while more is read.
    if lanes.ready(engine.clock.now()) {
        let read = read(engine, store, lanes, &mut turns.read);
        // Both to their ends: what was taken to be sent has to get somewhere, whatever becomes of the read.
        let (has_read, has_sent) = tokio::join!(read, send(engine, store, lanes, &mut turns.send));
        if let (Err(_), Err(error)) = (&has_read, &has_sent) {
            tracing::warn!(%error, topic = %lanes.name(), "nor could rows of lanes be read");
        }
        let (has_read, has_sent) = (has_read?, has_sent?);
        return Ok(has_read || has_sent);
    }
    let has_read = read(engine, store, lanes, &mut turns.read).await?;
    let has_sent = send(engine, store, lanes, &mut turns.send).await?;
    Ok(has_read || has_sent)
}

/// Lanes are not even read while the broker is down, while it refuses the topic, or while that is paused.
fn may_work(engine: &Engine, lanes: &TopicLanes) -> bool {
    let is_open = matches!(engine.breaker.state(), BreakerState::Open { .. });
    !is_open && lanes.topic.may_begin(engine.clock.now())
}

/// Reads one page of each lane that wants one, in one statement.
async fn read(engine: &Engine, store: &dyn LaneStore, lanes: &TopicLanes, turn: &mut u16) -> Result<bool, StoreError> {
    let now = engine.clock.now();
    let wanted = lanes.scans(turn, LANES_READ_MAX, now);
    if wanted.is_empty() {
        return Ok(false);
    }
    let rows_max = page_rows(wanted.len());
    let scan = |(tenure, scan): &(Tenure, Scan)| LaneScan {
        lane: tenure.lane(),
        after: scan.after,
        rows_max: rows_max + scan.again,
    };
    let scans: Vec<LaneScan> = wanted.iter().map(scan).collect();
    let entries = store_call("lane_entries", store.lane_entries(&lanes.name(), &scans)).await;
    let read_at = (now, engine.clock.now());
    if matches!(entries, Err(StoreError::TimedOut { .. })) {
        wanted.iter().for_each(|(tenure, scan)| lanes.with_lane(*tenure, |lane| lane.rest(*scan, read_at)));
    }
    let entries = entries?;
    let (mut rest, mut late) = (&entries[..], 0);
    for (place, scan) in wanted.iter().enumerate() {
        let (page, behind) = rest.split_at(rest.partition_point(|entry| entry.scan <= place));
        rest = behind;
        late += note(engine, lanes, *scan, page, page.len() == rows_max + scan.1.again, read_at);
    }
    count_late(lanes, late);
    Ok(!entries.is_empty())
}

fn count_late(lanes: &TopicLanes, late: usize) {
    if late > 0 {
        ::metrics::counter!(metrics::LANE_LATE, "topic" => lanes.name()).increment(late as u64);
    }
}

/// New rows of each of so many lanes in one read.
fn page_rows(lanes: usize) -> usize {
    (LANE_READ_ROWS_MAX / lanes).clamp(LANE_PAGE_ROWS_MIN, LANE_PAGE_ROWS_MAX)
}

fn note(
    engine: &Engine,
    lanes: &TopicLanes,
    scan: (Tenure, Scan),
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
    let mut turns = Taken::new(lanes, lanes.take(turn, admission.rows(), room.bytes(), engine.clock.now()));
    turns.pass_by(|row| engine.ledger.progress(row).is_some(), engine.clock.now() + LANE_RECHECK);
    let sent = send_taken(engine, store, turns, &mut room).await;
    admission.end(matches!(sent, Ok(true)));
    sent
}

async fn send_taken(
    engine: &Arc<Engine>,
    store: &dyn LaneStore,
    mut taken: Taken<'_>,
    room: &mut Reservation,
) -> Result<bool, StoreError> {
    if taken.turns.is_empty() {
        return Ok(false);
    }
    let lanes = taken.lanes;
    let mut loaded = load(engine, store, lanes, taken.turns.values()).await?;
    crash_point!(LANE_LOADED);
    // By id, so that what leaves together leaves in the order of the rows, as far as that goes.
    loaded.sort_unstable_by_key(|row| row.key().id);
    let (mut suspects, mut poisoned) = (Vec::new(), Vec::new());
    let mut has_sent = false;
    let mut outgoing = Outgoing::new(engine);
    // What is still to come keeps its turn in `taken`, so that a panic on the way there puts it back.
    let mut later = HashSet::new();
    for row in loaded {
        let Some(turn) = taken.turns.get(&row.key()) else { continue };
        let key = (turn.tenure.lane(), turn.key);
        // Of a key that has several here none goes past one that does not.
        let goes = match row {
            row if taken.stopped.contains(&key) => {
                taken.put_back(row.key());
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
    // Settled by somebody else, or taken away by hand.
    for (row, turn) in taken.turns.extract_if(|row, _| !later.contains(row)) {
        hold(lanes, turn, 0).done(row);
    }
    give_up_poisoned(engine, lanes, poisoned, &mut taken.turns).await;
    has_sent |= send_suspects(engine, &mut taken, suspects, room).await;
    Ok(has_sent)
}

/// Rows that were taken and not yet sent; dropped in between, they go back to their lanes.
struct Taken<'a> {
    lanes: &'a Arc<TopicLanes>,
    turns: HashMap<RowKey, Turn>,
    /// Keys of which a row does not go, each with its lane.
    stopped: HashSet<(u16, KeyHash)>,
}

impl<'a> Taken<'a> {
    fn new(lanes: &'a Arc<TopicLanes>, turns: Vec<Turn>) -> Self {
        let turns = turns.into_iter().map(|turn| (turn.waiting.row, turn)).collect();
        Self { lanes, turns, stopped: HashSet::new() }
    }

    /// Blocks what is in hand from an earlier time as the lane's owner: its answer, or its settling, is waited for. Before
    /// it is read: settled between that and the send, it would be sent again.
    fn pass_by(&mut self, is_in_hand: impl Fn(RowKey) -> bool, until: BootInstant) {
        for (row, turn) in self.turns.extract_if(|row, _| is_in_hand(*row)) {
            self.stopped.insert((turn.tenure.lane(), turn.key));
            hold(self.lanes, turn, 0).block(row, until);
        }
    }
}

impl Taken<'_> {
    fn put_back(&mut self, row: RowKey) {
        if let Some(turn) = self.turns.remove(&row) {
            hold(self.lanes, turn, 0).put_back(row);
        }
    }

    /// Hands a row to the transport where it is its turn; says whether it was sent.
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

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        for (row, turn) in self.turns.drain() {
            hold(self.lanes, turn, 0).put_back(row);
        }
    }
}

fn hold(lanes: &Arc<TopicLanes>, turn: Turn, epoch: i32) -> LaneHold {
    LaneHold { lanes: Arc::clone(lanes), tenure: turn.tenure, key: turn.key, epoch, run: turn.run }
}

/// How a row leaves; `None` where its lane has no way out now, or an earlier row of its key failed.
fn way(lanes: &TopicLanes, hold: &LaneHold) -> Option<Way> {
    match &hold.run {
        None => Some(Way::Plain),
        Some(run) if run.has_failed() => None,
        Some(run) => lanes.fenced(hold.tenure).map(|by| Way::Fenced(by, run.clone())),
    }
}

/// Hands one row to the transport; says whether it was sent. What was not goes back to its lane.
fn offer(
    engine: &Arc<Engine>,
    lanes: &Arc<TopicLanes>,
    row: Row,
    turn: Turn,
    alone: bool,
    outgoing: &mut Outgoing<'_>,
    room: &mut Reservation,
) -> bool {
    let (key, again, term_ends_at) = (row.key, row.failures > 0, turn.valid_until);
    let hold = hold(lanes, turn, row.epoch);
    let way = way(lanes, &hold).filter(|_| may_work(engine, lanes) && (alone || !lanes.topic.is_gated()));
    let Some(way) = way else {
        hold.put_back(key);
        return false;
    };
    // Before it is sent: the answer may be there before this returns.
    lanes.with_lane(hold.tenure, |lane| lane.sent(hold.key, key));
    let offer = Offer {
        row,
        topic: &lanes.topic,
        holder: Holder::Lane(hold.clone()),
        way,
        term_ends_at,
        path: Path::Lane,
        committed_at: lanes.committed_at(key),
        alone,
        again,
    };
    match outgoing.offer(offer, room) {
        Offered::Sent => return true,
        Offered::Late => hold.put_back(key),
        // Only rows in nobody's hand are read, so this is one that came into it meanwhile.
        Offered::Known(_) => hold.block(key, engine.clock.now() + LANE_RECHECK),
    }
    false
}

/// Sends each suspect with nothing else of its topic in flight, so that a refusal is about that one record.
async fn send_suspects(
    engine: &Arc<Engine>,
    taken: &mut Taken<'_>,
    suspects: Vec<Row>,
    room: &mut Reservation,
) -> bool {
    if suspects.is_empty() {
        return false;
    }
    let (lanes, patience) = (taken.lanes, engine.limits.claim_window_duration);
    let gate = Gate::close(&lanes.topic);
    let alone = gate.is_some() && timeout(patience, lanes.topic.emptied()).await.is_ok();
    let mut has_sent = false;
    for row in suspects {
        if alone && lanes.topic.in_flight() == 0 {
            let mut outgoing = Outgoing::new(engine);
            has_sent |= taken.offer(engine, row, true, &mut outgoing, room);
            outgoing.send();
            // Its answer may take longer: then the others stay suspects.
            let _ = timeout(patience, lanes.topic.emptied()).await;
        } else if let Some(turn) = taken.turns.remove(&row.key) {
            hold(lanes, turn, row.epoch).block(row.key, engine.clock.now() + LANE_RECHECK);
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
