//! The hook under synthetic events, in orders that no connection may ever send.

mod verified;

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use diesel::connection::{Instrumentation, InstrumentationEvent, StrQueryHelper};
use diesel::result::{DatabaseErrorKind, Error};

use super::{CommitHook, Pending};
use crate::clock::BootInstant;
use crate::limits::HOOK_REFS_MAX;
use crate::message::{Envelope, MessageId};
use crate::outbox::{Outbox, TestHook};
use crate::relay::direct::queue::{HandedOver, InlineRow, Link};
use crate::store::{Row, RowKey, RowRef};
use crate::topic::Topic;

const NOTHING: [i64; 0] = [];

/// A hook, and the rows that its outbox hands over.
struct HookFixture {
    hook: CommitHook,
    link: Arc<Link>,
    test_hook: TestHook,
}

impl HookFixture {
    fn new() -> Self {
        let outbox = Outbox::builder().topic(Topic::new("orders")).build().unwrap();
        Self { hook: CommitHook::new(), link: Arc::clone(outbox.link()), test_hook: outbox.test_hook() }
    }

    /// An open transaction without rows.
    fn begun() -> Self {
        let mut bench = Self::new();
        bench.begin(1);
        bench
    }

    fn begin(&mut self, depth: u32) {
        self.hook.on_connection_event(InstrumentationEvent::begin_transaction(at(depth)));
    }

    fn commit(&mut self, depth: u32) {
        self.hook.on_connection_event(InstrumentationEvent::commit_transaction(at(depth)));
    }

    fn roll_back(&mut self, depth: u32) {
        self.hook.on_connection_event(InstrumentationEvent::rollback_transaction(at(depth)));
    }

    fn finish(&mut self, error: Option<&Error>) {
        self.hook.on_connection_event(InstrumentationEvent::finish_query(&StrQueryHelper::new("?"), error));
    }

    fn start(&mut self, sql: &str) {
        self.hook.on_connection_event(InstrumentationEvent::start_query(&StrQueryHelper::new(sql)));
    }

    fn statement(&mut self, sql: &str) {
        self.start(sql);
        self.finish(None);
    }

    /// An enqueue as a connection shows it. Its rows are inline if their commit is verified.
    fn insert(&mut self, ids: impl IntoIterator<Item = i64>, depth: u32) {
        self.statement("INSERT INTO outbox_messages ..");
        let rows = ids.into_iter().map(|id| inline(row(id, &self.link))).collect();
        let before = self.hook.buffer.statements() - 1;
        self.hook.buffer.push(rows, depth, false, before);
    }

    /// The rows that were handed over, and whether each was inline.
    fn inline(&self) -> Vec<(i64, bool)> {
        self.test_hook
            .take()
            .into_iter()
            .filter_map(|captured| Some((captured.row.id?, captured.inline.is_some())))
            .collect()
    }

    fn enqueue(&mut self, ids: impl IntoIterator<Item = i64>, depth: u32) {
        let rows = ids.into_iter().map(|id| row(id, &self.link)).collect();
        self.hook.buffer.push(rows, depth, false, 0);
    }

    fn handed_over(&self) -> Vec<i64> {
        self.test_hook.take().into_iter().filter_map(|captured| captured.row.id).collect()
    }
}

fn at(depth: u32) -> NonZeroU32 {
    NonZeroU32::new(depth).unwrap()
}

fn row(id: i64, link: &Arc<Link>) -> Pending {
    Pending {
        row: HandedOver {
            row: RowRef { id: Some(id), message_id: MessageId::new() },
            topic: "orders".into(),
            staleness: Duration::from_secs(60),
            bytes: 1,
            lane: None,
            due_at: None,
            inline: None,
        },
        link: Some(Arc::clone(link)),
        record: None,
        ticket: None,
    }
}

fn inline(mut pending: Pending) -> Pending {
    let RowRef { id, message_id } = pending.row.row;
    let envelope = Envelope::new(message_id, Arc::clone(&pending.row.topic), SystemTime::UNIX_EPOCH);
    let key = RowKey { id: id.unwrap(), message_id };
    let row = Row { key, epoch: 0, failures: 0, is_suspect: false, envelope };
    pending.row.inline =
        Some(Box::new(InlineRow { row, inserted_at: BootInstant::from_boot(Duration::ZERO), announced_at: None }));
    pending
}

fn error(kind: DatabaseErrorKind, text: &str) -> Error {
    Error::DatabaseError(kind, Box::new(text.to_owned()))
}

