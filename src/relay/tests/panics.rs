//! Panics of third-party code, at each place that calls it: the neighbours are settled, the row itself is sent or
//! retried, nothing stays in flight, and no key of a lane is stuck.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use super::lanes::{self, TOPIC};
use super::{World, envelope};
use crate::message::Envelope;
use crate::relay::Relay;
use crate::retry::RetryPolicy;
use crate::store::{Call, Failed, Fault, Held, InsertOptions, RowKey, Store as _};
use crate::topic::{OnFailedKey, Topic};
use crate::transport::{
    FailureClass, MemoryTransport, Outcome, OutcomeSender, ScriptedResponse, Transport, TransportError,
};

/// A common way to write it. Panics from 64 failures on, because a `Duration` has 64 bits of seconds.
#[derive(Debug)]
struct Doubling;

impl RetryPolicy for Doubling {
    fn wait(&self, failures: u32) -> Duration {
        Duration::from_secs_f64(2_f64.powi(i32::try_from(failures).unwrap_or(i32::MAX)))
    }
}

impl World {
    /// Commits a row that has already failed this often.
    async fn commit_failed(&self, topic: &str, failures: i32) -> RowKey {
        let key = self.commit_leased(topic, Duration::from_secs(3_600));
        for epoch in 0..failures {
            let (held, wait, class, error) = (Held { key, epoch }, Duration::ZERO, "temporary", String::new());
            let failed = Failed { held, wait, spends_attempt: false, class, error };
            assert_eq!(self.store.fail(&[failed]).await.unwrap(), [key]);
        }
        key
    }

    /// Makes the first send of each message fail.
    fn fail_each_once(&self, class: FailureClass) {
        let mut seen = std::collections::HashSet::new();
        self.broker.respond_when(ScriptedResponse::Fail(class), move |sent| seen.insert(sent.message_id));
    }

    /// Waits until everything is settled and nothing is in hand.
    async fn settled(&self, relay: &Relay) {
        self.drained().await;
        self.until("nothing is in flight", || relay.status().in_flight == 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_panics_at_the_64th_failure_keeps_no_neighbour() {
    for class in [FailureClass::Record, FailureClass::Temporary] {
        let mut world = World::new();
        world.topics = vec![Topic::new("orders").retry(Doubling), Topic::new("invoices")];
        let old = world.commit_failed("orders", 63).await;
        world.fail_each_once(class);
        for _ in 0..10 {
            world.commit("invoices");
        }
        let relay = world.start().await;
        world.until("all but the old one are delivered", || world.broker.delivered_to("invoices").len() == 10).await;
        world
            .until("its failure is noted", || {
                let rows = world.store.live_rows();
                rows.iter().all(|row| row.key == old && row.failures == 64)
            })
            .await;
        tokio::time::sleep(Duration::from_secs(1_000)).await;
        assert_eq!(world.broker.delivered_to("orders").len(), 1, "it waits as the default policy says: {class:?}");
        world.settled(&relay).await;
    }
}

/// Nobody else sends a key of this lane.
#[tokio::test(start_paused = true)]
async fn a_policy_that_panics_leaves_no_key_of_a_lane_stuck() {
    for on_failed in [OnFailedKey::DeadLetter, OnFailedKey::BlockKey] {
        #[derive(Debug)]
        struct Panics;
        impl RetryPolicy for Panics {
            fn wait(&self, _failures: u32) -> Duration {
                panic!("a bug in the policy")
            }
        }
        let mut world = World::new();
        world.topics.push(Topic::new(TOPIC).ordered_by_key().retry(Panics).on_failed_key(on_failed));
        world.fail_each_once(FailureClass::Temporary);
        let rows: Vec<_> = ["a", "a", "b", "c"].map(|key| world.commit_keyed(key).message_id).into();
        let relay = world.start().await;
        world.settled(&relay).await;
        assert_eq!(world.first_appearances()["a"], rows[..2], "in their order");
    }
}

/// Each call of the store that concerns rows: by the hook, by a claim, and through a lane.
#[tokio::test(start_paused = true)]
async fn a_store_that_panics_keeps_no_row() {
    let calls = [
        (Call::Confirm, 1),
        (Call::Claim, 1),
        (Call::Close, 1),
        (Call::Settle, 1),
        (Call::Settle, 12),
        (Call::Fail, 1),
        (Call::Fail, 12),
        (Call::DeadLetter, 1),
        (Call::Poll, 1),
        (Call::LaneEntries, 1),
        (Call::LaneRows, 1),
        (Call::FailInLanes, 1),
        (Call::FailInLanes, 12),
        (Call::DeadLetterFromLanes, 1),
        (Call::BalanceLanes, 1),
        (Call::ReadLanes, 1),
    ];
    for (call, times) in calls {
        let world = lanes::world_with(Topic::new(TOPIC).ordered_by_key().on_failed_key(OnFailedKey::DeadLetter));
        world.broker.set_latency(Duration::from_millis(5));
        let relay = world.start().await;
        world.delivered_once_each(&relay).await;
        let refused = world.store.insert(odd("orders", "refused"), InsertOptions::default());
        let poisoned = ["orders", TOPIC].map(|topic| world.commit_in(topic, "p"));
        assert!(poisoned.iter().all(|key| world.store.poison(*key)));
        let before = world.store.calls(call);
        for _ in 0..times {
            world.store.inject(call, Fault::Panics);
        }
        world.broker.respond_when(ScriptedResponse::Fail(FailureClass::RecordRefused), |sent| sent.kind == "refused");
        world.fail_each_once(FailureClass::Temporary);
        for key in ["a", "b", "p", "a"] {
            world.commit("orders");
            world.commit_and_hand_over("orders");
            world.commit_in(TOPIC, key);
        }
        world.until(&format!("{call:?} has panicked"), || world.store.calls(call) > before).await;
        world.settled(&relay).await;
        let dead: Vec<_> = world.store.dead_letter_rows().iter().map(|row| row.key).collect();
        assert!(dead.contains(&refused) && poisoned.iter().all(|key| dead.contains(key)), "{call:?}: {dead:?}");
        assert_eq!(dead.len(), 3, "{call:?}");
    }
}

fn odd(topic: &str, kind: &str) -> Envelope {
    let mut envelope = envelope(topic);
    envelope.kind = kind.to_owned();
    envelope
}

impl World {
    fn commit_in(&self, topic: &str, key: &str) -> RowKey {
        if topic == TOPIC { self.commit_keyed(key) } else { self.commit(topic) }
    }

    /// Sends a first message on each path, so that what follows meets a running relay.
    async fn delivered_once_each(&self, relay: &Relay) {
        self.commit("orders");
        self.commit_keyed("first");
        self.settled(relay).await;
    }
}

/// A transport that panics at every message of a kind, or returns errors that panic when they are read.
#[derive(Debug)]
struct Defective {
    broker: MemoryTransport,
    outage_panics: bool,
}

/// An error whose text cannot be read.
#[derive(Debug)]
struct Unreadable;

impl fmt::Display for Unreadable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("a bug in the error")
    }
}

impl std::error::Error for Unreadable {}

#[async_trait]
impl Transport for Defective {
    fn delivery_timeout(&self) -> Duration {
        self.broker.delivery_timeout()
    }

