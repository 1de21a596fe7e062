//! A process that relays an ordered topic until it is told to end, or dies or stops at a step.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use diesel_outbox::relay::Relay;
use diesel_outbox::retry::Fixed;
use diesel_outbox::transport::Transport;
use diesel_outbox::{OnFailedKey, Outbox, Topic};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::any_shop::Database;
use super::child::{ShopProcess, arm_failpoint, arm_failpoint_to_wait};
use super::faulty_transport::FaultyKafka;
use super::shop::{DEADLINE, Shop};

const CONFIG: &str = "OUTBOX_TEST_LANE_OWNER";
const LANES: u16 = 8;
pub(super) const LANE_LEASE: Duration = Duration::from_secs(3);

/// What an owner does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Script {
    pub(super) on: Database,
    pub(super) database_url: String,
    pub(super) bootstrap: String,
    pub(super) topic: String,
    pub(super) sends: Sends,
    /// The folder with its instructions. Known when it is spawned.
    pub(super) folder: PathBuf,
    /// Orders placed before its relay starts.
    pub(super) backlog: Range<i32>,
    /// Orders placed while it owns all lanes.
    pub(super) orders: Range<i32>,
    /// The step at which it dies, or stops, and at which hit of it.
    pub(super) crash_at: Option<String>,
    pub(super) nth_hit: usize,
    pub(super) stops: bool,
    pub(super) refusals: usize,
    /// What is refused becomes a dead letter at once.
    pub(super) dead_letters_at_once: bool,
    pub(super) acknowledged_after_ms: u64,
    pub(super) ends: Ends,
}

/// How the topic's lanes send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Sends {
    Plain,
    Fenced,
    /// Fenced and exactly once.
    Once,
}

/// When an owner leaves its lanes to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ends {
    OnRequest,
    WhenDrained,
    /// As soon as its orders are placed.
    AtOnce,
}

impl Script {
    pub(super) fn new(on: Database, shop: &Shop, sends: Sends) -> Self {
        Self {
            on,
            database_url: shop.database_url.clone(),
            bootstrap: shop.bootstrap.clone(),
            topic: shop.topic.clone(),
            sends,
            folder: PathBuf::new(),
            backlog: 0..0,
            orders: 0..0,
            crash_at: None,
            nth_hit: 1,
            stops: false,
            refusals: 0,
            dead_letters_at_once: false,
            acknowledged_after_ms: 0,
            ends: Ends::OnRequest,
        }
    }

    pub(super) fn spawn(mut self) -> Owner {
        let folder = tempfile::tempdir().unwrap();
        self.folder = folder.path().to_owned();
        let test = "faults::owner::an_owner_ends_when_it_is_notified";
        Owner { process: ShopProcess::spawn(test, CONFIG, &self), folder }
    }
}

/// A running owner; killed when it is dropped.
pub(super) struct Owner {
    process: ShopProcess,
    folder: TempDir,
}

impl Owner {
    /// Tells it to end, and waits until it has.
    pub(super) async fn end_and_wait(&mut self) {
        std::fs::write(end_file(self.folder.path()), "").unwrap();
        assert!(self.process.wait_for_exit().await.success(), "it left something behind");
    }

    /// Waits until it was killed; says when that was.
    pub(super) async fn wait_until_killed(&mut self) -> Instant {
        self.process.wait_until_killed().await;
        Instant::now()
    }

    /// Waits until it has stopped itself.
    pub(super) async fn wait_until_stopped(&self) {
        self.process.wait_until_stopped().await;
    }

    /// Waits until it is where it is to be stopped.
    pub(super) async fn reached_step(&self) {
        let ready = ready_file(self.folder.path());
        until("the step is reached", || ready.exists()).await;
    }

    pub(super) fn stop(&self) {
        self.process.stop();
    }

    pub(super) fn resume(&self) {
        self.process.resume(&resume_file(self.folder.path()));
    }
}

fn end_file(folder: &Path) -> PathBuf {
    folder.join("end")
}

fn resume_file(folder: &Path) -> PathBuf {
    folder.join("go on")
}

fn ready_file(folder: &Path) -> PathBuf {
    folder.join("there")
}

/// The other process of these tests, where its environment says so; otherwise there is nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_ends_when_it_is_notified() {
    if let Ok(script) = std::env::var(CONFIG) {
        run(serde_json::from_str(&script).unwrap()).await;
    }
}

async fn run(script: Script) {
    let Script { on, database_url, bootstrap, topic, sends, folder, .. } = script;
    let shop = Shop { database_url, bootstrap, topic };
    let mut topic = topic_of(&shop, sends);
    if script.dead_letters_at_once {
        topic = topic.attempts_max(1).on_failed_key(OnFailedKey::DeadLetter);
    }
    let outbox = Outbox::builder().topic(topic).build().unwrap();
    place_all(&shop, &outbox, script.backlog).await;
    match script.crash_at {
        // By somebody who knows that it does not write just then.
        Some(step) if script.stops && on == Database::Sqlite => {
            arm_failpoint_to_wait(step, script.nth_hit, ready_file(&folder), resume_file(&folder));
        }
        Some(step) => arm_failpoint(step, script.nth_hit, script.stops.then(|| resume_file(&folder))),
        None => {}
    }
    let late = Duration::from_millis(script.acknowledged_after_ms);
    let relay = start(on, &shop, &outbox, FaultyKafka::new(shop.kafka(), script.refusals, late)).await;
    if !script.orders.is_empty() {
        until_all_owned(&relay).await;
    }
    place_all(&shop, &outbox, script.orders).await;
    match script.ends {
        Ends::OnRequest => {
            while !end_file(&folder).exists() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Ends::WhenDrained => shop.wait_until_drained().await,
        Ends::AtOnce => {}
    }
    let report = relay.shutdown(Duration::from_secs(20)).await;
    assert!(report.is_clean(), "{report:?}");
}

/// Those that place orders do so on PostgreSQL.
async fn place_all(shop: &Shop, outbox: &Outbox, orders: Range<i32>) {
    if !orders.is_empty() {
        shop.place_all(outbox, orders).await;
    }
}

pub(super) fn topic_of(shop: &Shop, sends: Sends) -> Topic {
    let topic = Topic::new(shop.topic.as_str())
        .ordered_by_key()
        .lanes(LANES)
        .retry(Fixed::from(vec![Duration::from_millis(100)]));
    match sends {
        Sends::Plain => topic,
        Sends::Fenced => topic.fenced(),
        Sends::Once => topic.fenced().exactly_once(),
    }
}

pub(super) async fn start(on: Database, shop: &Shop, outbox: &Outbox, transport: impl Transport) -> Relay {
    let limits = super::shop::limits().lane_lease_duration(LANE_LEASE);
    on.store(outbox.relay().transport(transport).limits(limits), shop).start().await.unwrap()
}

pub(super) async fn until(what: &str, state: impl Fn() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !state() {
        assert!(Instant::now() < end, "not within {DEADLINE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// How many lanes are its own, and how many others'.
fn owned(relay: &Relay) -> (usize, usize) {
    let status = relay.status();
    let owners = status.lanes.iter().filter_map(|lane| lane.owner);
    let own = owners.clone().filter(|owner| *owner == status.node).count();
    (own, owners.count() - own)
}

pub(super) async fn until_all_owned(relay: &Relay) {
    until("one owns all", || owned(relay) == (usize::from(LANES), 0)).await;
}

pub(super) async fn until_shared(relay: &Relay) {
    until("each of two owns a half", || owned(relay) == (4, 4)).await;
}