#[test]
fn rows_are_handed_over_at_the_outermost_commit() {
    let mut bench = HookFixture::begun();
    bench.enqueue([1], 1);
    bench.begin(2);
    bench.finish(None);
    bench.enqueue([2], 2);
    bench.commit(2);
    bench.finish(None);
    bench.commit(1);
    assert_eq!(bench.handed_over(), NOTHING, "the COMMIT is only announced");
    bench.finish(None);
    assert_eq!(bench.handed_over(), [1, 2]);
}

#[test]
fn rolled_back_rows_are_dropped_and_the_rest_is_kept() {
    let mut bench = HookFixture::begun();
    bench.enqueue([1], 1);
    bench.begin(2);
    bench.enqueue([2], 2);
    bench.begin(3);
    bench.enqueue([3], 3);
    bench.commit(3);
    bench.finish(None);
    bench.roll_back(2);
    bench.finish(None);
    bench.begin(2);
    bench.enqueue([4], 2);
    bench.commit(2);
    bench.finish(None);
    bench.enqueue([5], 1);
    bench.commit(1);
    bench.finish(None);
    assert_eq!(bench.handed_over(), [1, 4, 5]);

    bench.begin(1);
    bench.enqueue([6], 1);
    bench.roll_back(1);
    bench.finish(None);
    bench.begin(1);
    bench.commit(1);
    bench.finish(None);
    assert_eq!(bench.handed_over(), NOTHING);
}

#[test]
fn rolling_back_a_savepoint_that_never_began_removes_nothing() {
    let mut bench = HookFixture::begun();
    bench.enqueue([1], 1);
    bench.begin(2);
    bench.finish(Some(&error(DatabaseErrorKind::Unknown, "no")));
    bench.enqueue([2], 1);
    bench.begin(2);
    bench.enqueue([3], 2);
    bench.roll_back(2);
    bench.commit(1);
    bench.finish(None);
    assert_eq!(bench.handed_over(), [1, 2]);
}

#[test]
fn a_hook_installed_inside_savepoints_follows_them() {
    let mut bench = HookFixture::new();
    bench.enqueue([1], 3);
    bench.commit(3);
    bench.finish(None);
    bench.enqueue([2], 2);
    bench.begin(3);
    bench.enqueue([3], 3);
    bench.roll_back(3);
    bench.commit(2);
    bench.finish(None);
    bench.commit(1);
    bench.finish(None);
    assert_eq!(bench.handed_over(), [1, 2]);

    bench.enqueue([4], 3);
    bench.roll_back(2);
    bench.commit(1);
    bench.finish(None);
    assert_eq!(bench.handed_over(), NOTHING, "the rollback of depth 2 takes depth 3 with it");
}

#[test]
fn an_unknown_commit_is_handed_over_and_a_failed_one_is_not() {
    let mut bench = HookFixture::begun();
    bench.enqueue([1], 1);
    bench.commit(1);
    bench.finish(Some(&error(DatabaseErrorKind::UnableToSendCommand, "connection reset")));
    assert_eq!(bench.handed_over(), [1], "the server may have committed before the connection broke");

    bench.begin(1);
    bench.enqueue([2], 1);
    bench.commit(1);
    bench.finish(Some(&error(DatabaseErrorKind::ForeignKeyViolation, "deferred")));
    bench.begin(1);
    bench.commit(1);
    bench.finish(None);
    assert_eq!(bench.handed_over(), NOTHING);
}

#[test]
fn an_unfinished_commit_is_handed_over_at_the_next_event_or_drop() {
    let mut bench = HookFixture::begun();
    bench.enqueue([1], 1);
    bench.commit(1);
    bench.begin(1);
    assert_eq!(bench.handed_over(), [1]);
    bench.enqueue([2], 1);
    bench.commit(1);
    bench.roll_back(1);
    assert_eq!(bench.handed_over(), [2]);
    bench.begin(1);
    bench.enqueue([3], 1);
    bench.commit(1);
    drop(std::mem::take(&mut bench.hook));
    assert_eq!(bench.handed_over(), [3]);
    bench.begin(1);
    bench.enqueue([4], 1);
    drop(std::mem::take(&mut bench.hook));
    assert_eq!(bench.handed_over(), NOTHING, "closing a connection rolls back");
}

