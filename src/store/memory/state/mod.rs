//! The rows, and each statement on them as one step under the lock.

mod admin;
mod audit;
mod claim;
mod history;
mod lanes;
mod live;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use uuid::Uuid;

use super::options::InsertOptions;
use crate::clock::system_now;
use crate::lane::NodeId;
use crate::message::{Envelope, MessageId};
use crate::store::{
    AuditEntry, Confirmed, LiveRow, Loaded, NextDue, Poisoned, PollFrom, PollRange, PollResult, PollSpec, PollTopic,
    Row, RowKey, RowRef, StoredError, TopicBacklog,
};
use crate::transport::FailureClass;

pub(super) use admin::MemoryDeadLetter;
pub(super) use claim::HeldBy;
pub(super) use history::MemorySentMessage;
pub(super) use writes::Settled;

/// The database's clock.
#[derive(Debug)]
pub(super) struct DatabaseClock {
    started_at: SystemTime,
    started: Instant,
    advanced: Duration,
}

/// Microseconds since 1970 by the database's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Micros(pub(super) i64);

impl Micros {
    pub(super) fn as_system_time(self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_micros(self.0.unsigned_abs())
    }

    pub(super) fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }

    pub(super) fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }

    /// The time from `self` until `later`; zero if that is in the past.
    pub(super) fn until(self, later: Self) -> Duration {
        Duration::from_micros(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }
}

impl DatabaseClock {
    pub(super) fn now(&self) -> Micros {
        let since_1970 = self.started_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Micros(0).plus(since_1970 + self.started.elapsed() + self.advanced)
    }

    pub(super) fn advance(&mut self, by: Duration) {
        self.advanced += by;
    }
}

#[derive(Debug)]
pub(super) struct MemoryRow {
    pub(super) key: RowKey,
    pub(super) envelope: Envelope,
    pub(super) delayed: bool,
    /// Its lane, on an ordered topic.
    pub(super) lane: Option<u16>,
    pub(super) due_at: Micros,
    pub(super) epoch: i32,
    pub(super) attempts: u32,
    pub(super) failures: u32,
    pub(super) errors: Vec<StoredError>,
    pub(super) poisoned: bool,
    /// The session that locked it last; the row is locked while that session lives.
    pub(super) locked_by: Option<Session>,
}

/// A transaction that may hold locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Session(u64);

impl MemoryRow {
    pub(super) fn load(&self) -> Loaded {
        if self.poisoned {
            return Loaded::Poisoned(Poisoned {
                key: self.key,
                epoch: self.epoch,
                topic: self.envelope.topic.clone(),
                error: "a test corrupted the row".into(),
            });
        }
        let envelope = Envelope { attempt: self.attempts + 1, ..self.envelope.clone() };
        let is_refused = self.errors.last().is_some_and(|error| error.class == FailureClass::RecordRefused.as_str());
        Loaded::Row(Row {
            key: self.key,
            epoch: self.epoch,
            failures: self.failures,
            is_suspect: self.failures > 0 && is_refused,
            envelope,
        })
    }
}

/// The tables of lanes and nodes.
#[derive(Debug, Default)]
struct Lanes {
    lanes: BTreeMap<(Arc<str>, u16), Lane>,
    nodes: BTreeMap<(Arc<str>, NodeId), Micros>,
}

#[derive(Debug)]
struct Lane {
    owner: Option<NodeId>,
    fence: i64,
    expires_at: Micros,
    quiet_until: Micros,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) clock: DatabaseClock,
    pub(super) rows: BTreeMap<i64, MemoryRow>,
    pub(super) dead: Vec<MemoryDeadLetter>,
    history: BTreeMap<MessageId, MemorySentMessage>,
    /// Consumers' marks of messages that are not in the history.
    processed_reports: BTreeMap<MessageId, Micros>,
    lanes: Lanes,
    /// The paused topics, and since when.
    paused: BTreeMap<Arc<str>, Micros>,
    audit: BTreeMap<Uuid, AuditEntry>,
    ids: BTreeMap<MessageId, i64>,
    last_id: i64,
    /// Row ids of open transactions.
    open: BTreeSet<i64>,
    /// Open transactions, each with the time at which the database ends it by itself.
    sessions: BTreeMap<Session, Option<Micros>>,
    last_session: u64,
}

