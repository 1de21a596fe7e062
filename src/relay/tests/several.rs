//! Relays of several databases in one process.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep};

use super::World;
use crate::limits::Limits;
use crate::message::Envelope;
use crate::naming::TableNames;
use crate::relay::{RelayBuilder, Relays, RelaysBuilder, StartError};
use crate::topic::Topic;
use crate::transport::{MemoryTransport, OutcomeSender, Transport, TransportError};

fn worlds() -> [World; 2] {
    let north = World::new();
    let mut south = World::new();
    south.broker = north.broker.clone();
    [north, south]
}

/// Without a transport of its own.
fn relay(world: &World) -> RelayBuilder {
    RelayBuilder::new(world.topics.clone(), TableNames::default(), world.link.clone())
        .store(world.store.clone())
        .limits(world.limits.clone())
}

pub(super) fn both(north: &World, south: &World) -> RelaysBuilder {
    Relays::builder().transport(north.broker.clone()).relay("north", relay(north)).relay("south", relay(south))
}

#[tokio::test(start_paused = true)]
async fn each_hands_over_to_its_own_and_both_send_to_one_broker() {
    let [north, south] = worlds();
    let relays = both(&north, &south).start().await.unwrap();
    let rows = [north.commit_and_hand_over("orders"), south.commit_and_hand_over("orders"), south.commit("invoices")];
    let sent = north.delivered(3).await;
    assert!(rows.iter().all(|row| sent.contains(&row.message_id)));
    north.drained().await;
    south.drained().await;
    assert!(relays.flush(Duration::from_secs(1)).await.is_settled());
    assert_eq!(relays.status().len(), 2);
    assert_eq!(relays.get("south").map(|relay| relay.status().in_flight), Some(0));
    assert!(relays.get("east").is_none());
    let reports = relays.shutdown(Duration::from_secs(10)).await;
    let names: Vec<_> = reports.iter().map(|(name, report)| (&**name, report.is_clean())).collect();
    assert_eq!(names, [("north", true), ("south", true)]);
}

#[tokio::test(start_paused = true)]
async fn a_database_that_is_down_keeps_nothing_of_the_others_waiting() {
    let [north, south] = worlds();
    north.store.set_down(true);
    let relays = both(&north, &south).start().await.unwrap();
    let waits = north.commit("orders");
    for _ in 0..20 {
        let row = south.commit_and_hand_over("orders");
        let began = Instant::now();
        south.drained().await;
        assert!(began.elapsed() < south.limits.poll_interval, "{row:?} took {:?}", began.elapsed());
    }
    assert_eq!(north.broker.sends(), 20);
    north.store.set_down(false);
    assert!(north.delivered(21).await.contains(&waits.message_id));
    drop(relays);
}

#[tokio::test(start_paused = true)]
async fn they_share_the_limit_of_messages_in_flight() {
    let [mut north, mut south] = worlds();
    for world in [&mut north, &mut south] {
        world.limits = Limits { in_flight_max: 10, ..Limits::default() };
        for _ in 0..30 {
            world.commit("orders");
        }
    }
    north.broker.hold();
    let relays = both(&north, &south).start().await.unwrap();
    north.until("both send", || relays.status().iter().all(|(_, status)| status.in_flight > 0)).await;
    sleep(Duration::from_secs(5)).await;
    assert!(relays.status().iter().all(|(_, status)| status.in_flight <= 5), "{:?}", relays.status());
    north.broker.release();
    north.drained().await;
    south.drained().await;
}

/// Takes at most four messages at once.
#[derive(Debug)]
pub(super) struct Few(pub(super) MemoryTransport);

#[async_trait]
impl Transport for Few {
    fn delivery_timeout(&self) -> Duration {
        self.0.delivery_timeout()
    }

    async fn prepare(&self, topics: &[Topic]) -> Result<(), TransportError> {
        self.0.prepare(topics).await
    }

    fn send(&self, envelope: Envelope, sender: OutcomeSender) {
        self.0.send(envelope, sender);
    }

    async fn probe(&self) -> Result<(), TransportError> {
        self.0.probe().await
    }

    fn in_flight_max(&self) -> usize {
        4
    }

    async fn flush(&self, within: Duration) -> usize {
        self.0.flush(within).await
    }
}

/// Relays that share a transport also share its bound.
#[tokio::test(start_paused = true)]
async fn they_share_the_limit_of_the_transport() {
    let [north, south] = worlds();
    for world in [&north, &south] {
        for _ in 0..30 {
            world.commit("orders");
        }
    }
    north.broker.hold();
    let relays = both(&north, &south).transport(Few(north.broker.clone())).start().await.unwrap();
    north.until("both send", || relays.status().iter().all(|(_, status)| status.in_flight > 0)).await;
    sleep(Duration::from_secs(5)).await;
    assert!(relays.status().iter().all(|(_, status)| status.in_flight <= 2), "{:?}", relays.status());
    north.broker.release();
    north.drained().await;
    south.drained().await;
}

#[tokio::test(start_paused = true)]
async fn a_problem_of_one_relay_keeps_all_from_running() {
    let [north, mut south] = worlds();
    let start = async |relays: RelaysBuilder| relays.start().await.map(drop).unwrap_err();
    assert!(matches!(start(Relays::builder()).await, StartError::NoRelays));
    let twice = both(&north, &south).relay("north", relay(&south));
    assert!(matches!(start(twice).await, StartError::DuplicateRelay { relay } if &*relay == "north"));
    let unused = both(&north, &south).transport_named("hooks", MemoryTransport::new());
    let error = start(unused).await.to_string();
    assert!(error.contains("\"hooks\"") && error.contains("Topic::via"), "{error}");
    south.limits.claim_rows_max = 0;
    let error = start(both(&north, &south)).await;
    assert!(
        matches!(&error, StartError::Relay { error, .. } if matches!(**error, StartError::Limit { .. })),
        "{error}"
    );
    assert!(error.to_string().contains("\"south\""), "{error}");
    assert!(north.start().await.shutdown(Duration::ZERO).await.is_clean(), "the first relay has left nothing");
}

/// A relay gets only the transports that its topics name.
#[tokio::test(start_paused = true)]
async fn a_relay_gets_the_transports_that_its_topics_name() {
    let [north, mut south] = worlds();
    let hooks = MemoryTransport::new();
    south.topics.push(Topic::new("hooks").via("hooks"));
    let relays = both(&north, &south).transport_named("hooks", hooks.clone()).start().await.unwrap();
    south.commit_and_hand_over("hooks");
    south.drained().await;
    assert_eq!((hooks.sends(), north.broker.sends()), (1, 0));
    assert!(relays.get("north").is_some_and(|relay| relay.status().transport_named("hooks").is_none()));
}
