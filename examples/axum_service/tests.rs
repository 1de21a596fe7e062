//! The tests of the service, without a broker: what was enqueued, and the service as a whole over HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use diesel_async::AsyncConnection as _;
use diesel_outbox::retry::Fixed;
use diesel_outbox::transport::{FailureClass, MemoryTransport, ScriptedResponse};
use diesel_outbox::{Outbox, TestOutbox, Topic};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::Failure;
use crate::client::request;
use crate::orders::{Db, OrderPlaced, PlaceError, TOPIC, make_tables, place};
use crate::service::{Service, exporter, outbox, serve};

const TIMEOUT: Duration = Duration::from_secs(30);

/// A database of the test's own, in a transaction that never commits.
async fn database() -> Result<(Db, Outbox, TestOutbox), Failure> {
    let mut conn = Db::establish(":memory:").await?;
    let outbox = outbox()?;
    make_tables(&mut conn).await?;
    outbox.migrate_async(&mut conn).await?;
    conn.begin_test_transaction().await?;
    let sent = outbox.testing();
    Ok((conn, outbox, sent))
}

#[tokio::test]
async fn an_order_enqueues_its_event() -> Result<(), Failure> {
    let (mut conn, outbox, sent) = database().await?;
    place(&mut conn, &outbox, &OrderPlaced { order_id: 42, total_cents: 1_999 }).await?;
    let placed = sent.assert_enqueued::<OrderPlaced>(|placed| placed.order_id == 42);
    assert_eq!(placed.total_cents, 1_999);
    assert_eq!(sent.take()[0].key.as_deref(), Some("42"), "what consumers partition by");
    Ok(())
}

#[tokio::test]
async fn an_order_that_is_refused_enqueues_nothing() -> Result<(), Failure> {
    let (mut conn, outbox, sent) = database().await?;
    let order = OrderPlaced { order_id: 42, total_cents: 1_999 };
    place(&mut conn, &outbox, &order).await?;
    sent.take();
    let again = place(&mut conn, &outbox, &order).await;
    assert!(matches!(again, Err(PlaceError::PlacedBefore(42))), "{again:?}");
    sent.assert_not_enqueued::<OrderPlaced>(|_| true);
    Ok(())
}

/// The service as a whole, with a broker in memory.
struct Running {
    address: SocketAddr,
    broker: MemoryTransport,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<diesel_outbox::relay::ShutdownReport, Failure>>,
    _folder: TempDir,
}

impl Running {
    async fn start(outbox: Outbox) -> Result<Self, Failure> {
        let (folder, broker) = (tempfile::tempdir()?, MemoryTransport::new());
        let database = folder.path().join("shop.db").to_string_lossy().into_owned();
        let metrics = exporter()?.build_recorder().handle();
        let (service, relay) = Service::start(&database, outbox, broker.clone(), metrics).await?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, (stop, stopped)) = (listener.local_addr()?, oneshot::channel());
        let served = tokio::spawn(serve(service, relay, listener, async move { drop(stopped.await) }));
        Ok(Self { address, broker, stop, served, _folder: folder })
    }

    async fn request(&self, method: &'static str, path: &str, body: &'static str) -> Result<(u16, String), Failure> {
        let (address, path) = (self.address, path.to_owned());
        spawn_blocking(move || request(address, method, &path, body)).await?
    }

    /// What `/readyz` says once something is down.
    async fn degraded(&self) -> Result<Value, Failure> {
        loop {
            let (_, health) = self.request("GET", "/readyz", "").await?;
            let health: Value = serde_json::from_str(&health)?;
            if health["degraded"] == true {
                return Ok(health);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn first_letter(&self) -> Result<Value, Failure> {
        loop {
            let (_, listed) = self.request("GET", "/admin/dead-letters", "").await?;
            let listed: Value = serde_json::from_str(&listed)?;
            if let Some(letter) = listed["letters"].get(0) {
                return Ok(letter.clone());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn end(self) -> Result<(), Failure> {
        let _ = self.stop.send(());
        let report = self.served.await??;
        assert!(report.is_clean(), "{report:?}");
        Ok(())
    }
}

#[tokio::test]
async fn an_order_by_http_reaches_the_broker() -> Result<(), Failure> {
    let service = Running::start(outbox()?).await?;
    let (status, body) = service.request("POST", "/orders", r#"{"order_id":42,"total_cents":1999}"#).await?;
    assert_eq!(status, 201, "{body}");
    let sent = service.broker.wait_for_delivered(1, TIMEOUT).await?;
    assert_eq!(sent[0].payload.as_deref(), Some(&br#"{"order_id":42,"total_cents":1999}"#[..]));
    assert_eq!(service.request("POST", "/orders", "no order").await?.0, 400);
    for path in ["/livez", "/readyz"] {
        let (status, health) = service.request("GET", path, "").await?;
        assert_eq!(status, 200, "{health}");
    }
    service.end().await
}

/// A broker that is down keeps nobody from placing orders.
#[tokio::test]
async fn an_outage_of_the_broker_is_no_outage_of_the_service() -> Result<(), Failure> {
    let service = Running::start(outbox()?).await?;
    service.broker.go_down();
    assert_eq!(service.request("POST", "/orders", r#"{"order_id":42,"total_cents":1999}"#).await?.0, 201);
    service.broker.wait_for_sends(1, TIMEOUT).await?;
    let degraded = tokio::time::timeout(TIMEOUT, service.degraded()).await??;
    assert_eq!((degraded["live"].as_bool(), degraded["ready"].as_bool()), (Some(true), Some(true)), "{degraded}");
    assert_eq!(service.request("GET", "/readyz", "").await?.0, 200);
    service.broker.go_up();
    service.broker.wait_for_delivered(1, TIMEOUT).await?;
    service.end().await
}

#[tokio::test]
async fn dead_letters_are_listed_and_sent_again() -> Result<(), Failure> {
    let topic = Topic::new(TOPIC).attempts_max(1).retry(Fixed::seconds(&[1]));
    let service = Running::start(Outbox::builder().topic(topic).message::<OrderPlaced>().build()?).await?;
    // One that is refused in company is tried once more alone.
    service.broker.respond_next(2, ScriptedResponse::Fail(FailureClass::Record));
    service.request("POST", "/orders", r#"{"order_id":42,"total_cents":1999}"#).await?;
    let letter = tokio::time::timeout(TIMEOUT, service.first_letter()).await??;
    assert_eq!((letter["key"].as_str(), letter["topic"].as_str()), (Some("42"), Some(TOPIC)), "{letter}");
    assert_eq!(letter["payload"].as_str(), Some(r#"{"order_id":42,"total_cents":1999}"#));
    service.broker.clear_responses();
    let path = format!("/admin/dead-letters/{}/redrive", letter["message_id"].as_str().unwrap_or_default());
    assert_eq!(service.request("POST", &path, "").await?.0, 204);
    service.broker.wait_for_delivered(1, TIMEOUT).await?;
    assert_eq!(service.request("POST", &path, "").await?.0, 404, "it is no dead letter any more");
    service.end().await
}
