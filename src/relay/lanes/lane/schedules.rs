//! Seeded schedules of one lane: in whatever order rows are read, fail and come back, no row of a key goes before an
//! earlier one.

use std::collections::{BTreeMap, HashSet};

use super::*;
use crate::limits::{LANE_KEY_WAITING_MAX, LANE_OPEN_TRANSACTION_DURATION};
use crate::message::MessageId;

const SEEDS: u64 = 3_000;
const STEPS: usize = 400;
const KEYS: u64 = 3;

/// The producer of a fenced lane.
#[derive(Debug)]
struct Out;

impl FencedLane for Out {
    fn send_all(&self, _messages: Vec<crate::transport::FencedMessage>) {}

    fn is_open(&self) -> bool {
        true
    }
}

/// A row of the database, and when it was enqueued.
type Row = (KeyHash, RowKey, BootInstant);

/// A row in flight.
#[derive(Debug)]
struct Sent {
    key: KeyHash,
    sequence: Option<KeySequence>,
    /// Whether it failed and its failure is still to be treated.
    has_failed: bool,
}

/// A transaction that holds its key's lock.
#[derive(Debug)]
struct Open {
    row: RowKey,
    enqueued_at: BootInstant,
    announced_at: Option<BootInstant>,
}

#[derive(Debug)]
struct Schedule {
    random: fastrand::Rng,
    now: BootInstant,
    lane: Lane,
    /// The rows that are visible in the database.
    rows: BTreeMap<i64, Row>,
    delivered: HashSet<i64>,
    /// By key: a key's transactions commit in order, and each draws an id.
    open: BTreeMap<KeyHash, Open>,
    last_id: i64,
    sent: BTreeMap<i64, Sent>,
    /// A page that was requested, with the rows that were visible then.
    requested: Option<(Scan, BootInstant, Vec<Row>, bool)>,
}

impl Schedule {
    fn new(seed: u64) -> Self {
        let now = BootInstant::from_boot(Duration::from_secs(9));
        let random = fastrand::Rng::with_seed(seed);
        let fence_state =
            if seed.is_multiple_of(3) { FenceState::Plain } else { FenceState::Fenced { by: Arc::new(Out), tries: 0 } };
        let lane = Lane::new(OwnedLane { lane: 0, fence: 1 }, fence_state, now + Duration::from_secs(36_000), now, now);
        let (rows, delivered, open) = (BTreeMap::new(), HashSet::new(), BTreeMap::new());
        Self { random, now, lane, rows, delivered, open, last_id: 0, sent: BTreeMap::new(), requested: None }
    }

    fn step(&mut self) {
        // No two events have the same time.
        self.now = self.now + Duration::from_micros(1);
        match self.random.u32(..20) {
            0 if self.random.u32(..8) == 0 => self.batch(),
            0..3 => self.insert(),
            3 => self.announce(),
            4..7 => {
                let key = self.random.u64(..KEYS);
                self.commit(key);
            }
            7..10 => self.request(),
            10..12 => self.note(),
            12..14 => self.take(),
            14..16 => self.complete(0.3),
            16..18 => self.treat(),
            18 => self.advance(),
            _ => self.settle(),
        }
    }

    fn insert(&mut self) {
        let key = self.random.u64(..KEYS);
        if !self.open.contains_key(&key) {
            self.last_id += self.random.i64(1..4);
            let row = RowKey { id: self.last_id, message_id: MessageId::new() };
            self.open.insert(key, Open { row, enqueued_at: self.now, announced_at: None });
        }
    }

    /// A transaction with many rows of a key.
    fn batch(&mut self) {
        let key = self.random.u64(..KEYS);
        if self.open.contains_key(&key) {
            return;
        }
        for _ in 0..self.random.i64(..2 * LANE_KEY_WAITING_MAX as i64) {
            self.last_id += 1;
            let row = RowKey { id: self.last_id, message_id: MessageId::new() };
            self.rows.insert(row.id, (key, row, self.now));
        }
        self.lane.rewind(None);
    }

    fn announce(&mut self) {
        let now = self.now;
        if let Some(open) = self.open.get_mut(&self.random.u64(..KEYS)) {
            open.announced_at.get_or_insert(now);
            self.lane.expect();
        }
    }

    fn commit(&mut self, key: KeyHash) {
        let Some(Open { row, enqueued_at, announced_at }) = self.open.remove(&key) else { return };
        self.rows.insert(row.id, (key, row, enqueued_at));
        let waiting = WaitingRow { row, bytes: 1, since: enqueued_at };
        let arrived = announced_at.and_then(|at| self.lane.arrive(key, waiting, at, self.now));
        if arrived.is_none() {
            self.lane.rewind(self.random.bool().then_some(row.id));
        }
    }

    fn request(&mut self) {
        if self.requested.is_none() && self.random.bool() {
            self.lane.forget();
        }
        if self.requested.is_none()
            && let Some(scan) = self.lane.next_scan(self.now)
        {
            let rows_max = scan.reread + self.random.usize(1..6) * self.random.usize(1..20);
            let page: Vec<_> = self.rows.range(scan.after + 1..).map(|(_, row)| *row).take(rows_max).collect();
            let is_full = page.len() == rows_max;
            self.requested = Some((scan, self.now, page, is_full));
        }
    }

