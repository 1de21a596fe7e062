//! Ordered topics: owners that die, stop, join and leave, and the order in which each key's messages appear.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use diesel_outbox::relay::Relay;
use diesel_outbox::retry::Fixed;
use diesel_outbox::{Limits, Outbox, Topic};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::audit::{Audit, read_records};
use super::branch::{Branch, On, Till};
use super::shop::{DEADLINE, Shop};

const CONFIG: &str = "OUTBOX_TEST_LANE_OWNER";
pub(super) const LANES: u16 = 8;
pub(super) const LANE_LEASE: Duration = Duration::from_secs(3);

/// What a process that only relays needs.
#[derive(Debug, Serialize, Deserialize)]
struct Script {
    on: On,
    database_url: String,
    bootstrap: String,
    topic: String,
    is_fenced: bool,
    /// It ends once this is there.
    runs_until: PathBuf,
}

/// A shop whose topic is ordered.
pub(super) struct Ordered {
    pub(super) shop: Branch,
    is_fenced: bool,
    folder: TempDir,
}

impl Ordered {
    pub(super) async fn open(on: On, is_fenced: bool) -> Option<Self> {
        Some(Self::of(Branch::open(on).await?, is_fenced))
    }

    pub(super) fn of(shop: Branch, is_fenced: bool) -> Self {
        Self { shop, is_fenced, folder: tempfile::tempdir().unwrap() }
    }

    pub(super) fn outbox(&self) -> Outbox {
        outbox(&self.shop.at, self.is_fenced)
    }

    pub(super) async fn relay(&self) -> Relay {
        relay(self.shop.on, &self.shop.at, self.is_fenced).await
    }

    pub(super) fn spawn(&self) -> Owner {
        let runs_until = self.folder.path().join("end");
        let shop = self.shop.at.clone();
        let script = Script {
            on: self.shop.on,
            database_url: shop.database_url,
            bootstrap: shop.bootstrap,
            topic: shop.topic,
            is_fenced: self.is_fenced,
            runs_until: runs_until.clone(),
        };
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "faults::ordered::an_owner_ends_when_it_is_told", "--nocapture"])
            .env(CONFIG, serde_json::to_string(&script).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Owner { child, runs_until }
    }

    /// Places orders one after the other: each is committed before the next is enqueued.
    pub(super) async fn place(&self, till: &mut Till, outbox: &Outbox, numbers: std::ops::Range<i32>) {
        for number in numbers {
            till.place(outbox, &self.shop.at.topic, number).await;
        }
    }

    /// Compares the topic with what was committed, and each key's first appearances with their order.
    pub(super) async fn audit(&self) -> Audit {
        let audit = self.shop.audit().await;
        let (bootstrap, topic) = (self.shop.at.bootstrap.clone(), self.shop.at.topic.clone());
        let records = tokio::task::spawn_blocking(move || read_records(&bootstrap, &topic)).await.unwrap();
        let (mut seen, mut last) = (HashSet::new(), HashMap::<String, i32>::new());
        for record in records {
            if !seen.insert(record.id) {
                continue;
            }
            let number: i32 = std::str::from_utf8(&record.payload).unwrap().parse().unwrap();
            let before = last.insert(record.key.clone(), number);
            assert!(before.is_none_or(|before| before < number), "{}: {number} behind {before:?}", record.key);
        }
        assert_eq!(last.len(), 20, "every key has messages");
        assert_eq!((audit.delivered, audit.dead), (audit.committed, 0), "{audit:?}");
        audit
    }
}

fn outbox(shop: &Shop, is_fenced: bool) -> Outbox {
    let topic = Topic::new(shop.topic.as_str())
        .ordered_by_key()
        .lanes(LANES)
        .retry(Fixed::from(vec![Duration::from_millis(100)]));
    Outbox::builder().topic(if is_fenced { topic.fenced() } else { topic }).build().unwrap()
}

async fn relay(on: On, shop: &Shop, is_fenced: bool) -> Relay {
    let limits = Limits { lane_lease_duration: LANE_LEASE, ..super::shop::limits() };
    let relay = outbox(shop, is_fenced).relay().transport(shop.kafka()).limits(limits);
    on.store(relay, shop).start().await.unwrap()
}

pub(super) fn owned(relay: &Relay) -> usize {
    let status = relay.status();
    status.lanes.iter().filter(|lane| lane.owner == Some(status.node)).count()
}

fn owned_by_others(relay: &Relay) -> usize {
    let status = relay.status();
    status.lanes.iter().filter(|lane| lane.owner.is_some_and(|owner| owner != status.node)).count()
}