impl State {
    pub(super) fn new() -> Self {
        let clock = DatabaseClock { started_at: system_now(), started: Instant::now(), advanced: Duration::ZERO };
        Self {
            clock,
            rows: BTreeMap::new(),
            dead: Vec::new(),
            history: BTreeMap::new(),
            processed_reports: BTreeMap::new(),
            lanes: Lanes::default(),
            paused: BTreeMap::new(),
            audit: BTreeMap::new(),
            ids: BTreeMap::new(),
            last_id: 0,
            open: BTreeSet::new(),
            sessions: BTreeMap::new(),
            last_session: 0,
        }
    }

    fn next_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn prepare(&mut self, mut envelope: Envelope, options: InsertOptions) -> MemoryRow {
        let id = self.next_id();
        let now = self.clock.now();
        envelope.created_at = now.as_system_time();
        envelope.deliver_at = options.deliver_after.map(|delay| now.plus(delay).as_system_time());
        MemoryRow {
            key: RowKey { id, message_id: envelope.message_id },
            envelope,
            delayed: options.deliver_after.is_some(),
            lane: options.lane,
            due_at: match options.lane {
                Some(_) => Micros(0),
                None => now.plus(options.deliver_after.unwrap_or(options.leased_for)),
            },
            epoch: 0,
            attempts: 0,
            failures: 0,
            errors: Vec::new(),
            poisoned: false,
            locked_by: None,
        }
    }

    /// The same, in a transaction that stays open until it has [ended](Self::ended).
    pub(super) fn prepare_uncommitted(&mut self, envelope: Envelope, options: InsertOptions) -> MemoryRow {
        let row = self.prepare(envelope, options);
        self.open.insert(row.key.id);
        row
    }

    /// The transaction that wrote the row with this id is over.
    pub(super) fn ended(&mut self, id: i64) {
        self.open.remove(&id);
    }

    pub(super) fn commit(&mut self, row: MemoryRow) -> RowKey {
        let key = row.key;
        let known = self.ids.insert(key.message_id, key.id);
        assert!(known.is_none(), "two live rows with the message id {}", key.message_id);
        self.rows.insert(key.id, row);
        key
    }

    pub(super) fn row(&self, key: RowKey) -> Option<&MemoryRow> {
        self.rows.get(&key.id).filter(|row| row.key == key)
    }

    pub(super) fn row_mut(&mut self, key: RowKey) -> Option<&mut MemoryRow> {
        self.rows.get_mut(&key.id).filter(|row| row.key == key)
    }

    pub(super) fn remove(&mut self, key: RowKey) -> Option<MemoryRow> {
        self.row_mut(key)?;
        self.ids.remove(&key.message_id);
        self.rows.remove(&key.id)
    }

    pub(super) fn begin(&mut self, ends_at: Option<Micros>) -> Session {
        self.last_session += 1;
        let session = Session(self.last_session);
        self.sessions.insert(session, ends_at);
        session
    }

    /// Ends a session and releases its locks; `false` if it had ended before.
    pub(super) fn end(&mut self, session: Session) -> bool {
        let was_alive = self.is_alive(session, self.clock.now());
        self.sessions.remove(&session);
        was_alive
    }

    pub(super) fn end_all_sessions(&mut self) {
        self.sessions.clear();
    }

    /// When the next session ends by itself.
    pub(super) fn next_end_in(&self) -> Option<Duration> {
        let now = self.clock.now();
        self.sessions.values().flatten().filter(|ends_at| now < **ends_at).map(|ends_at| now.until(*ends_at)).min()
    }

    fn is_alive(&self, session: Session, now: Micros) -> bool {
        self.sessions.get(&session).is_some_and(|ends_at| ends_at.is_none_or(|ends_at| now < ends_at))
    }

    pub(super) fn is_locked(&self, row: &MemoryRow, now: Micros) -> bool {
        row.locked_by.is_some_and(|session| self.is_alive(session, now))
    }

    /// Locks a row; `false` if it is missing or locked already.
    pub(super) fn lock(&mut self, key: RowKey, session: Session) -> bool {
        let now = self.clock.now();
        let is_free = self.row(key).is_some_and(|row| !self.is_locked(row, now));
        if is_free && let Some(row) = self.row_mut(key) {
            row.locked_by = Some(session);
        }
        is_free
    }