    fn note(&mut self) {
        let Some((scan, requested_at, page, is_full)) = self.requested.take() else { return };
        let found = |&(key, row, since): &Row| FoundRow {
            key,
            waiting: WaitingRow { row, bytes: 1, since },
            in_ledger: self.sent.contains_key(&row.id),
        };
        let last = page.last().map_or(scan.after, |(_, row, _)| row.id);
        let rows = page.iter().filter(|(_, row, _)| !self.delivered.contains(&row.id)).map(found).collect();
        let youngest = page.iter().map(|(_, _, since)| since.until(self.now)).min().unwrap_or(Duration::MAX);
        let read = page.len();
        let page =
            Page { rows, read, youngest, horizon: None, last, is_full, seen: 0, read_at: (requested_at, self.now) };
        self.lane.note(scan, &page, self.now + Duration::from_secs(1));
    }

    fn take(&mut self) {
        for _ in 0..self.random.usize(1..5) {
            let Some((key, WaitingRow { row, .. }, sequence)) = self.lane.take(usize::MAX) else { return };
            if !self.rows.contains_key(&row.id) {
                self.lane.done(key, row);
                continue;
            }
            let is_before = |id: &i64, of: KeyHash| of == key && *id < row.id && !self.delivered.contains(id);
            for (before, _) in self.rows.iter().filter(|(id, (of, ..))| is_before(id, *of)) {
                let is_in_flight =
                    self.sent.get(before).is_some_and(|sent| sequence.is_some() && sent.sequence == sequence);
                assert!(is_in_flight, "{} goes before {before}: {:?}", row.id, self.lane.keys.get(&key));
            }
            if sequence.as_ref().is_some_and(KeySequence::has_failed) {
                self.lane.requeue(key, row);
            } else {
                self.lane.sent(key, row);
                assert!(self.sent.insert(row.id, Sent { key, sequence, has_failed: false }).is_none(), "twice");
            }
        }
    }

    /// The first row of a key is delivered or fails; one whose sequence has failed may fail at any time.
    fn complete(&mut self, failures: f64) {
        let Some(place) = (!self.sent.is_empty()).then(|| self.random.usize(..self.sent.len())) else { return };
        let Some((&id, sent)) = self.sent.iter().nth(place).filter(|(_, sent)| !sent.has_failed) else { return };
        let (key, sequence) = (sent.key, sent.sequence.clone());
        let is_first = self.sent.iter().find(|(_, sent)| sent.key == key).is_some_and(|(first, _)| *first == id);
        let sequence_has_failed = sequence.as_ref().is_some_and(KeySequence::has_failed);
        if sequence_has_failed || (is_first && self.random.f64() < failures) {
            sequence.iter().for_each(KeySequence::fail);
            self.sent.entry(id).and_modify(|sent| sent.has_failed = true);
        } else if is_first {
            self.sent.remove(&id);
            self.delivered.insert(id);
            self.lane.done(key, self.rows[&id].1);
        }
    }

    fn treat(&mut self) {
        let failed: Vec<i64> = self.sent.iter().filter(|(_, sent)| sent.has_failed).map(|(id, _)| *id).collect();
        let Some(id) = self.random.choice(failed) else { return };
        let Some(Sent { key, .. }) = self.sent.remove(&id) else { return };
        let row = self.rows[&id].1;
        if self.random.bool() {
            self.lane.requeue(key, row);
        } else {
            self.lane.block(key, row, self.now + Duration::from_millis(self.random.u64(..300)));
        }
    }

    /// Advances time. No transaction stays open longer than a lane waits for it.
    fn advance(&mut self) {
        let then = self.now + Duration::from_millis(self.random.u64(1..1_200));
        let is_old = |open: &Open| open.enqueued_at + LANE_OPEN_TRANSACTION_DURATION <= then;
        let old: Vec<KeyHash> = self.open.iter().filter(|(_, open)| is_old(open)).map(|(key, _)| *key).collect();
        old.into_iter().for_each(|key| self.commit(key));
        self.now = then;
        self.lane.unblock(self.now);
    }

    fn settle(&mut self) {
        let delivered = &self.delivered;
        self.rows.retain(|id, _| !delivered.contains(id));
    }

    /// Everything that was committed is sent once nothing fails any more.
    fn end(&mut self) {
        for _ in 0..50 * STEPS {
            if self.rows.keys().all(|id| self.delivered.contains(id)) {
                return;
            }
            match self.random.u32(..6) {
                0 => self.request(),
                1 => self.note(),
                2 => self.take(),
                3 => self.complete(0.0),
                4 => self.treat(),
                _ => self.advance(),
            }
        }
        panic!("stuck: {self:?}");
    }
}

#[test]
fn no_row_goes_before_an_earlier_one_of_its_key_and_each_goes() {
    crate::relay::tests::seeds::each(SEEDS, |seed| async move {
        let mut schedule = Schedule::new(seed);
        (0..STEPS).for_each(|_| schedule.step());
        schedule.end();
    });
}
