//! Seeded schedules of everything that can happen to two owners of an ordered topic, and an audit of each key's order.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use fastrand::Rng;
use tokio::time::sleep;

use super::lane_announced::Announced;
use super::lanes::{TOPIC, world_with};
use super::{DEADLINE, World, seeds};
use crate::message::MessageId;
use crate::relay::Relay;
use crate::relay::direct::queue::HandedOver;
use crate::store::{Call, Fault, StoreError};
use crate::topic::{OnFailedKey, Topic};
use crate::transport::{FailureClass, LaneName, ScriptedResponse, Transport as _};

const SEEDS: u64 = 200;
const STEPS: usize = 100;
const KEYS: u32 = 12;

struct Schedule {
    rng: Rng,
    nodes: Vec<World>,
    relays: Vec<Option<Relay>>,
    /// By key, in the order of the commits.
    committed: HashMap<String, Vec<MessageId>>,
    /// Whether nothing ever fails: relays only start and stop, and nothing is sent twice.
    is_healthy: bool,
    goes_on: bool,
    is_fenced: bool,
    /// Committed, but their hooks have not reported them yet.
    held_up: Vec<(usize, HandedOver)>,
    /// Announced and not committed. Each holds the lock of its key, so that its place in the key's order is known.
    announced: Vec<(usize, String, Announced)>,
}

impl Schedule {
    fn new(seed: u64, is_fenced: bool) -> Self {
        let goes_on = seed % 4 == 1;
        let policy = if goes_on { OnFailedKey::DeadLetter } else { OnFailedKey::BlockKey };
        let topic = Topic::new(TOPIC).ordered_by_key().on_failed_key(policy);
        let first = world_with(if is_fenced { topic.fenced() } else { topic });
        first.broker.set_latency(Duration::from_millis(2));
        let second = first.neighbour();
        Self {
            rng: Rng::with_seed(seed),
            nodes: vec![first, second],
            relays: vec![None, None],
            committed: HashMap::new(),
            is_healthy: seed.is_multiple_of(3),
            goes_on,
            is_fenced,
            held_up: Vec::new(),
            announced: Vec::new(),
        }
    }

    async fn step(&mut self) {
        let node = self.rng.usize(..2);
        match self.rng.u32(..100) {
            0..30 => self.commit(node),
            30..36 => self.announce(node),
            36..40 => self.end_announced(),
            40..45 => self.hand_over_late(),
            45..49 => self.shut_down(node).await,
            49..55 => self.start(node).await,
            55..62 => sleep(Duration::from_millis(self.rng.u64(..3_000))).await,
            62..64 => sleep(Duration::from_secs(self.rng.u64(..70))).await,
            64..100 if self.is_healthy => {}
            64..74 => self.let_sends_fail(),
            74..86 => self.let_a_call_fail(),
            86..89 => drop(self.relays[node].take()),
            89..93 => self.outage(),
            93..96 => {
                let down = self.rng.bool();
                self.nodes[0].store.set_down(down);
            }
            96..98 if self.is_fenced => self.fence_out().await,
            _ => self.hold(),
        }
        sleep(Duration::from_millis(self.rng.u64(..20))).await;
    }

    fn commit(&mut self, node: usize) {
        let count = if self.rng.u32(..10) == 0 { 150 } else { 1 };
        for _ in 0..count {
            let Some(key) = self.free_key() else { continue };
            let row = self.commit_one(node, &key);
            self.committed.entry(key).or_default().push(row);
        }
    }

    /// A key that no open transaction holds.
    fn free_key(&mut self) -> Option<String> {
        let key = self.rng.u32(..KEYS).to_string();
        self.announced.iter().all(|(_, held, _)| *held != key).then_some(key)
    }

    /// Brings a transaction to its COMMIT.
    fn announce(&mut self, node: usize) {
        if let Some(key) = self.free_key()
            && let Some(announced) = self.nodes[node].announce(&key)
        {
            self.announced.push((node, key, announced));
        }
    }

    /// Ends one of those.
    fn end_announced(&mut self) {
        if self.announced.is_empty() {
            return;
        }
        let (node, key, announced) = self.announced.swap_remove(self.rng.usize(..self.announced.len()));
        if self.rng.u32(..5) == 0 {
            return;
        }
        let row = announced.commit();
        self.committed.entry(key).or_default().push(row.row.message_id);
        match self.rng.u32(..5) {
            0 => self.held_up.push((node, row)),
            _ => self.nodes[node].link.hand_over(vec![row]),
        }
    }

    fn commit_one(&mut self, node: usize, key: &str) -> MessageId {
        let world = &self.nodes[node];
        if let Some(inserted_at) = world.link.now().filter(|_| self.rng.bool()) {
            let row = world.commit_inline(key, inserted_at);
            let id = row.row.message_id;
            match self.rng.u32(..5) {
                0 => self.held_up.push((node, row)),
                _ => world.link.hand_over(vec![row]),
            }
            return id;
        }
        let row = world.commit_keyed(key);
        // Now and then the hook does not see the commit.
        if self.rng.u32(..5) > 0 {
            world.hand_over_keyed(row, key, self.rng.bool());
        }
        row.message_id
    }