#[test]
fn a_statement_sent_with_the_commit_ends_first() {
    let mut bench = HookFixture::begun();
    bench.enqueue([1], 1);
    bench.hook.buffer.expect_statements_before_commit(1);
    bench.commit(1);
    bench.finish(None);
    assert_eq!(bench.handed_over(), NOTHING);
    bench.finish(None);
    assert_eq!(bench.handed_over(), [1]);
}

#[test]
fn keeps_at_most_the_first_rows() {
    let mut bench = HookFixture::begun();
    bench.enqueue(0..HOOK_REFS_MAX as i64 - 1, 1);
    bench.enqueue([-1, -2], 1);
    bench.commit(1);
    bench.finish(None);
    let handed_over = bench.handed_over();
    assert_eq!((handed_over.len(), handed_over.last()), (HOOK_REFS_MAX, Some(&-1)));
}

#[test]
fn several_outboxes_on_one_connection_get_their_own_rows() {
    let (mut bench, other) = (HookFixture::begun(), HookFixture::new());
    bench.enqueue([1], 1);
    bench.hook.buffer.push(vec![row(2, &other.link)], 1, false, 0);
    bench.enqueue([3], 1);
    bench.commit(1);
    bench.finish(None);
    assert_eq!((bench.handed_over(), other.handed_over()), (vec![1, 3], vec![2]));
}

#[test]
fn a_deadlock_is_remembered_until_the_transaction_ends() {
    for deadlock in [
        error(DatabaseErrorKind::SerializationFailure, "in whatever language"),
        error(DatabaseErrorKind::Unknown, "Deadlock found when trying to get lock; try restarting transaction"),
    ] {
        let mut bench = HookFixture::begun();
        bench.finish(Some(&error(DatabaseErrorKind::UniqueViolation, "twice")));
        assert!(!bench.hook.buffer.is_deadlocked());
        bench.begin(2);
        bench.finish(Some(&deadlock));
        bench.roll_back(2);
        assert!(bench.hook.buffer.is_deadlocked(), "rolling back to a savepoint does not restore the transaction");
        bench.roll_back(1);
        assert!(!bench.hook.buffer.is_deadlocked());
    }
}

#[test]
fn a_transaction_has_begun_from_its_begin_to_its_announced_end() {
    let mut bench = HookFixture::begun();
    assert!(!bench.hook.buffer.has_begun(), "BEGIN is only announced");
    bench.finish(None);
    assert!(bench.hook.buffer.has_begun());
    bench.finish(Some(&error(DatabaseErrorKind::UniqueViolation, "swallowed")));
    assert!(bench.hook.buffer.has_begun());
    bench.commit(1);
    bench.finish(None);
    assert!(!bench.hook.buffer.has_begun());
    bench.begin(1);
    bench.finish(Some(&error(DatabaseErrorKind::Unknown, "no")));
    assert!(!bench.hook.buffer.has_begun(), "BEGIN failed");
    bench.begin(1);
    bench.finish(None);
    bench.roll_back(1);
    assert!(!bench.hook.buffer.has_begun());
}

/// The error of a probe is hidden. What follows a probe that never began is passed on.
#[test]
fn a_probe_is_not_passed_on() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let mine = move |event: InstrumentationEvent<'_>| log.lock().unwrap().push(format!("{event:?}"));
    let mut bench = HookFixture::new();
    bench.hook = CommitHook::new().chain(mine);
    let before = bench.hook.buffer.statements();
    bench.hook.probe = super::Probe::Expected("BEGIN; ROLLBACK");
    bench.start("BEGIN; ROLLBACK");
    bench.finish(Some(&error(DatabaseErrorKind::Unknown, "cannot start a transaction within a transaction")));
    assert_eq!((seen.lock().unwrap().len(), bench.hook.buffer.statements()), (0, before));
    bench.hook.probe = super::Probe::Expected("BEGIN; ROLLBACK");
    bench.statement("SELECT 1");
    bench.statement("BEGIN; ROLLBACK");
    assert_eq!(seen.lock().unwrap().len(), 4);
}

#[test]
fn passes_every_event_on() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let mine = move |event: InstrumentationEvent<'_>| log.lock().unwrap().push(format!("{event:?}"));
    let mut bench = HookFixture::new();
    bench.hook = CommitHook::new().chain(mine);
    bench.begin(1);
    bench.finish(None);
    bench.commit(1);
    bench.hook.on_connection_event(InstrumentationEvent::cache_query("SELECT 1"));
    assert_eq!(seen.lock().unwrap().len(), 4);
}
