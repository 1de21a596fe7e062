//! The answers to probes.

use std::time::{Duration, SystemTime};

use diesel_outbox::internals::store::InsertOptions;
use diesel_outbox::relay::Relay;
use diesel_outbox::store::MemoryStore;
use diesel_outbox::transport::MemoryTransport;
use diesel_outbox::{Envelope, MessageId, Outbox, Topic};
use serde_json::Value;
use tokio::net::TcpListener;

use super::client::send;
use crate::HealthRoutes;

const TIMEOUT: Duration = Duration::from_secs(30);

async fn relay(store: &MemoryStore, broker: &MemoryTransport) -> Relay {
    let outbox = Outbox::builder().topic(Topic::new("orders")).build().expect("an outbox");
    let relay = outbox.relay().store(store.clone()).transport(broker.clone()).start();
    relay.await.expect("a relay")
}

/// The statuses of both routes, and the last body.
async fn probe(routes: HealthRoutes) -> (u16, u16, Value) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
    let address = listener.local_addr().expect("an address");
    let server = tokio::spawn(async move { axum::serve(listener, routes.router()).await });
    let live = send(address, "GET", "/livez", &[("host", "probe")], "").await;
    let ready = send(address, "GET", "/readyz", &[("host", "probe")], "").await;
    server.abort();
    (live.status, ready.status, serde_json::from_str(&ready.body).expect("JSON"))
}

#[tokio::test]
async fn a_relay_that_runs_is_live_and_ready() {
    let relay = relay(&MemoryStore::new(), &MemoryTransport::new()).await;
    let (live, ready, body) = probe(HealthRoutes::new(relay.handle()).strict()).await;
    assert_eq!((live, ready), (200, 200), "{body}");
    assert_eq!(body, serde_json::json!({"live": true, "ready": true, "degraded": false, "problems": []}));
    relay.shutdown(TIMEOUT).await;
}

#[tokio::test]
async fn a_broker_that_is_down_makes_only_the_strict_answer_unready() {
    let (store, broker) = (MemoryStore::new(), MemoryTransport::new());
    let relay = relay(&store, &broker).await;
    broker.go_down();
    store.insert(Envelope::new(MessageId::new(), "orders".into(), SystemTime::UNIX_EPOCH), InsertOptions::default());
    let degraded = async {
        while !relay.handle().health().degraded {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, degraded).await.expect("the send fails");
    let (live, ready, body) = probe(HealthRoutes::new(relay.handle())).await;
    assert_eq!((live, ready, &body["degraded"]), (200, 200, &Value::Bool(true)), "{body}");
    let (live, ready, body) = probe(HealthRoutes::new(relay.handle()).strict()).await;
    assert_eq!((live, ready), (200, 503), "{body}");
    assert!(body["problems"][0].as_str().is_some_and(|problem| !problem.is_empty()), "{body}");
    relay.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn one_relay_that_has_ended_is_enough() {
    let [first, second] = [
        relay(&MemoryStore::new(), &MemoryTransport::new()).await,
        relay(&MemoryStore::new(), &MemoryTransport::new()).await,
    ];
    let routes = HealthRoutes::new(first.handle()).relay(second.handle());
    second.shutdown(TIMEOUT).await;
    let (live, ready, body) = probe(routes).await;
    assert_eq!((live, ready, &body["live"]), (503, 503, &Value::Bool(false)), "{body}");
    first.shutdown(TIMEOUT).await;
}