    /// A delayed hook reports.
    fn hand_over_late(&mut self) {
        if !self.held_up.is_empty() {
            let (node, row) = self.held_up.swap_remove(self.rng.usize(..self.held_up.len()));
            self.nodes[node].link.hand_over(vec![row]);
        }
    }

    fn let_sends_fail(&mut self) {
        let class = match self.rng.u32(..8) {
            0 => FailureClass::Record,
            1 => FailureClass::RecordRefused,
            2 => FailureClass::Topic,
            3 => FailureClass::Connection,
            _ => FailureClass::Temporary,
        };
        let count = self.rng.usize(1..4);
        let response = match self.rng.u32(..4) {
            0 => ScriptedResponse::Busy,
            1 => ScriptedResponse::StoreThenFail(FailureClass::Temporary),
            _ => ScriptedResponse::Fail(class),
        };
        self.nodes[0].broker.respond_next(count, response);
    }

    fn let_a_call_fail(&mut self) {
        let call = match self.rng.u32(..7) {
            0 => Call::ReadLanes,
            1 => Call::BalanceLanes,
            2 => Call::LaneEntries,
            3 => Call::LaneRows,
            4 => Call::FailInLanes,
            5 => Call::DeadLetterFromLanes,
            _ => Call::Settle,
        };
        let error = match self.rng.u32(..3) {
            0 => StoreError::Conflict("scheduled".into()),
            1 => StoreError::Statement("scheduled".into()),
            _ => StoreError::TimedOut { after: Duration::from_secs(5) },
        };
        let fault = if self.rng.bool() { Fault::Refused(error) } else { Fault::ResponseLost(error) };
        self.nodes[0].store.inject(call, fault);
    }

    async fn shut_down(&mut self, node: usize) {
        if let Some(relay) = self.relays[node].take() {
            let report = relay.shutdown(Duration::from_secs(60)).await;
            assert!(report.is_clean() || !self.is_healthy, "{report:?}");
        }
    }

    async fn start(&mut self, node: usize) {
        if self.relays[node].is_none() {
            self.relays[node] = Some(self.nodes[node].start().await);
        }
    }

    fn outage(&mut self) {
        if self.rng.bool() { self.nodes[0].broker.go_down() } else { self.nodes[0].broker.go_up() }
    }

    fn hold(&mut self) {
        if self.rng.bool() { self.nodes[0].broker.hold() } else { self.nodes[0].broker.release() }
    }

    /// Somebody fences a lane that they do not own.
    async fn fence_out(&mut self) {
        let lane = self.rng.u16(..crate::limits::LANES);
        let name = LaneName { outbox: "outbox_messages".into(), topic: TOPIC.into(), lane };
        // In an outage it cannot.
        let _ = self.nodes[0].broker.fence(name).await;
    }

    /// Ends all faults, waits until the table is empty, and compares.
    async fn audit(mut self, seed: u64) {
        let (store, broker) = (self.nodes[0].store.clone(), self.nodes[0].broker.clone());
        while !self.announced.is_empty() {
            self.end_announced();
        }
        store.set_down(false);
        broker.go_up();
        broker.clear_responses();
        broker.release();
        self.start(0).await;
        let mut waited = Duration::ZERO;
        while !store.live_rows().is_empty() {
            assert!(waited < 4 * DEADLINE, "seed {seed}: left behind: {:?}", store.live_rows());
            sleep(Duration::from_millis(100)).await;
            waited += Duration::from_millis(100);
        }
        let dead: HashSet<MessageId> = store.dead_letter_rows().iter().map(|row| row.key.message_id).collect();
        assert!(dead.is_empty() || self.goes_on, "seed {seed}: dead letters of a topic that holds its keys");
        let appeared = self.nodes[0].first_appearances();
        for (key, committed) in &self.committed {
            let appeared = appeared.get(key).cloned().unwrap_or_default();
            let expected: Vec<MessageId> =
                committed.iter().filter(|id| appeared.contains(id) || !dead.contains(id)).copied().collect();
            assert_eq!(appeared, expected, "seed {seed}: key {key} lost something, or its order");
        }
        if self.is_healthy {
            let committed: usize = self.committed.values().map(Vec::len).sum();
            assert_eq!(broker.delivered().len(), committed, "seed {seed}: sent twice without a reason");
        }
    }
}

async fn run(seed: u64, is_fenced: bool) {
    let mut schedule = Schedule::new(seed, is_fenced);
    schedule.start(0).await;
    for _ in 0..STEPS {
        schedule.step().await;
    }
    schedule.audit(seed).await;
}

#[test]
fn no_key_loses_a_message_or_its_order() {
    seeds::each(SEEDS, |seed| run(seed, false));
}

#[test]
fn no_key_of_a_fenced_topic_loses_a_message_or_its_order() {
    seeds::each(SEEDS, |seed| run(seed, true));
}
