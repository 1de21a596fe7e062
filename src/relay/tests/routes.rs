//! Several transports in one relay: none of them affects the others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::{World, envelope, inline};
use crate::limits::{PREPARE_TIMEOUT, RETRY_AFTER_MAX, STALENESS};
use crate::message::Envelope;
use crate::relay::{RelayBuilder, StartError, TransportStatus};
use crate::retry::Fixed;
use crate::store::{LiveRow, MemoryStore};
use crate::topic::Topic;
use crate::transport::{FailureClass, MemoryTransport, Outcome, OutcomeSender, Transport, TransportError};

/// A memory transport with switches for a second transport's faults.
#[derive(Debug, Clone)]
struct Hooks {
    inner: MemoryTransport,
    in_flight_max: usize,
    prepared: Arc<Mutex<Vec<String>>>,
    /// Creating its topics never ends.
    hangs: Arc<AtomicBool>,
    /// The answer to the next message.
    refusal: Arc<Mutex<Option<TransportError>>>,
}

impl Hooks {
    fn new() -> Self {
        Self {
            inner: MemoryTransport::new(),
            in_flight_max: usize::MAX,
            prepared: Arc::default(),
            hangs: Arc::default(),
            refusal: Arc::default(),
        }
    }

    fn refuse_next(&self, class: FailureClass, retry_after: Duration) {
        let error = TransportError::new(class, std::io::Error::other("as the test says"));
        *self.refusal.lock().unwrap() = Some(error.with_retry_after(retry_after));
    }
}

#[async_trait]
impl Transport for Hooks {
    fn delivery_timeout(&self) -> Duration {
        self.inner.delivery_timeout()
    }

    async fn prepare(&self, topics: &[Topic]) -> Result<(), TransportError> {
        if self.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        self.inner.prepare(topics).await?;
        self.prepared.lock().unwrap().extend(topics.iter().map(|topic| topic.name().to_owned()));
        Ok(())
    }

    fn send(&self, envelope: Envelope, sender: OutcomeSender) {
        match self.refusal.lock().unwrap().take() {
            Some(error) => sender.complete(Outcome::Failed(error)),
            None => self.inner.send(envelope, sender),
        }
    }

    async fn probe(&self) -> Result<(), TransportError> {
        self.inner.probe().await
    }

    fn in_flight_max(&self) -> usize {
        self.in_flight_max
    }

    async fn flush(&self, within: Duration) -> usize {
        self.inner.flush(within).await
    }
}

/// The topics "orders" and "hooks"; the latter has a transport of its own.
fn two_routes(store: MemoryStore) -> (World, Hooks) {
    let mut world = World::on(store);
    let hooks = Topic::new("hooks").retry(Fixed::seconds(&[1])).via("webhooks");
    world.topics = vec![Topic::new("orders"), hooks];
    (world, Hooks::new())
}

fn relay(world: &World, hooks: &Hooks) -> RelayBuilder {
    world.relay().transport_named("webhooks", hooks.clone())
}

fn rows_of(world: &World, topic: &str) -> Vec<LiveRow> {
    world.store.live_rows().into_iter().filter(|row| &*row.topic == topic).collect()
}