    pub(super) fn found<'a>(&'a self, refs: &'a [RowRef]) -> impl Iterator<Item = &'a MemoryRow> {
        refs.iter().filter_map(|row_ref| {
            let id = row_ref.id.or_else(|| self.ids.get(&row_ref.message_id).copied())?;
            self.rows.get(&id).filter(|row| row.key.message_id == row_ref.message_id)
        })
    }

    pub(super) fn confirm(&self, refs: &[RowRef]) -> Vec<Confirmed> {
        let now = self.clock.now();
        let mut born: Vec<_> = self.found(refs).filter(|row| row.epoch == 0 && !row.delayed).collect();
        // By primary key, as databases read, not in the order of the request.
        born.sort_unstable_by_key(|row| row.key.id);
        let confirmed = |row: &MemoryRow| Confirmed { row: row.load(), lease_left: now.until(row.due_at) };
        born.into_iter().map(confirmed).collect()
    }

    /// The rows of a topic that are in no lane.
    fn unordered<'a>(&'a self, topic: &'a str) -> impl Iterator<Item = &'a MemoryRow> {
        self.rows.values().filter(move |row| &*row.envelope.topic == topic && row.lane.is_none())
    }

    pub(super) fn poll(&self, spec: &PollSpec) -> PollResult {
        let (now, mut result) = (self.clock.now(), PollResult::default());
        let slack = Micros(0).plus(spec.watermark_slack_duration).0;
        for PollTopic { topic, from } in &spec.topics {
            let begin = match from {
                PollFrom::Beginning => Micros(i64::MIN),
                PollFrom::After(mark) => Micros(mark.next()),
                PollFrom::Past(past) => now.minus(*past),
            };
            let end = now.plus(spec.ahead);
            let first = |begin: Micros| {
                let due_at = self.unordered(topic).map(|row| row.due_at);
                due_at.filter(|due_at| (begin..=end).contains(due_at)).min()
            };
            let (due_at, behind_now) = (first(begin), begin.max(Micros(now.0.saturating_add(1))));
            result.due.extend(due_at.map(|due_at| NextDue {
                topic: topic.clone(),
                due_in: now.until(due_at),
                overdue_by: due_at.until(now),
                later_in: first(behind_now).map(|later| now.until(later)),
            }));
            result.ranges.push(PollRange::new(topic, begin.0, now.0, due_at.map(|due_at| due_at.0), slack));
        }
        result.read_at = Some(now.as_system_time());
        let paused = spec.topics.iter().filter(|at| self.paused.contains_key(&at.topic));
        result.paused = paused.map(|at| at.topic.clone()).collect();
        result
    }

    pub(super) fn backlog(&self, count_max: usize) -> Vec<TopicBacklog> {
        let now = self.clock.now();
        let live = self.rows.values().map(|row| &row.envelope.topic);
        let topics: BTreeSet<_> = live.chain(self.dead.iter().map(|dead| &dead.row.topic)).collect();
        let of_topic = |topic: &Arc<str>| {
            let due_at: Vec<_> = self.unordered(topic).map(|row| row.due_at).collect();
            let ordered = self.rows.values().filter(|row| row.envelope.topic == *topic && row.lane.is_some()).count();
            let due = due_at.iter().filter(|due_at| **due_at <= now).count();
            let dead = self.dead.iter().filter(|dead| dead.row.topic == *topic).count();
            TopicBacklog {
                topic: topic.clone(),
                live: (due_at.len() + ordered).min(count_max),
                due: due.min(count_max),
                overdue_by: due_at.iter().min().map_or(Duration::ZERO, |first| first.until(now)),
                dead: dead.min(count_max),
            }
        };
        topics.into_iter().map(of_topic).collect()
    }

    pub(super) fn live_rows(&self) -> Vec<LiveRow> {
        let rows = self.rows.values().map(|row| LiveRow {
            key: row.key,
            topic: row.envelope.topic.clone(),
            due_at: row.due_at.as_system_time(),
            epoch: row.epoch,
            attempts: row.attempts,
            failures: row.failures,
            errors: row.errors.clone(),
        });
        rows.collect()
    }
}
