//! A shop on SQLite with the stand-in for Redis; no consumer runs unless a test starts it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use futures_util::FutureExt;
use order_chain::cache::{Shelf, StockCache};
use order_chain::domain::{Order, OrderRow, OrderState};
use order_chain::embedded::Deaths;
use order_chain::embedded::world::{Stock, World};
use order_chain::load::client::{Answer, Ask, Client, InProcess};
use order_chain::reconcile::Reconciler;
use order_chain::shop::web;
use order_chain::steps::{Step, Steps};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// What bounds a wait: many times what the slowest takes on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(90);

/// Units of each product.
pub(crate) const UNITS: i64 = 100;

pub(crate) fn stock() -> Stock {
    Stock {
        units: vec![UNITS; 2],
        coupons: 10,
        payment_term: Duration::from_secs(3_600),
        // Whatever is in the cache is looked into, however young.
        sweep_after: Duration::ZERO,
    }
}

/// The reconciler runs beside the requests, so it must leave alone what is in the middle of one: without this a request was now and
/// then told to repeat itself.
pub(crate) fn watched() -> Stock {
    Stock { sweep_after: Duration::from_secs(2), ..stock() }
}

pub(crate) struct Bed {
    pub(crate) world: World,
    pub(crate) client: Arc<dyn Client>,
}

impl Bed {
    pub(crate) async fn new(steps: Steps) -> Self {
        Self::with(stock(), steps).await
    }

    pub(crate) async fn with(stock: Stock, steps: Steps) -> Self {
        let world = World::new(&stock, steps).await.expect("a world");
        let client = Arc::new(InProcess(web::router(world.shop.clone())));
        Self { world, client }
    }

    pub(crate) async fn dying() -> (Self, Deaths) {
        let deaths = Deaths::new(1);
        (Self::new(deaths.steps()).await, deaths)
    }

    /// The answer to a request; `None` if it died.
    pub(crate) async fn try_send(&self, ask: &Ask) -> Option<Answer> {
        self.client.send(ask).await.ok()
    }

    pub(crate) async fn send(&self, ask: &Ask) -> Answer {
        self.try_send(ask).await.expect("an answer")
    }

    /// Places an order of so many units of product 1.
    pub(crate) async fn place(&self, key: &str, quantity: i64) -> Answer {
        self.send(&Ask::place(key, wish(quantity))).await
    }

    pub(crate) async fn placed(&self, key: &str, quantity: i64) -> String {
        let answer = self.place(key, quantity).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
        Order::id_of(key)
    }

    pub(crate) async fn order(&self, key: &str) -> Option<OrderRow> {
        self.world.orders.find(&Order::id_of(key)).await.expect("the database answers")
    }

    /// What the cache has of product 1.
    pub(crate) async fn shelf(&self) -> Shelf {
        self.world.cache.read(1).await.expect("the cache answers").expect("it is loaded")
    }

    /// The units of product 1 that may be ordered, and those that are reserved.
    pub(crate) async fn units(&self) -> (i64, i64) {
        let shelf = self.shelf().await;
        assert_eq!(shelf.available + shelf.reserved_units() + shelf.sold, UNITS, "{shelf:?}");
        (shelf.available, shelf.reserved_units())
    }

    /// A round of the reconciler; `false` if it died.
    pub(crate) async fn round(&self) -> bool {
        let reconciler = self.world.reconciler.clone();
        match tokio::spawn(async move { reconciler.round().await }).await {
            Ok(round) => {
                round.expect("a round");
                true
            }
            Err(_) => false,
        }
    }

    /// Another reconciler over the same.
    pub(crate) fn reconciler_with(&self, steps: Steps) -> Reconciler {
        let cache: Arc<dyn StockCache> = Arc::clone(&self.world.cache) as Arc<_>;
        let (orders, ledgers) = (Arc::clone(&self.world.orders), Arc::clone(&self.world.ledgers));
        Reconciler::new(orders, cache, ledgers, steps, Duration::ZERO)
    }

    /// Places an order as a client does: again and again, with rounds of the reconciler in between.
    pub(crate) async fn placed_in_the_end(&self, key: &str, quantity: i64) {
        let end = Instant::now() + DEADLINE;
        while self.place(key, quantity).await.status != StatusCode::CREATED {
            assert!(Instant::now() < end, "no order within {DEADLINE:?}");
            self.round().await;
        }
    }

    pub(crate) async fn wait_for_state(&self, key: &str, state: OrderState) {
        wait_until(&format!("{key} is {state:?}"), async || {
            self.order(key).await.is_some_and(|row| row.state == state)
        })
        .await;
    }

    pub(crate) async fn wait_for_death(&self, deaths: &Deaths, step: &str) {
        wait_until(&format!("a death at {step}"), async || deaths.counts().contains_key(step)).await;
    }

    /// Waits until everything agrees, and nothing is on its way.
    pub(crate) async fn wait_until_equal(&self) {
        let end = Instant::now() + DEADLINE;
        loop {
            let findings = self.world.reconciler.check().await.expect("a comparison");
            assert_eq!(findings.wrong, [], "{findings}");
            if findings.is_equal() {
                return;
            }
            assert!(Instant::now() < end, "not equal within {DEADLINE:?}: {findings} {:?}", findings.moving);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

pub(crate) async fn wait_until(what: &str, is_so: impl AsyncFn() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !is_so().await {
        assert!(Instant::now() < end, "not within {DEADLINE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) fn wish(quantity: i64) -> Value {
    json!({ "customer_id": 7, "product_id": 1, "quantity": quantity })
}

/// Stops the first one that reaches a step, until it is let go.
pub(crate) struct Gate {
    reached: Arc<Notify>,
    go: Arc<Notify>,
}

impl Gate {
    pub(crate) fn at(at: Step) -> (Self, Steps) {
        let gate = Self { reached: Arc::default(), go: Arc::default() };
        let (reached, go) = (Arc::clone(&gate.reached), Arc::clone(&gate.go));
        let is_first = std::sync::atomic::AtomicBool::new(true);
        let steps = Steps::with(move |step| {
            let stops = step == at && is_first.swap(false, std::sync::atomic::Ordering::Relaxed);
            let (reached, go) = (Arc::clone(&reached), Arc::clone(&go));
            async move {
                if stops {
                    reached.notify_one();
                    go.notified().await;
                }
            }
            .boxed()
        });
        (gate, steps)
    }

    pub(crate) async fn reached(&self) {
        tokio::time::timeout(DEADLINE, self.reached.notified()).await.expect("the step is reached");
    }

    pub(crate) fn open(&self) {
        self.go.notify_one();
    }
}