    async fn prepare(&self, topics: &[Topic]) -> Result<(), TransportError> {
        self.broker.prepare(topics).await
    }

    fn send(&self, envelope: Envelope, sender: OutcomeSender) {
        match &*envelope.kind {
            "panics" => panic!("a bug in the transport"),
            "unreadable" => sender.complete(Outcome::Failed(TransportError::new(FailureClass::Record, Unreadable))),
            "unreadable topic" => {
                sender.complete(Outcome::Failed(TransportError::new(FailureClass::Topic, Unreadable)))
            }
            _ => self.broker.send(envelope, sender),
        }
    }

    async fn probe(&self) -> Result<(), TransportError> {
        self.broker.probe().await
    }

    fn outage(&self) -> Option<FailureClass> {
        assert!(!self.outage_panics, "a bug in the transport");
        None
    }

    async fn flush(&self, within: Duration) -> usize {
        self.broker.flush(within).await
    }
}

/// One message at which the transport panics each time, or whose error panics when it is read.
#[tokio::test(start_paused = true)]
async fn a_message_at_which_the_transport_panics_keeps_no_neighbour() {
    for kind in ["panics", "unreadable"] {
        let world = lanes::world();
        let transport = Defective { broker: world.broker.clone(), outage_panics: false };
        let bad = world.store.insert(odd("orders", kind), InsertOptions::default());
        let mut keyed = odd(TOPIC, kind);
        keyed.key = Some("bad".to_owned());
        let lane = crate::lane::lane_of("bad", crate::limits::LANES);
        let bad_in_lane = world.store.insert(keyed, InsertOptions::default().in_lane(lane));
        let relay = world.relay().transport(transport).start().await.unwrap();
        for round in 0..20 {
            world.commit("orders");
            world.commit_and_hand_over("invoices");
            world.commit_keyed(&round.to_string());
        }
        let left = || world.store.live_rows().iter().map(|row| row.key).collect::<Vec<_>>();
        world.until(&format!("{kind}: only the bad ones are left"), || left() == [bad, bad_in_lane]).await;
        assert_eq!(world.broker.delivered().len(), 60, "{kind}");
        // Retried again and again, they delay nothing that comes later.
        tokio::time::sleep(Duration::from_secs(60)).await;
        world.commit_and_hand_over("orders");
        world.commit_keyed("late");
        world.until("what came later is gone", || left() == [bad, bad_in_lane]).await;
        world.until("the bad ones are given back", || relay.status().in_flight == 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_is_refused_by_an_unreadable_error_waits_and_slows_no_other() {
    let world = lanes::world();
    let transport = Defective { broker: world.broker.clone(), outage_panics: false };
    world.store.insert(odd("orders", "unreadable topic"), InsertOptions::default());
    let relay = world.relay().transport(transport).start().await.unwrap();
    for _ in 0..20 {
        world.commit_and_hand_over("invoices");
    }
    world.until("only the refused one is left", || world.store.live_rows().len() == 1).await;
    world.until("it is given back", || relay.status().in_flight == 0).await;
    assert_eq!(relay.status().refused_topics.len(), 1);
}

/// Leases are extended anyway, also if the question panics the first time.
#[tokio::test(start_paused = true)]
async fn a_panic_in_the_check_for_an_outage_loses_no_lease() {
    let world = World::new();
    let transport = Defective { broker: world.broker.clone(), outage_panics: true };
    world.broker.set_latency(Duration::from_secs(24));
    world.store.inject(Call::Extend, Fault::Panics);
    let relay = world.relay().transport(transport).start().await.unwrap();
    let key = world.commit_and_hand_over("orders");
    world.settled(&relay).await;
    assert_eq!(world.delivered(1).await, [key.message_id], "once");
    assert_eq!(world.broker.sends(), 1);
    assert!(world.store.calls(Call::Extend) > 1);
}
