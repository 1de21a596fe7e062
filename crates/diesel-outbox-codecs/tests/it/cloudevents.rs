//! CloudEvents by HTTP, and those of fenced lanes.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::Bytes;
use axum::http::HeaderMap;
use diesel_outbox::transport::{HttpTarget, HttpTransport, MemoryTransport, Transport};
use diesel_outbox::{Message, Outbox, Topic};
use diesel_outbox_codecs::cloudevents::cloud_events;

use crate::shop::{DEADLINE, Shop};

type Received = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

/// A receiver in a runtime of its own. Returns its URL.
fn receiver() -> (String, Received, tokio::runtime::Runtime) {
    let received = Received::default();
    let seen = Arc::clone(&received);
    let receive = move |headers: HeaderMap, body: Bytes| async move {
        seen.lock().expect("unpoisoned").push((headers, body));
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let listener =
        runtime.block_on(tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))).expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    runtime.spawn(async move { axum::serve(listener, Router::new().fallback(receive)).await.expect("serve") });
    (url, received, runtime)
}

#[test]
fn sqlite_sends_cloud_events_by_http_in_both_modes() -> Result<()> {
    let (url, received, _runtime) = receiver();
    let http = || HttpTransport::builder().topic("orders", HttpTarget::new(&url)).build();
    let shop = Shop::open(Outbox::builder().topic(Topic::new("orders")).build()?)?;
    let placed = Message::to("orders").kind("50% off").key("42").payload_bytes(r#"{"n":1}"#);
    shop.relay(cloud_events(http()?, "/shop"), |shop| shop.enqueue(&placed))?;
    shop.relay(cloud_events(http()?, "/shop").structured(), |shop| shop.enqueue(&placed))?;

    let received = received.lock().expect("unpoisoned");
    let [(binary, data), (structured, event)] = received.as_slice() else { anyhow::bail!("{received:?}") };
    let header =
        |headers: &HeaderMap, name: &str| headers.get(name).map(|value| value.to_str().expect("text").to_owned());
    assert_eq!(&data[..], br#"{"n":1}"#);
    assert_eq!(header(binary, "ce-id"), header(binary, "idempotency-key"));
    assert_eq!(header(binary, "ce-specversion").as_deref(), Some("1.0"));
    assert_eq!(header(binary, "ce-type").as_deref(), Some("50%25%20off"));
    assert_eq!(header(binary, "ce-source").as_deref(), Some("/shop"));
    assert_eq!(header(binary, "content-type").as_deref(), Some("application/json"));
    assert_eq!(header(structured, "content-type").as_deref(), Some("application/cloudevents+json; charset=utf-8"));
    let event: serde_json::Value = serde_json::from_slice(event)?;
    assert_eq!(event["id"].as_str(), header(structured, "idempotency-key").as_deref());
    assert_eq!((&event["type"], &event["data"]["n"]), (&"50% off".into(), &1.into()));
    Ok(())
}

#[test]
fn sqlite_sends_cloud_events_through_fenced_lanes() -> Result<()> {
    let shop = Shop::open(Outbox::builder().topic(Topic::new("orders").ordered_by_key().fenced()).build()?)?;
    let broker = MemoryTransport::new();
    let count = |number: i64| Message::to("orders").kind("counted").key("42").payload_bytes(number.to_string());
    let transport = cloud_events(broker.clone(), "/shop").structured();
    // A flush does not wait for rows whose lane has no owner yet.
    shop.relay(transport, |shop| {
        (0..3).try_for_each(|number| shop.enqueue(&count(number)))?;
        broker.wait_for_delivered_blocking(3, DEADLINE).map(drop).map_err(Into::into)
    })?;
    let sent = broker.delivered();
    let data = sent.iter().map(|envelope| {
        let event: serde_json::Value = serde_json::from_slice(envelope.payload.as_deref().context("an event")?)?;
        assert_eq!(event["id"], envelope.message_id.to_string());
        Ok(event["data"].as_i64())
    });
    assert_eq!(data.collect::<Result<Vec<_>>>()?, [Some(0), Some(1), Some(2)]);
    Ok(())
}

#[tokio::test]
async fn a_source_that_is_no_uri_reference_stops_the_start_in_memory() {
    for source in ["", "my shop", "shop\n"] {
        let transport = cloud_events(MemoryTransport::new(), source);
        let error = transport.prepare(&[]).await.expect_err("no URI reference");
        assert!(error.to_string().contains("no URI reference"), "{error}");
    }
    cloud_events(MemoryTransport::new(), "https://shop.example/a?b#c").prepare(&[]).await.expect("one");
}
