//! Seeded schedules of everything that can happen to two relays on one table, and an audit at the end.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use tokio::time::sleep;

use super::{DEADLINE, World, envelope, handed_over, inline, seeds};
use crate::limits::STALENESS;
use crate::message::MessageId;
use crate::relay::Relay;
use crate::store::{Call, Fault, InsertOptions, MemoryStore, PendingRow, RowKey, StoreError};
use crate::transport::{FailureClass, ScriptedResponse};

const SEEDS: u64 = 1_000;
const STEPS: usize = 120;

/// Two nodes on one store and one broker, and what was committed so far.
struct Schedule {
    rng: Rng,
    nodes: Vec<World>,
    relays: Vec<Option<Relay>>,
    pending: Vec<(usize, PendingRow)>,
    committed: HashSet<MessageId>,
    rolled_back: HashSet<MessageId>,
    /// Whether both nodes run relays. A single node knows what it sent, so no fault of the database excuses a
    /// duplicate.
    two_relays: bool,
    /// Messages whose second copy is explained: their process died, or the broker stored them but reported a failure.
    excused: Arc<Mutex<HashSet<MessageId>>>,
    /// Whether claims, leases and settles may get lost. With two relays, an explained second copy then looks like an
    /// unexplained one; so in most schedules of two relays they do not.
    leases_fail: bool,
}