pub(super) async fn until(what: &str, state: impl Fn() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !state() {
        assert!(Instant::now() < end, "not within {DEADLINE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(super) async fn until_shared(relay: &Relay) {
    until("each of two owns a half", || owned(relay) == 4 && owned_by_others(relay) == 4).await;
}

/// A process that only relays; killed when it is dropped.
pub(super) struct Owner {
    child: Child,
    runs_until: PathBuf,
}

impl Owner {
    pub(super) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap(), signal).unwrap();
    }

    pub(super) async fn ends(&mut self) {
        std::fs::write(&self.runs_until, "").unwrap();
        let end = Instant::now() + DEADLINE;
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "it does not end");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        std::fs::remove_file(&self.runs_until).unwrap();
        assert!(self.child.wait().unwrap().success(), "it left something behind");
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The other process of these tests, where its environment says so; otherwise there is nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_ends_when_it_is_told() {
    let Ok(script) = std::env::var(CONFIG) else { return };
    let Script { on, database_url, bootstrap, topic, is_fenced, runs_until } = serde_json::from_str(&script).unwrap();
    let relay = relay(on, &Shop { database_url, bootstrap, topic }, is_fenced).await;
    while !runs_until.exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let report = relay.shutdown(Duration::from_secs(20)).await;
    assert!(report.is_clean(), "{report:?}");
}

async fn join_and_leave(on: On) {
    let Some(ordered) = Ordered::open(on, false).await else { return };
    let (outbox, mut connection) = (ordered.outbox(), ordered.shop.connect().await);
    let relay = ordered.relay().await;
    until("one owns all", || owned(&relay) == usize::from(LANES)).await;
    ordered.place(&mut connection, &outbox, 0..100).await;
    let mut other = ordered.spawn();
    let placing = ordered.place(&mut connection, &outbox, 100..400);
    tokio::join!(placing, until_shared(&relay));
    let placing = ordered.place(&mut connection, &outbox, 400..600);
    tokio::join!(placing, other.ends());
    until("one owns all again", || owned(&relay) == usize::from(LANES)).await;
    ordered.place(&mut connection, &outbox, 600..700).await;
    ordered.shop.drained().await;
    assert!(relay.shutdown(Duration::from_secs(20)).await.is_clean());
    assert_eq!(ordered.audit().await.doubled, 0, "a healthy hand-over");
}

async fn one_is_killed(on: On) {
    let Some(ordered) = Ordered::open(on, false).await else { return };
    let (outbox, mut connection) = (ordered.outbox(), ordered.shop.connect().await);
    let relay = ordered.relay().await;
    let other = ordered.spawn();
    until_shared(&relay).await;
    ordered.place(&mut connection, &outbox, 0..300).await;
    other.signal(Signal::KILL);
    let killed = Instant::now();
    ordered.place(&mut connection, &outbox, 300..500).await;
    ordered.shop.drained().await;
    // Lane lease, poll, delivery time-out with what the client takes beyond it, and the margin; and some for the machine.
    let bound = LANE_LEASE + Duration::from_secs(1 + 2 + 2) + Duration::from_millis(500);
    assert!(killed.elapsed() < bound + Duration::from_secs(5), "{:?}", killed.elapsed());
    ordered.audit().await;
}

async fn one_stops(on: On) {
    let Some(ordered) = Ordered::open(on, false).await else { return };
    let (outbox, mut connection) = (ordered.outbox(), ordered.shop.connect().await);
    let relay = ordered.relay().await;
    let mut other = ordered.spawn();
    until_shared(&relay).await;
    for round in 0..2 {
        let first = round * 400;
        ordered.place(&mut connection, &outbox, first..first + 100).await;
        other.signal(Signal::STOP);
        ordered.place(&mut connection, &outbox, first + 100..first + 200).await;
        ordered.shop.drained().await;
        until("one owns all", || owned(&relay) == usize::from(LANES)).await;
        other.signal(Signal::CONT);
        ordered.place(&mut connection, &outbox, first + 200..first + 400).await;
        until_shared(&relay).await;
    }
    other.ends().await;
    ordered.shop.drained().await;
    ordered.audit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn joining_and_leaving_owners_double_nothing() {
    join_and_leave(On::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn joining_and_leaving_owners_double_nothing_on_mariadb() {
    join_and_leave(On::Mariadb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn joining_and_leaving_owners_double_nothing_on_sqlite() {
    join_and_leave(On::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_owner_is_followed_in_order_and_in_time() {
    one_is_killed(On::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_owner_is_followed_in_order_and_in_time_on_mariadb() {
    one_is_killed(On::Mariadb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_owner_is_followed_in_order_and_in_time_on_sqlite() {
    one_is_killed(On::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_stops_past_its_lease_inverts_nothing() {
    one_stops(On::Postgres).await;
}

/// SQLite is left out: who is stopped while it writes would keep the file locked for all.
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_stops_past_its_lease_inverts_nothing_on_mariadb() {
    one_stops(On::Mariadb).await;
}
