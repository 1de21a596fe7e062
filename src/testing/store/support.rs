//! Helpers of the cases.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep};

use super::StoreUnderTest;
use crate::message::{Envelope, MessageId};
use crate::store::{
    Claim, ClaimSpec, Confirmed, Failed, Held, InsertOptions, LiveRow, Loaded, NewDeadLetter, PollSpec, Requeue, Row,
    RowKey, RowRef,
};

pub(super) const TOPIC: &str = "orders";
pub(super) const LEASE: Duration = Duration::from_secs(30);

/// How long the suite waits for an expected event. A server may take seconds to notice that a session is gone.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How long the suite watches for an event that must not happen: a faulty store would cause it at once.
pub(super) const SHORT_WAIT: Duration = Duration::from_millis(100);

pub(super) const DUE: InsertOptions = InsertOptions { leased_for: Duration::ZERO, deliver_after: None, lane: None };

pub(super) fn message(topic: &str) -> Envelope {
    let mut envelope = Envelope::new(MessageId::new(), topic.into(), SystemTime::UNIX_EPOCH);
    envelope.key = Some("42".to_owned());
    envelope.kind = "order.placed".to_owned();
    envelope.payload = Some(br#"{"order_id":42}"#.to_vec());
    envelope
}

pub(super) fn leased(staleness: Duration) -> InsertOptions {
    InsertOptions::default().leased_for(staleness)
}

pub(super) async fn insert(under_test: &dyn StoreUnderTest, options: InsertOptions) -> RowKey {
    under_test.insert(&message(TOPIC), options).await
}

/// Writes `count` rows that are due.
pub(super) async fn insert_due(under_test: &dyn StoreUnderTest, count: usize) -> Vec<RowKey> {
    let mut keys = Vec::with_capacity(count);
    for _ in 0..count {
        keys.push(insert(under_test, DUE).await);
    }
    keys
}

pub(super) fn spec(topic: &str) -> ClaimSpec {
    ClaimSpec {
        topic: topic.into(),
        after: None,
        rows_max: 1_000,
        bytes_max: 8 << 20,
        // Longer than any case takes, except the one that tests its end.
        lock_duration: Duration::from_secs(4),
        lease_duration: LEASE,
        watermark_slack_duration: Duration::from_secs(10),
        keep: None,
    }
}

pub(super) async fn claim(under_test: &dyn StoreUnderTest, spec: &ClaimSpec) -> Claim {
    under_test.store().claim(spec).await.expect("claim")
}

/// Claims rows, and closes the claim at once.
pub(super) async fn claim_and_close(under_test: &dyn StoreUnderTest, spec: &ClaimSpec) -> Vec<RowKey> {
    let claim = claim(under_test, spec).await;
    let claimed = keys(&claim.rows);
    claim.handle.close(&[], &[]).await.expect("close");
    claimed
}

/// Rows held under a lease, as a claim leaves them when it closes with rows in flight.
pub(super) async fn insert_held(under_test: &dyn StoreUnderTest, count: usize) -> Vec<Held> {
    let keys = insert_due(under_test, count).await;
    let claim = claim(under_test, &spec(TOPIC)).await;
    let closed = claim.handle.close(&[], &keys).await.expect("close");
    assert_eq!(sorted(closed.held.iter().map(|held| held.key)), keys, "every claimed row can be held");
    closed.held
}

pub(super) fn keys(rows: &[Loaded]) -> Vec<RowKey> {
    rows.iter().map(Loaded::key).collect()
}

pub(super) fn sorted(keys: impl IntoIterator<Item = RowKey>) -> Vec<RowKey> {
    let mut keys: Vec<_> = keys.into_iter().collect();
    keys.sort_unstable();
    keys
}

pub(super) fn confirmed_keys(rows: &[Confirmed]) -> Vec<RowKey> {
    sorted(rows.iter().map(|confirmed| confirmed.row.key()))
}

pub(super) fn decoded(row: Loaded) -> Row {
    match row {
        Loaded::Row(row) => row,
        Loaded::Poisoned(row) => panic!("the intact row {:?} was read as poisoned: {}", row.key, row.error),
    }
}

pub(super) fn row_ref(key: RowKey) -> RowRef {
    RowRef { id: Some(key.id), message_id: key.message_id }
}

/// The same id with another message, as in a database that reuses an id.
pub(super) fn other_message(key: RowKey) -> RowKey {
    RowKey { message_id: MessageId::new(), ..key }
}

/// The same row under an outdated epoch.
pub(super) fn stale(held: Held) -> Held {
    Held { epoch: held.epoch - 1, ..held }
}

pub(super) fn failed(held: Held, error: impl Into<String>) -> Failed {
    let wait = Duration::from_secs(10);
    Failed { held, wait, spends_attempt: true, class: "temporary", error: error.into() }
}

pub(super) fn to_dead_letter(held: Held) -> NewDeadLetter {
    NewDeadLetter { held, reason: "attempts".to_owned() }
}

pub(super) fn requeue(message_id: MessageId, lane: Option<u16>) -> Requeue {
    Requeue { message_id, lane }
}

/// Writes a row and dead-letters it.
pub(super) async fn insert_dead_letter(
    under_test: &dyn StoreUnderTest,
    topic: &str,
    key: &str,
    reason: &str,
) -> RowKey {
    let mut envelope = message(topic);
    envelope.key = Some(key.to_owned());
    let row = under_test.insert(&envelope, DUE).await;
    dead_letter(under_test, row, 0, reason).await;
    row
}

pub(super) async fn dead_letter(under_test: &dyn StoreUnderTest, key: RowKey, epoch: i32, reason: &str) {
    let dead = NewDeadLetter { held: Held { key, epoch }, reason: reason.to_owned() };
    assert_eq!(under_test.store().dead_letter(&[dead]).await.expect("dead_letter"), [key]);
}

pub(super) async fn live_row(under_test: &dyn StoreUnderTest, key: RowKey) -> LiveRow {
    let rows = under_test.live_rows().await;
    rows.into_iter().find(|row| row.key == key).unwrap_or_else(|| panic!("{key:?} is no live row"))
}

pub(super) async fn live_keys(under_test: &dyn StoreUnderTest) -> Vec<RowKey> {
    sorted(under_test.live_rows().await.into_iter().map(|row| row.key))
}

pub(super) async fn dead_letter_keys(under_test: &dyn StoreUnderTest) -> Vec<RowKey> {
    sorted(under_test.dead_letter_rows().await.into_iter().map(|row| row.key))
}

pub(super) fn topics(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|&name| name.into()).collect()
}

