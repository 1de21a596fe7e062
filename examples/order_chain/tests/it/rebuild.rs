//! The cache loses everything while orders go on.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use order_chain::cache::{Load, StockCache};
use order_chain::domain::OrderState;
use order_chain::load::client::{Answer, Ask};
use order_chain::reconcile::{Reconciler, Wrong};
use order_chain::steps::{Step, Steps};

use super::bed::{Bed, Gate, UNITS, wish};
use super::faulty::{Doubt, FaultyOrders};

fn post(bed: &Bed, key: &'static str) -> tokio::task::JoinHandle<Option<Answer>> {
    let client = Arc::clone(&bed.client);
    tokio::spawn(async move { client.send(&Ask::place(key, wish(2))).await.ok() })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flushed_cache_is_loaded_from_the_databases() {
    let bed = Bed::new(Steps::default()).await;
    let (open, paid) = (bed.placed("open", 2).await, bed.placed("paid", 3).await);
    bed.send(&Ask::pay(&paid)).await;
    bed.world.cache.flush();
    assert_eq!(bed.place("no", 1).await.status, StatusCode::SERVICE_UNAVAILABLE, "nothing is ordered meanwhile");
    bed.round().await;
    let shelf = bed.shelf().await;
    assert_eq!((shelf.available, shelf.sold, shelf.reserved_units()), (UNITS - 5, 3, 2));
    assert_eq!(shelf.reserved[0].reservation.order_id, open);
    bed.placed("no", 1).await;
}

/// A deduction of the lost cache cannot become an order.
#[tokio::test(flavor = "multi_thread")]
async fn a_deduction_of_the_lost_cache_becomes_no_order() {
    let (gate, steps) = Gate::at(Step::Deducted);
    let bed = Bed::new(steps).await;
    let request = post(&bed, "key");
    gate.reached().await;
    bed.world.cache.flush();
    bed.round().await;
    assert_eq!(bed.units().await, (UNITS, 0));
    gate.open();
    let answer = request.await.expect("no panic").expect("an answer");
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!((bed.units().await, bed.order("key").await), ((UNITS, 0), None));
    bed.placed("key", 2).await;
    assert_eq!(bed.units().await, (UNITS - 2, 2));
}

/// An order that is being committed is waited for, and is loaded.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_is_being_committed_is_loaded() {
    let (gate, steps) = Gate::at(Step::Enqueued);
    let bed = Bed::new(steps).await;
    let request = post(&bed, "key");
    gate.reached().await;
    bed.world.cache.flush();
    let reconciler = bed.world.reconciler.clone();
    let mut round = tokio::spawn(async move { reconciler.round().await });
    let waits = tokio::time::timeout(Duration::from_millis(300), &mut round).await.is_err();
    assert!(waits, "it waits for the transaction");
    gate.open();
    let answer = request.await.expect("no panic").expect("an answer");
    assert_eq!(answer.status, StatusCode::CREATED);
    round.await.expect("no panic").expect("a round");
    assert_eq!(bed.units().await, (UNITS - 2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_that_dies_is_followed_by_the_next_one() {
    for step in [Step::GenerationRaised, Step::LiveOrdersRead, Step::Loaded] {
        let (bed, deaths) = Bed::dying().await;
        bed.placed("key", 2).await;
        bed.world.cache.flush();
        deaths.kill_at(step);
        assert!(!bed.round().await, "it dies at {step:?}");
        bed.placed_in_the_end("other", 1).await;
        assert_eq!(bed.units().await, (UNITS - 3, 3), "{step:?}");
    }
}

/// An order that ends between the reading and the load is loaded as reserved, and then settled.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_ends_during_a_rebuild_is_settled() {
    for pays in [true, false] {
        let (gate, steps) = Gate::at(Step::LiveOrdersRead);
        // The first load is that of the start, which nobody could let go.
        let bed = Bed::new(Steps::default()).await;
        let id = bed.placed("key", 2).await;
        let reconciler = bed.reconciler_with(steps);
        bed.world.cache.flush();
        let round = tokio::spawn(async move { reconciler.round().await });
        gate.reached().await;
        match pays {
            true => assert_eq!(bed.send(&Ask::pay(&id)).await.status, StatusCode::OK),
            false => assert!(bed.world.orders.close(&id).await.expect("closed")),
        }
        gate.open();
        round.await.expect("no panic").expect("a round");
        assert_eq!(bed.units().await, (UNITS - 2, 2));
        bed.round().await;
        let shelf = bed.shelf().await;
        let expected = if pays { (UNITS - 2, 2, 0) } else { (UNITS, 0, 0) };
        assert_eq!((shelf.available, shelf.sold, shelf.reserved_units()), expected);
    }
}

/// A load of an earlier generation comes too late.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_load_changes_nothing() {
    let bed = Bed::new(Steps::default()).await;
    bed.placed("key", 2).await;
    let generation = bed.shelf().await.generation;
    for generation in [generation - 1, generation] {
        let late = Load { product_id: 1, generation, available: UNITS, sold: 0, reserved: Vec::new() };
        assert!(!bed.world.cache.load(&late).await.expect("the cache answers"));
    }
    assert_eq!(bed.units().await, (UNITS - 2, 2));
}

/// A cache that was loaded with a generation that is not the newest, as two reconcilers can leave it, is loaded again.
#[tokio::test(flavor = "multi_thread")]
async fn a_stale_generation_is_loaded_again() {
    let bed = Bed::new(Steps::default()).await;
    bed.world.orders.raise_generation(1).await.expect("raised");
    assert_eq!(bed.place("key", 2).await.status, StatusCode::SERVICE_UNAVAILABLE);
    bed.round().await;
    bed.placed("key", 2).await;
    assert_eq!(bed.units().await, (UNITS - 2, 2));
}

/// Another reconciler has loaded the products between this one's two reads. A second load would in turn look stale to the other one.
#[tokio::test(flavor = "multi_thread")]
async fn what_another_reconciler_has_just_loaded_is_not_loaded_again() {
    let bed = Bed::new(Steps::default()).await;
    bed.placed("key", 2).await;
    let before = bed.world.orders.products().await.expect("products");
    let orders = Arc::new(FaultyOrders::new(Arc::clone(&bed.world.orders), Doubt::OldGeneration));
    let cache: Arc<dyn StockCache> = Arc::clone(&bed.world.cache) as Arc<_>;
    let reconciler =
        Reconciler::new(orders, cache, Arc::clone(&bed.world.ledgers), Steps::default(), Duration::from_secs(3_600));
    reconciler.round().await.expect("a round");
    assert_eq!(bed.world.orders.products().await.expect("products"), before);
    // What stays as it is is loaded.
    bed.world.cache.flush();
    reconciler.round().await.expect("a round");
    assert_eq!(bed.units().await, (UNITS - 2, 2));
}

/// Redis lost its last writes, and nobody noticed.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reservation_is_found_and_loaded() {
    let bed = Bed::new(Steps::default()).await;
    bed.placed("key", 2).await;
    let reservation = bed.shelf().await.reserved[0].reservation.clone();
    assert!(bed.world.cache.give_back(&reservation).await.expect("the cache answers"));
    let findings = bed.world.reconciler.check().await.expect("a comparison");
    let order_id = reservation.order_id;
    assert_eq!(findings.wrong, [Wrong::LostReservation { order_id, product_id: 1 }]);
    bed.round().await;
    assert_eq!(bed.units().await, (UNITS - 2, 2));
    let findings = bed.world.reconciler.check().await.expect("a comparison");
    assert_eq!(findings.wrong, []);
    assert_eq!(bed.order("key").await.expect("the order").state, OrderState::Created);
}
