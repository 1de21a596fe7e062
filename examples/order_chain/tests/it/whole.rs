//! The whole chain, with Kafka's stand-in and every consumer.

use std::time::Duration;

use axum::http::StatusCode;
use order_chain::broker::Brokers;
use order_chain::domain::OrderState;
use order_chain::embedded::world::Stock;
use order_chain::embedded::{Settings, run};
use order_chain::load::client::{Ask, Client, InProcess};
use order_chain::shop::sqlite::db::SqlOrders;
use order_chain::shop::{outbox, sqlite, web};
use order_chain::steps::Steps;
use serde_json::json;

use super::bed::{Bed, UNITS, watched, wish};

#[tokio::test(flavor = "multi_thread")]
async fn a_paid_order_reaches_every_service() {
    let mut bed = Bed::with(watched(), Steps::default()).await;
    bed.world.start().await.expect("it starts");
    let mut body = wish(2);
    body["coupon_id"] = json!(5);
    let answer = bed.send(&Ask::place("key", body)).await;
    assert_eq!(answer.status, StatusCode::CREATED);
    bed.wait_until_equal().await;
    let stock = bed.world.ledgers.stock().expect("the stock service").rows[0];
    assert_eq!((stock.available, stock.locked, stock.sold), (UNITS - 2, 2, 0));
    let id = answer.body["id"].as_str().expect("an id").to_owned();
    assert_eq!(bed.send(&Ask::pay(&id)).await.status, StatusCode::OK);
    bed.wait_until_equal().await;
    let stock = bed.world.ledgers.stock().expect("the stock service").rows[0];
    assert_eq!((stock.available, stock.locked, stock.sold), (UNITS - 2, 0, 2));
    let coupons = bed.world.ledgers.coupons().expect("the coupon service");
    assert_eq!((coupons.taken, &coupons.entries[0].order_id), (vec![(5, 1)], &id));
    assert_eq!(bed.world.ledgers.points().expect("the points service").accounts, [(7, 5)]);
    bed.world.end().await.expect("it ends in order");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unpaid_order_is_closed_and_leaves_nothing() {
    let short = Stock { payment_term: Duration::from_millis(500), ..watched() };
    let mut bed = Bed::with(short, Steps::default()).await;
    bed.world.start().await.expect("it starts");
    let mut body = wish(2);
    body["coupon_id"] = json!(5);
    assert_eq!(bed.send(&Ask::place("key", body)).await.status, StatusCode::CREATED);
    bed.wait_for_state("key", OrderState::Cancelled).await;
    bed.wait_until_equal().await;
    assert_eq!(bed.units().await, (UNITS, 0));
    let stock = bed.world.ledgers.stock().expect("the stock service").rows[0];
    assert_eq!((stock.available, stock.locked, stock.sold), (UNITS, 0, 0));
    assert_eq!(bed.world.ledgers.coupons().expect("the coupon service").taken, []);
    assert_eq!(bed.world.ledgers.points().expect("the points service").accounts, []);
    let id = order_chain::domain::Order::id_of("key");
    assert_eq!(bed.send(&Ask::pay(&id)).await.status, StatusCode::CONFLICT);
    bed.world.end().await.expect("it ends in order");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_of_the_outbox_is_in_the_shop() {
    let folder = tempfile::tempdir().expect("a folder");
    let bed = Bed::new(Steps::default()).await;
    let file = folder.path().join("shop.db").display().to_string();
    let orders = SqlOrders::new(
        sqlite::pool(&file, 2).expect("a pool"),
        outbox(Brokers::Kafka).expect("an outbox"),
        Steps::default(),
    );
    orders.migrate(&[250]).await.expect("tables");
    let store = sqlite::store(&file).expect("a store");
    let dashboard = web::dashboard(&outbox(Brokers::Kafka).expect("an outbox"), store, "http://127.0.0.1:1").router();
    let shop = InProcess(web::router(bed.world.shop.clone()).nest(web::DASHBOARD, dashboard));
    for (path, status) in [("/outbox/topics", StatusCode::OK), ("/orders/none", StatusCode::NOT_FOUND)] {
        let answer = shop.send(&Ask { path: path.to_owned(), ..Ask::default() }).await.expect("an answer");
        assert_eq!(answer.status, status, "{path}");
    }
}

/// What the example does, for a shorter time.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_faults_ends_equal() {
    let settings = Settings { load: Duration::from_secs(8), seed: 3, ..Settings::default() };
    assert!(run(&settings).await.expect("it runs"));
}