impl Schedule {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let store = if rng.bool() { MemoryStore::new() } else { MemoryStore::leasing() };
        let first = World::on(store.clone());
        let second = World { broker: first.broker.clone(), ..World::on(store) };
        Self {
            rng,
            nodes: vec![first, second],
            relays: vec![None, None],
            pending: Vec::new(),
            committed: HashSet::new(),
            rolled_back: HashSet::new(),
            two_relays: seed % 2 == 1,
            excused: Arc::default(),
            leases_fail: seed.is_multiple_of(2) || seed % 8 == 1,
        }
    }

    async fn step(&mut self) {
        let node = self.rng.usize(..2);
        match self.rng.u32(..100) {
            0..40 => self.commit(node),
            40..45 => self.roll_back(node),
            45..52 => self.begin(node),
            52..60 => self.end_one(),
            60..68 => self.let_sends_fail(),
            68..74 => self.let_a_call_fail(),
            74..77 => self.crash(node),
            77..79 => self.shut_down(node).await,
            79..83 => self.start(node).await,
            83..86 => self.outage(),
            86..88 => self.database_outage(),
            88..90 => self.hold(),
            _ => sleep(Duration::from_millis(self.rng.u64(..3_000))).await,
        }
        // Lets the relays run between the steps.
        sleep(Duration::from_millis(self.rng.u64(..20))).await;
    }

    fn topic(&mut self) -> &'static str {
        if self.rng.bool() { "orders" } else { "invoices" }
    }

    fn staleness(&self, node: usize) -> Duration {
        if self.nodes[node].link.now().is_some() { STALENESS } else { Duration::ZERO }
    }

    fn commit(&mut self, node: usize) {
        let count = if self.rng.u32(..10) == 0 { 200 } else { 1 };
        let topic = self.topic();
        let staleness = self.staleness(node);
        let mut refs = Vec::new();
        // Inline if the relay sees their COMMIT.
        let are_inline = self.rng.bool() && self.nodes[node].link.now().is_some();
        for _ in 0..count {
            let (world, message) = (&self.nodes[node], envelope(topic));
            let key = world.store.insert(message.clone(), InsertOptions::default().leased_for(staleness));
            self.committed.insert(key.message_id);
            refs.push(if are_inline { inline(key, message, world.now()) } else { handed_over(key, topic) });
        }
        // Now and then the hook does not see the commit.
        if self.rng.u32(..5) > 0 {
            self.nodes[node].link.hand_over(refs);
        }
    }

    fn insert(&mut self, node: usize) -> (PendingRow, RowKey) {
        let topic = self.topic();
        let options = InsertOptions::default().leased_for(self.staleness(node));
        let row = self.nodes[node].store.insert_uncommitted(envelope(topic), options);
        let key = row.key();
        if self.rng.bool() {
            self.nodes[node].hand_over(key, topic);
        }
        (row, key)
    }

    fn roll_back(&mut self, node: usize) {
        let (_row, key) = self.insert(node);
        self.rolled_back.insert(key.message_id);
    }

    fn begin(&mut self, node: usize) {
        let (row, _) = self.insert(node);
        self.pending.push((node, row));
    }

    fn end_one(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let chosen = self.rng.usize(..self.pending.len());
        let (node, row) = self.pending.swap_remove(chosen);
        let key = row.key();
        if self.rng.u32(..4) == 0 {
            self.rolled_back.insert(key.message_id);
            return;
        }
        row.commit();
        self.committed.insert(key.message_id);
        self.nodes[node].hand_over(key, "orders");
    }

    fn let_sends_fail(&mut self) {
        let class = match self.rng.u32(..5) {
            0 => FailureClass::Record,
            1 => FailureClass::RecordRefused,
            2 => FailureClass::Topic,
            3 => FailureClass::Connection,
            _ => FailureClass::Temporary,
        };
        let count = self.rng.usize(1..4);
        let broker = &self.nodes[0].broker;
        match self.rng.u32(..4) {
            0 => broker.respond_next(count, ScriptedResponse::Busy),
            1 => self.lose_responses(count),
            _ => broker.respond_next(count, ScriptedResponse::Fail(class)),
        }
    }

    fn lose_responses(&self, mut count: usize) {
        let excused = Arc::clone(&self.excused);
        self.nodes[0].broker.respond_when(ScriptedResponse::StoreThenFail(FailureClass::Temporary), move |sent| {
            let applies = count > 0;
            if applies {
                count -= 1;
                excused.lock().unwrap().insert(sent.message_id);
            }
            applies
        });
    }

    fn excuse_live_rows(&self) {
        let live = self.nodes[0].store.live_rows().into_iter().map(|row| row.key.message_id);
        self.excused.lock().unwrap().extend(live);
    }

    fn let_a_call_fail(&mut self) {
        let call = match self.rng.u32(..8) {
            0 if self.leases_fail => Call::Close,
            1 if self.leases_fail => Call::Settle,
            2 if self.leases_fail => Call::Extend,
            3 => Call::Claim,
            4 => Call::Fail,
            5 => Call::DeadLetter,
            6 => Call::Poll,
            _ => Call::Confirm,
        };
        let error = match self.rng.u32(..3) {
            0 => StoreError::Conflict("scheduled".into()),
            // A relay whose first poll is refused does not start.
            1 if !matches!(call, Call::Poll) => StoreError::Statement("scheduled".into()),
            _ => StoreError::TimedOut { after: Duration::from_secs(5) },
        };
        let fault = if self.rng.bool() { Fault::Refused(error) } else { Fault::ResponseLost(error) };
        self.nodes[0].store.inject(call, fault);
    }

    fn crash(&mut self, node: usize) {
        if self.relays[node].take().is_some() {
            self.excuse_live_rows();
        }
    }

    async fn shut_down(&mut self, node: usize) {
        if let Some(relay) = self.relays[node].take() {
            let report = relay.shutdown(Duration::from_secs(2)).await;
            if !report.is_clean() {
                self.excuse_live_rows();
            }
        }
    }

    async fn start(&mut self, node: usize) {
        if self.relays[node].is_none() && (node == 0 || self.two_relays) {
            self.relays[node] = Some(self.nodes[node].start().await);
        }
    }

    fn outage(&mut self) {
        if self.rng.bool() { self.nodes[0].broker.go_down() } else { self.nodes[0].broker.go_up() }
    }

    fn database_outage(&mut self) {
        let down = self.rng.bool();
        self.nodes[0].store.set_down(down && self.leases_fail);
    }

    fn hold(&mut self) {
        if self.rng.bool() { self.nodes[0].broker.hold() } else { self.nodes[0].broker.release() }
    }

    /// Ends all faults, waits until the table is empty, and compares.
    async fn audit(mut self, seed: u64) {
        self.nodes[0].store.set_down(false);
        self.nodes[0].broker.go_up();
        self.nodes[0].broker.clear_responses();
        self.nodes[0].broker.release();
        self.start(0).await;
        for (_, row) in self.pending.drain(..) {
            self.rolled_back.insert(row.key().message_id);
        }
        let store = self.nodes[0].store.clone();
        let mut waited = Duration::ZERO;
        while !store.live_rows().is_empty() {
            assert!(waited < 4 * DEADLINE, "seed {seed}: left behind: {:?}", store.live_rows());
            sleep(Duration::from_millis(100)).await;
            waited += Duration::from_millis(100);
        }
        let mut copies: HashMap<MessageId, usize> = HashMap::new();
        for envelope in self.nodes[0].broker.delivered() {
            *copies.entry(envelope.message_id).or_default() += 1;
        }
        let dead: HashSet<_> = store.dead_letter_rows().iter().map(|row| row.key.message_id).collect();
        for id in &self.committed {
            assert!(copies.contains_key(id) || dead.contains(id), "seed {seed}: lost {id}");
        }
        for id in copies.keys().chain(&dead) {
            assert!(self.committed.contains(id), "seed {seed}: never committed {id}");
            assert!(!self.rolled_back.contains(id), "seed {seed}: rolled back {id}");
        }
        let excused = self.excused.lock().unwrap();
        let all_excused = self.two_relays && self.leases_fail;
        for (id, copies) in copies {
            let explained = copies == 1 || all_excused || excused.contains(&id);
            assert!(explained, "seed {seed}: {id} came {copies} times without a reason");
        }
    }
}

async fn run(seed: u64) {
    let mut schedule = Schedule::new(seed);
    schedule.start(0).await;
    for _ in 0..STEPS {
        schedule.step().await;
    }
    schedule.audit(seed).await;
}

#[test]
fn nothing_is_lost_invented_or_doubled_without_a_reason() {
    seeds::each(SEEDS, run);
}