/// How long the topic "orders" takes for a backlog and for handed-over rows while "hooks" has as many.
async fn orders_take(world: &World, hooks: &Hooks) -> Duration {
    world.broker.set_latency(Duration::from_millis(20));
    for _ in 0..2_000 {
        world.commit("hooks");
        world.commit("orders");
    }
    let _relay = relay(world, hooks).start().await.unwrap();
    let began = Instant::now();
    for _ in 0..200 {
        world.commit_and_hand_over("hooks");
        world.commit_and_hand_over("orders");
    }
    world.until("every order is settled", || rows_of(world, "orders").is_empty()).await;
    assert_eq!(world.broker.delivered().len(), 2_200, "each once");
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn one_that_is_down_or_silent_or_slow_takes_no_time_from_the_other() {
    for store in [MemoryStore::new, MemoryStore::leasing] {
        let (mut world, hooks) = two_routes(store());
        world.limits.in_flight_max = 1_000;
        let healthy = orders_take(&world, &hooks).await;

        for trouble in ["down", "silent", "slow"] {
            let (mut world, hooks) = two_routes(store());
            world.limits.in_flight_max = 1_000;
            match trouble {
                "down" => hooks.inner.go_down(),
                "silent" => hooks.inner.hold(),
                _ => hooks.inner.set_latency(Duration::from_secs(5)),
            }
            let taken = orders_take(&world, &hooks).await;
            assert!(taken <= healthy + Duration::from_millis(20), "{trouble}: {taken:?} and {healthy:?} without");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_for_the_one_that_is_down_while_the_other_works() {
    for store in [MemoryStore::new(), MemoryStore::leasing()] {
        let (world, hooks) = two_routes(store);
        let relay = relay(&world, &hooks).start().await.unwrap();
        hooks.inner.go_down();
        for _ in 0..200 {
            world.commit_and_hand_over("hooks");
        }
        let is_down =
            || matches!(relay.status().transport_named("webhooks").unwrap().status, TransportStatus::Down { .. });
        world.until("its breaker is open", is_down).await;
        tokio::time::sleep(Duration::from_secs(35)).await;
        let before = rows_of(&world, "hooks");
        for sent in 1..=60 {
            world.commit_and_hand_over("orders");
            world.commit("orders");
            world.delivered(2 * sent).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(rows_of(&world, "hooks"), before, "not one row was written");
        assert!(before.iter().all(|row| row.attempts == 0 && row.failures == 0));
        let status = relay.status();
        assert_eq!(status.transport_named("default").unwrap().status, TransportStatus::Up);
        assert!(matches!(status.transport, TransportStatus::Down { .. }), "the worst of the transports: {status:?}");

        hooks.inner.go_up();
        world.drained().await;
        assert_eq!(hooks.inner.delivered().len(), 200);
        assert_eq!(relay.status().transport, TransportStatus::Up);
    }
}

#[tokio::test(start_paused = true)]
async fn a_relay_starts_without_one_and_prepares_each_with_its_own_topics() {
    let (world, hooks) = two_routes(MemoryStore::new());
    hooks.inner.go_down();
    let relay = relay(&world, &hooks).start().await.unwrap();
    world.commit_and_hand_over("orders");
    world.delivered(1).await;
    world.commit("hooks");
    assert!(hooks.prepared.lock().unwrap().is_empty());
    hooks.inner.go_up();
    hooks.inner.wait_for_delivered(1, super::DEADLINE).await.unwrap();
    assert_eq!(*hooks.prepared.lock().unwrap(), ["hooks"]);
    drop(relay);
}

#[tokio::test(start_paused = true)]
async fn one_that_hangs_keeps_no_other_from_its_start() {
    let (world, hooks) = two_routes(MemoryStore::new());
    hooks.hangs.store(true, Ordering::Relaxed);
    let began = Instant::now();
    let relay = relay(&world, &hooks).start().await.unwrap();
    assert!(began.elapsed() <= PREPARE_TIMEOUT, "{:?}", began.elapsed());
    hooks.hangs.store(false, Ordering::Relaxed);
    assert!(matches!(relay.status().transport_named("webhooks").unwrap().status, TransportStatus::Down { .. }));
    world.commit("orders");
    world.commit("hooks");
    world.delivered(1).await;
    hooks.inner.wait_for_delivered(1, super::DEADLINE).await.unwrap();
    assert_eq!(*hooks.prepared.lock().unwrap(), ["hooks"]);
}

#[tokio::test(start_paused = true)]
async fn a_requested_pause_outlives_the_success_of_an_earlier_message() {
    let (world, hooks) = two_routes(MemoryStore::new());
    let requested = Duration::from_secs(100);
    hooks.refuse_next(FailureClass::Topic, requested);
    world.commit("hooks");
    world.commit("hooks");
    let began = Instant::now();
    let relay = relay(&world, &hooks).start().await.unwrap();
    hooks.inner.wait_for_delivered(1, super::DEADLINE).await.unwrap();
    assert!(began.elapsed() < requested, "the second message was already in flight when the first was refused");
    assert!(relay.status().refused_topics.is_empty(), "a topic that waits is not a refused one");
    tokio::time::timeout(requested + super::DEADLINE, hooks.inner.wait_for_delivered(2, requested * 2))
        .await
        .unwrap()
        .unwrap();
    assert!(began.elapsed() + Duration::from_millis(50) >= requested, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_transport_has_no_more_in_flight_than_it_allows() {
    let (mut world, mut hooks) = two_routes(MemoryStore::new());
    world.limits.in_flight_max = 1_000;
    hooks.in_flight_max = 30;
    hooks.inner.hold();
    world.broker.hold();
    for _ in 0..2_000 {
        world.commit("hooks");
        world.commit("orders");
    }
    let relay = relay(&world, &hooks).start().await.unwrap();
    world.until("both are full", || hooks.inner.in_flight() == 30 && world.broker.in_flight() == 970).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((hooks.inner.in_flight(), world.broker.in_flight()), (30, 970));
    assert_eq!(relay.status().transport_named("webhooks").unwrap().in_flight, 30);
    hooks.inner.release();
    world.broker.release();
    world.drained().await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_reports_the_rest_of_each_transport() {
    let (world, hooks) = two_routes(MemoryStore::new());
    world.broker.set_latency(Duration::from_secs(1));
    hooks.inner.hold();
    let relay = relay(&world, &hooks).start().await.unwrap();
    for _ in 0..3 {
        world.commit_and_hand_over("hooks");
        world.commit_and_hand_over("orders");
    }
    world.until("they are in flight", || hooks.inner.in_flight() == 3).await;
    let report = relay.shutdown(Duration::from_secs(5)).await;
    assert_eq!((report.in_flight, report.is_clean()), (3, false));
    assert_eq!((world.broker.delivered().len(), rows_of(&world, "orders").len()), (3, 0));
    hooks.inner.release();
}

/// Inline rows reach the engine of their topic, too.
#[tokio::test(start_paused = true)]
async fn an_inline_row_goes_to_the_transport_of_its_topic() {
    let (world, hooks) = two_routes(MemoryStore::new());
    let _relay = relay(&world, &hooks).start().await.unwrap();
    for topic in ["orders", "hooks"] {
        let key = world.commit_leased(topic, STALENESS);
        world.link.hand_over(vec![inline(
            key,
            Envelope { message_id: key.message_id, ..envelope(topic) },
            world.now(),
        )]);
    }
    world.drained().await;
    assert_eq!((world.broker.delivered_to("orders").len(), hooks.inner.delivered_to("hooks").len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_the_receiver_requests_is_kept() {
    let requested = Duration::from_secs(100);
    for (class, written) in [(FailureClass::Topic, 0), (FailureClass::Temporary, 1), (FailureClass::Record, 1)] {
        for (requested, kept) in [(requested, requested), (RETRY_AFTER_MAX * 50, RETRY_AFTER_MAX)] {
            let (world, hooks) = two_routes(MemoryStore::new());
            hooks.refuse_next(class, requested);
            let _relay = relay(&world, &hooks).start().await.unwrap();
            world.commit("hooks");
            world.until("it was refused", || hooks.refusal.lock().unwrap().is_none()).await;
            let began = Instant::now();
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(rows_of(&world, "hooks")[0].failures, written, "{class:?}");
            tokio::time::timeout(kept + super::DEADLINE, hooks.inner.wait_for_delivered(1, RETRY_AFTER_MAX * 2))
                .await
                .unwrap_or_else(|_| panic!("{class:?}: not {kept:?} later"))
                .unwrap();
            let waited = began.elapsed();
            assert!(waited + Duration::from_millis(50) >= kept, "{class:?}: {waited:?} of {kept:?}");
            assert!(waited <= kept + Duration::from_secs(3), "{class:?}: {waited:?} of {kept:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn topics_and_transports_that_do_not_fit_are_refused_at_start() {
    let (world, hooks) = two_routes(MemoryStore::new());
    let start = |relay: RelayBuilder| async move { relay.start().await.unwrap_err() };
    assert!(matches!(start(world.relay()).await, StartError::UnknownTransport { .. }));
    let error = start(relay(&world, &hooks).transport_named("more", hooks.clone())).await;
    assert!(error.to_string().contains("\"more\""), "{error}");
    hooks.inner.set_delivery_timeout(Duration::from_secs(60));
    let error = start(relay(&world, &hooks)).await;
    assert!(error.to_string().contains("\"webhooks\""), "it names the transport: {error}");
    hooks.inner.set_delivery_timeout(Duration::from_secs(5));
    hooks.inner.go_down_as(FailureClass::Topic);
    let error = start(relay(&world, &hooks)).await;
    assert!(matches!(&error, StartError::Transport { transport, .. } if &**transport == "webhooks"), "{error}");
}
