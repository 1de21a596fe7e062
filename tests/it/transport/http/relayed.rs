//! The whole way: a relay, its store, and a server that dies and comes back.

use std::collections::BTreeSet;
use std::time::Duration;

use diesel_outbox::internals::store::InsertOptions;
use diesel_outbox::relay::{Relay, TransportStatus};
use diesel_outbox::retry::Fixed;
use diesel_outbox::store::MemoryStore;
use diesel_outbox::transport::{HttpTarget, HttpTransport, HttpTransportBuilder, MemoryTransport};
use diesel_outbox::{Limits, MessageId, Outbox, Topic};
use tokio::time::timeout;

use super::{DEADLINE, Received, Receiver, Reply, envelope};

pub(super) async fn until(what: &str, state: impl Fn() -> bool) {
    let reached = async {
        while !state() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(DEADLINE, reached).await.is_ok(), "not in time: {what}");
}

pub(super) fn commit(store: &MemoryStore, count: usize) -> BTreeSet<MessageId> {
    let insert = |_| store.insert(envelope("webhooks"), InsertOptions::default()).message_id;
    (0..count).map(insert).collect()
}

/// A relay of "webhooks" to the receiver, and of "orders" to a memory broker.
pub(super) async fn relay(store: &MemoryStore, receiver: &Receiver) -> (Relay, MemoryTransport) {
    relay_of(store, Topic::new("webhooks").retry(Fixed::seconds(&[1])), to_http(receiver)).await
}

pub(super) fn to_http(receiver: &Receiver) -> HttpTransportBuilder {
    let target = HttpTarget::new(receiver.url("/"));
    HttpTransport::builder()
        .default_target(target)
        .timeout(Duration::from_secs(1))
        .queue_timeout(Duration::from_secs(1))
}

pub(super) async fn relay_of(
    store: &MemoryStore,
    webhooks: Topic,
    http: HttpTransportBuilder,
) -> (Relay, MemoryTransport) {
    let outbox = Outbox::builder().topic(Topic::new("orders")).topic(webhooks.via("http")).build().unwrap();
    let broker = MemoryTransport::new();
    broker.set_delivery_timeout(Duration::from_secs(1));
    // What was in flight when the receiver went waits for the end of its lease.
    let limits = Limits::default().lease_duration(Duration::from_secs(4));
    let relay = outbox.relay().store(store.clone()).limits(limits).transport(broker.clone());
    let relay = relay.transport_named("http", http.build().unwrap());
    (relay.start().await.unwrap(), broker)
}

fn is_down(relay: &Relay) -> bool {
    matches!(relay.status().transport_named("http").unwrap().status, TransportStatus::Down { .. })
}

pub(super) fn ids(receiver: &Receiver) -> BTreeSet<MessageId> {
    let received = receiver.received();
    received.iter().map(|request| request.header("idempotency-key").unwrap().parse().unwrap()).collect()
}

#[tokio::test]
async fn a_receiver_killed_and_restarted_under_load_gets_everything() {
    let (store, receiver) = (MemoryStore::new(), Receiver::start());
    let mut committed = commit(&store, 3_000);
    let (relay, broker) = relay(&store, &receiver).await;
    receiver.until_received(500).await;
    receiver.kill();
    until("the breaker is open", || is_down(&relay)).await;
    committed.extend(commit(&store, 500));
    // The other transport goes on meanwhile.
    store.insert(envelope("orders"), InsertOptions::default());
    broker.wait_for_delivered(1, DEADLINE).await.unwrap();
    let attempts = || store.live_rows().iter().map(|row| row.attempts).sum::<u32>();
    assert_eq!(attempts(), 0, "an outage spends no attempt");
    receiver.restart();
    until("everything is settled", || store.live_rows().is_empty()).await;
    assert_eq!(ids(&receiver), committed);
    assert!(!is_down(&relay));
    assert!(relay.shutdown(DEADLINE).await.is_clean());
}

/// A gateway whose application is gone is an outage as well, and costs one row for each look, not the whole backlog.
#[tokio::test]
async fn gateway_errors_are_an_outage() {
    let (store, receiver) = (MemoryStore::new(), Receiver::start());
    receiver.reply_by(|_| Some(Reply::Status(503)));
    let committed = commit(&store, 2_000);
    let (relay, _broker) = relay(&store, &receiver).await;
    until("the breaker is open", || is_down(&relay)).await;
    let written = store.live_rows().iter().filter(|row| row.failures > 0).count();
    assert!(written < 1_000, "{written} rows were written");
    receiver.reply_by(|_| None);
    until("everything is settled", || store.live_rows().is_empty()).await;
    assert_eq!(ids(&receiver), committed);
    assert!(relay.shutdown(DEADLINE).await.is_clean());
}

/// Receivers that check a signature on every request, or gateways that know no HEAD.
#[tokio::test]
async fn a_receiver_that_refuses_probes_recovers() {
    let refused = |received: &Received| (received.method == "HEAD").then_some(Reply::Status(403));
    let (store, receiver) = (MemoryStore::new(), Receiver::start());
    receiver.reply_by(refused);
    receiver.kill();
    let mut committed = commit(&store, 100);
    let (relay, _broker) = relay(&store, &receiver).await;
    until("the breaker is open", || is_down(&relay)).await;
    receiver.restart();
    until("everything is settled", || store.live_rows().is_empty()).await;
    // Messages are not let in either, until somebody has mended that: one of them tries now and then.
    receiver.reply_by(|_| Some(Reply::Status(401)));
    committed.extend(commit(&store, 100));
    until("the breaker is open again", || is_down(&relay)).await;
    assert!(store.live_rows().iter().all(|row| row.failures == 0), "an outage writes nothing");
    receiver.reply_by(refused);
    until("everything is settled again", || store.live_rows().is_empty()).await;
    assert_eq!(ids(&receiver), committed);
}

#[tokio::test]
async fn a_relay_starts_without_its_receiver() {
    let (store, receiver) = (MemoryStore::new(), Receiver::start());
    receiver.kill();
    let committed = commit(&store, 100);
    let (relay, _broker) = relay(&store, &receiver).await;
    until("the breaker is open", || is_down(&relay)).await;
    receiver.restart();
    until("everything is settled", || store.live_rows().is_empty()).await;
    assert_eq!(ids(&receiver), committed);
    assert!(store.dead_letter_rows().is_empty());
}

/// Each message is a request of its own: what is refused is judged at once, also beside one that hangs.
#[tokio::test]
async fn a_refused_message_delays_no_other() {
    let (store, receiver) = (MemoryStore::new(), Receiver::start());
    receiver.reply_next([Reply::Hang, Reply::Status(413)]);
    commit(&store, 1);
    let http = to_http(&receiver).refusal_retries(1, Fixed::seconds(&[1]));
    let (relay, _broker) = relay_of(&store, Topic::new("webhooks"), http).await;
    receiver.until_received(1).await;
    let refused = commit(&store, 1);
    until("the second is dead-lettered", || !store.dead_letter_rows().is_empty()).await;
    let dead = store.dead_letter_rows();
    assert!(dead[0].reason.ends_with("answered 413") && refused.contains(&dead[0].key.message_id), "{dead:?}");
    let id = dead[0].key.message_id.to_string();
    let requests = receiver.received();
    assert_eq!(requests.iter().filter(|request| request.header("idempotency-key") == Some(&id)).count(), 1);
    receiver.release();
    until("the first is settled", || store.live_rows().is_empty()).await;
    assert!(relay.shutdown(DEADLINE).await.is_clean());
}