/// A poll of all of these topics, from the beginning.
pub(super) fn poll_spec(names: &[&str]) -> PollSpec {
    PollSpec::everything(topics(names))
}

/// The time span, by the database's clock, in which a call wrote.
pub(super) struct WriteWindow {
    began_at: SystemTime,
    ended_at: SystemTime,
}

impl WriteWindow {
    pub(super) async fn of<T>(under_test: &dyn StoreUnderTest, call: impl Future<Output = T>) -> (Self, T) {
        let began_at = under_test.now().await;
        let result = call.await;
        (Self { began_at, ended_at: under_test.now().await }, result)
    }

    /// Asserts that a moment is in it.
    pub(super) fn assert_at(&self, moment: SystemTime) {
        let (earliest, latest) = (self.began_at, self.ended_at);
        assert!(earliest <= moment && moment <= latest, "{moment:?}, not from {earliest:?} to {latest:?}");
    }

    /// Asserts that a row became due `after` the moment it was written.
    pub(super) fn assert_due_after(&self, row: &LiveRow, after: Duration) {
        self.assert_at(row.due_at - after);
    }
}

/// Repeats until there is an answer.
pub(super) async fn eventually<T>(what: &str, mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(result) = attempt().await {
            return result;
        }
        assert!(Instant::now() < deadline, "not within {TIMEOUT:?}: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}
