//! Nobody knows whether the transaction committed; and a request that is still in its transaction while the reconciler asks.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use order_chain::cache::{Change, StockCache};
use order_chain::domain::Order;
use order_chain::embedded::Deaths;
use order_chain::load::client::{Answer, Ask, InProcess};
use order_chain::shop::{Catalogue, Shop, web};
use order_chain::steps::{Step, Steps};
use serde_json::json;
use tokio::time::timeout;

use super::bed::{Bed, Gate, UNITS, wish};
use super::faulty::{Doubt, FaultyOrders};

/// Within this the reconciler asks, and waits.
const SHORT: Duration = Duration::from_millis(300);

/// A shop whose database leaves it in doubt once.
async fn in_doubt(doubt: Doubt, deaths: &Deaths) -> Bed {
    let mut bed = Bed::new(deaths.steps()).await;
    let orders = Arc::new(FaultyOrders::new(Arc::clone(&bed.world.orders), doubt));
    let catalogue = Catalogue::new(&bed.world.orders.products().await.expect("products"), 10);
    let cache: Arc<dyn StockCache> = Arc::clone(&bed.world.cache) as Arc<_>;
    let shop = Shop::new(orders, cache, catalogue, Duration::from_secs(3_600), deaths.steps());
    bed.client = Arc::new(InProcess(web::router(shop)));
    bed
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_without_an_answer_is_found() {
    let bed = in_doubt(Doubt::AfterCommit, &Deaths::new(1)).await;
    let answer = bed.place("key", 2).await;
    assert_eq!((answer.status, &answer.body["id"]), (StatusCode::OK, &json!(Order::id_of("key"))));
    assert_eq!(bed.units().await, (UNITS - 2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_failed_is_given_back() {
    let bed = in_doubt(Doubt::BeforeBegin, &Deaths::new(1)).await;
    assert_eq!(bed.place("key", 2).await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(bed.units().await, (UNITS, 0));
    bed.placed("key", 2).await;
    assert_eq!(bed.units().await, (UNITS - 2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_death_in_doubt_is_decided_by_the_table() {
    for (doubt, expected) in [(Doubt::AfterCommit, (UNITS - 2, 2)), (Doubt::BeforeBegin, (UNITS, 0))] {
        let deaths = Deaths::new(1);
        let bed = in_doubt(doubt, &deaths).await;
        deaths.kill_at(Step::TransactionFailed);
        assert_eq!(bed.try_send(&Ask::place("key", wish(2))).await, None);
        assert_eq!(bed.units().await, (UNITS - 2, 2), "nothing is given back by a guess");
        bed.round().await;
        assert_eq!(bed.units().await, expected, "{doubt:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_stays_away_leaves_it_to_the_reconciler() {
    let bed = in_doubt(Doubt::Away, &Deaths::new(1)).await;
    assert_eq!(bed.place("key", 2).await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(bed.units().await, (UNITS - 2, 2));
    bed.round().await;
    assert_eq!(bed.units().await, (UNITS, 0));
}

/// The units are deducted, and the shop does not know: the client's repetition finds them, or else the reconciler does.
#[tokio::test(flavor = "multi_thread")]
async fn a_deduction_whose_answer_is_lost_leaks_nothing() {
    for is_repeated in [true, false] {
        let bed = Bed::new(Steps::default()).await;
        bed.world.cache.lose_answer(Change::Deduct);
        assert_eq!(bed.place("key", 2).await.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(bed.world.orders.all().await.expect("orders"), []);
        assert_eq!(bed.units().await, (UNITS - 2, 2), "it is deducted");
        if !is_repeated {
            bed.round().await;
            assert_eq!(bed.units().await, (UNITS, 0));
        }
        bed.placed("key", 2).await;
        bed.round().await;
        assert_eq!(bed.units().await, (UNITS - 2, 2), "it is deducted once");
    }
}

/// The units are given back, and the shop does not know: nobody gives them back again.
#[tokio::test(flavor = "multi_thread")]
async fn units_whose_giving_back_has_no_answer_are_given_back_once() {
    let bed = in_doubt(Doubt::BeforeBegin, &Deaths::new(1)).await;
    bed.world.cache.lose_answer(Change::GiveBack);
    assert_eq!(bed.place("key", 2).await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(bed.units().await, (UNITS, 0), "it is given back");
    bed.placed("other", 3).await;
    bed.round().await;
    assert_eq!(bed.units().await, (UNITS - 3, 3));
    bed.placed("key", 2).await;
    bed.round().await;
    assert_eq!(bed.units().await, (UNITS - 5, 5));
}

/// It does nothing while it is away.
#[tokio::test(flavor = "multi_thread")]
async fn a_cache_that_is_away_reserves_nothing_for_good() {
    let bed = Bed::new(Steps::default()).await;
    bed.world.cache.set_away(true);
    assert_eq!(bed.place("key", 2).await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(bed.world.orders.all().await.expect("orders"), []);
    bed.world.cache.set_away(false);
    bed.round().await;
    assert_eq!(bed.units().await, (UNITS, 0));
    bed.placed("key", 2).await;
}

fn post(bed: &Bed) -> tokio::task::JoinHandle<Option<Answer>> {
    let client = Arc::clone(&bed.client);
    tokio::spawn(async move { client.send(&Ask::place("key", wish(2))).await.ok() })
}

/// The order's row is written and not committed: the reconciler waits for it, and gives nothing back.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_in_its_transaction_keeps_its_reservation() {
    let (gate, steps) = Gate::at(Step::OrderInserted);
    let bed = Bed::new(steps).await;
    let request = post(&bed);
    gate.reached().await;
    let reconciler = bed.world.reconciler.clone();
    let mut round = tokio::spawn(async move { reconciler.round().await });
    assert!(timeout(SHORT, &mut round).await.is_err(), "it waits for the transaction");
    assert_eq!(bed.units().await, (UNITS - 2, 2));
    gate.open();
    let answer = request.await.expect("no panic").expect("an answer");
    assert_eq!(answer.status, StatusCode::CREATED);
    round.await.expect("no panic").expect("a round");
    bed.round().await;
    assert_eq!(bed.units().await, (UNITS - 2, 2));
}

/// The order's row is not written yet: the reconciler's row wins, and no order can stand on the reservation any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_comes_too_late_becomes_no_order() {
    let (gate, steps) = Gate::at(Step::Deducted);
    let bed = Bed::new(steps).await;
    let request = post(&bed);
    gate.reached().await;
    bed.round().await;
    assert_eq!(bed.units().await, (UNITS, 0));
    gate.open();
    let answer = request.await.expect("no panic").expect("an answer");
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!((bed.units().await, bed.order("key").await), ((UNITS, 0), None));
    bed.placed("key", 2).await;
    assert_eq!(bed.units().await, (UNITS - 2, 2));
}

/// Another request with the same key deducts again after the first one's units were given back.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_request_does_not_take_the_reservation_of_its_repetition() {
    let (gate, steps) = Gate::at(Step::Deducted);
    let bed = Bed::new(steps).await;
    let late = post(&bed);
    gate.reached().await;
    bed.round().await;
    bed.placed("key", 2).await;
    gate.open();
    let answer = late.await.expect("no panic").expect("an answer");
    assert_eq!((answer.status, &answer.body["id"]), (StatusCode::OK, &json!(Order::id_of("key"))));
    bed.round().await;
    assert_eq!(bed.units().await, (UNITS - 2, 2));
}
