//! What cannot be an order is refused clearly, and nothing is reserved.

use axum::http::StatusCode;
use order_chain::load::client::Ask;
use order_chain::steps::Steps;
use serde_json::{Value, json};

use super::bed::{Bed, UNITS, wish};

async fn refused(bed: &Bed, ask: Ask, status: StatusCode, says: &str) {
    let answer = bed.send(&ask).await;
    assert_eq!(answer.status, status, "{ask:?}: {answer:?}");
    let text = answer.body["error"].as_str().unwrap_or_default();
    assert!(text.contains(says), "{ask:?}: {text}");
    assert_eq!(bed.units().await, (UNITS, 0), "{ask:?}");
    assert_eq!(bed.world.orders.all().await.expect("orders"), []);
}

fn changed(name: &str, value: Value) -> Ask {
    let mut body = wish(1);
    body[name] = value;
    Ask::place("key", body)
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_bodies_reserve_nothing() {
    let bed = Bed::new(Steps::default()).await;
    let bad = StatusCode::BAD_REQUEST;
    for quantity in [0, -1, 101, i64::MIN, i64::MAX] {
        refused(&bed, changed("quantity", json!(quantity)), bad, &format!("quantity is {quantity}")).await;
    }
    let unreadable = StatusCode::UNPROCESSABLE_ENTITY;
    refused(&bed, changed("quantity", json!("two")), unreadable, "quantity").await;
    refused(&bed, changed("quantity", json!(1.5)), unreadable, "quantity").await;
    refused(&bed, changed("total_cents", json!(1)), unreadable, "total_cents").await;
    refused(&bed, Ask::place("key", json!({ "customer_id": 7 })), unreadable, "product_id").await;
    refused(&bed, changed("product_id", json!(3)), StatusCode::NOT_FOUND, "no product 3").await;
    for coupon in [0, 11] {
        refused(&bed, changed("coupon_id", json!(coupon)), StatusCode::NOT_FOUND, &format!("no coupon {coupon}")).await;
    }
    let more = json!(UNITS);
    bed.placed("all but one", UNITS - 1).await;
    let answer = bed.send(&changed("quantity", more)).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    assert_eq!(answer.body["error"], "product 1 has 1 units left, and 100 were asked for");
    assert_eq!(bed.units().await, (1, UNITS - 1));
    assert_eq!(bed.world.orders.all().await.expect("orders").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_needs_a_key() {
    let bed = Bed::new(Steps::default()).await;
    let bad = StatusCode::BAD_REQUEST;
    refused(&bed, Ask { key: None, ..Ask::place("", wish(1)) }, bad, "Idempotency-Key").await;
    refused(&bed, Ask::place("", wish(1)), bad, "Idempotency-Key").await;
    refused(&bed, Ask::place(&"k".repeat(201), wish(1)), bad, "Idempotency-Key").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_of_one_request() {
    let bed = Bed::new(Steps::default()).await;
    let id = bed.placed("key", 2).await;
    let again = bed.place("key", 2).await;
    assert_eq!((again.status, &again.body["id"]), (StatusCode::OK, &json!(id)));
    let mut others = vec![wish(3)];
    for (name, value) in [("product_id", 2), ("customer_id", 8), ("coupon_id", 1)] {
        let mut other = wish(2);
        other[name] = json!(value);
        others.push(other);
    }
    for other in others {
        let answer = bed.send(&Ask::place("key", other.clone())).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{other}: {answer:?}");
    }
    assert_eq!(bed.units().await, (UNITS - 2, 2));
    bed.round().await;
    let findings = bed.world.reconciler.check().await.expect("a comparison");
    assert_eq!(findings.wrong, []);
    assert_eq!(bed.world.orders.all().await.expect("orders").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_gets_its_order_when_nothing_is_left() {
    let bed = Bed::new(Steps::default()).await;
    bed.placed("key", UNITS).await;
    bed.send(&Ask::pay(&order_chain::domain::Order::id_of("key"))).await;
    // The cache does not know the order any more.
    bed.round().await;
    assert_eq!(bed.units().await, (0, 0));
    let again = bed.place("key", UNITS).await;
    assert_eq!((again.status, &again.body["state"]), (StatusCode::OK, &json!("paid")));
    assert_eq!(bed.place("other", 1).await.status, StatusCode::CONFLICT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coupon_is_of_one_live_order() {
    let bed = Bed::new(Steps::default()).await;
    let with_coupon = |key: &str| {
        let mut body = wish(1);
        body["coupon_id"] = json!(5);
        Ask::place(key, body)
    };
    assert_eq!(bed.send(&with_coupon("first")).await.status, StatusCode::CREATED);
    let refused = bed.send(&with_coupon("second")).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{refused:?}");
    assert_eq!(bed.units().await, (UNITS - 1, 1), "the second one's unit is given back");
    assert!(bed.world.orders.close(&order_chain::domain::Order::id_of("first")).await.expect("closed"));
    assert_eq!(bed.send(&with_coupon("second")).await.status, StatusCode::CREATED);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_orders_are_not_found() {
    let bed = Bed::new(Steps::default()).await;
    for ask in [Ask::find("no"), Ask::pay("no")] {
        let answer = bed.send(&ask).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND);
        assert_eq!(answer.body["error"], "there is no order no");
    }
}
