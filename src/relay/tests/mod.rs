//! The engine on virtual time, with the memory store and transport.

mod backlog;
mod bounds;
mod claims;
mod counted;
mod dead_letter_callbacks;
mod delayed;
mod direct;
mod failures;
mod fenced;
mod fingerprints;
mod full_scan;
mod handles;
mod history;
mod lane_announced;
mod lane_counted;
mod lane_inline;
mod lane_leases;
mod lane_order;
mod lane_reads;
mod lane_schedules;
mod lane_switched;
mod lane_yields;
mod lanes;
mod lifecycle;
mod logged;
mod measured;
mod notices;
mod outages;
mod panics;
mod paths;
mod pauses;
mod refused;
mod requeue;
mod routes;
mod schedules;
pub(super) mod seeds;
mod several;
mod task_health;
mod timed;
mod times;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::direct::queue::{HandedOver, InlineRow, Link};
use super::{Relay, RelayBuilder};
use crate::clock::BootInstant;
use crate::limits::{Limits, STALENESS};
use crate::message::{Envelope, MessageId};
use crate::naming::TableNames;
use crate::retry::Fixed;
use crate::store::{InsertOptions, MemoryStore, Row, RowKey, RowRef};
use crate::topic::Topic;
use crate::transport::MemoryTransport;

/// How long any of these tests waits for a state, in virtual time.
const DEADLINE: Duration = Duration::from_secs(120);

/// An outbox in which only the engine is real.
struct World {
    store: MemoryStore,
    broker: MemoryTransport,
    link: Arc<Link>,
    limits: Limits,
    topics: Vec<Topic>,
}

impl World {
    fn new() -> Self {
        Self::on(MemoryStore::new())
    }

    fn on(store: MemoryStore) -> Self {
        let broker = MemoryTransport::new();
        broker.set_delivery_timeout(Duration::from_secs(25));
        let retry = Fixed::seconds(&[1]);
        let topics = vec![Topic::new("orders").retry(retry).attempts_max(3), Topic::new("invoices")];
        Self { store, broker, link: Arc::default(), limits: Limits::default(), topics }
    }

    fn relay(&self) -> RelayBuilder {
        RelayBuilder::new(self.topics.clone(), TableNames::default(), Arc::clone(&self.link))
            .store(self.store.clone())
            .transport(self.broker.clone())
            .limits(self.limits.clone())
    }

    async fn start(&self) -> Relay {
        self.relay().start().await.unwrap()
    }

    /// Commits a row that nobody hands over.
    fn commit(&self, topic: &str) -> RowKey {
        self.commit_leased(topic, Duration::ZERO)
    }

    fn commit_leased(&self, topic: &str, leased_for: Duration) -> RowKey {
        self.store.insert(envelope(topic), InsertOptions::default().leased_for(leased_for))
    }

    /// Commits a row and hands it over, as the hook does.
    fn commit_and_hand_over(&self, topic: &str) -> RowKey {
        let key = self.commit_leased(topic, STALENESS);
        self.hand_over(key, topic);
        key
    }

    fn hand_over(&self, key: RowKey, topic: &str) {
        self.link.hand_over(vec![handed_over(key, topic)]);
    }

    /// The relay's clock.
    fn now(&self) -> BootInstant {
        self.link.now().unwrap()
    }

    async fn delivered(&self, count: usize) -> Vec<MessageId> {
        let delivered = self.broker.wait_for_delivered(count, DEADLINE).await.unwrap();
        delivered.iter().map(|envelope| envelope.message_id).collect()
    }

    /// Waits until no live row is left.
    async fn drained(&self) {
        self.until("no row is left", || self.store.live_rows().is_empty()).await;
    }

    /// Like [`until`](Self::until), in real time.
    async fn until_really(&self, what: &str, state: impl Fn() -> bool) {
        let deadline = std::time::Instant::now() + DEADLINE;
        while !state() {
            assert!(std::time::Instant::now() < deadline, "timed out after {DEADLINE:?}: {what}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn until(&self, what: &str, state: impl Fn() -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !state() {
            assert!(Instant::now() < deadline, "timed out after {DEADLINE:?}: {what}");
            // Virtual time advances to the engine's next timer.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

fn envelope(topic: &str) -> Envelope {
    let mut envelope = Envelope::new(MessageId::new(), topic.into(), SystemTime::UNIX_EPOCH);
    envelope.payload = Some(b"payload".to_vec());
    envelope
}

fn handed_over(key: RowKey, topic: &str) -> HandedOver {
    HandedOver {
        row: RowRef { id: Some(key.id), message_id: key.message_id },
        topic: topic.into(),
        staleness: STALENESS,
        bytes: 7,
        lane: None,
        due_at: None,
        inline: None,
    }
}

fn inline(key: RowKey, envelope: Envelope, inserted_at: BootInstant) -> HandedOver {
    let topic = envelope.topic.to_string();
    let row = Row { key, epoch: 0, failures: 0, is_suspect: false, envelope };
    HandedOver {
        inline: Some(Box::new(InlineRow { row, inserted_at, announced_at: None })),
        ..handed_over(key, &topic)
    }
}
