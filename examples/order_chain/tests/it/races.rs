//! Things that happen at the same time: one of them wins.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::StatusCode;
use order_chain::domain::{Order, OrderState};
use order_chain::load::client::Ask;
use order_chain::shop::orders::Payment;
use order_chain::steps::Steps;
use tokio::task::JoinSet;

use super::bed::{Bed, UNITS, wish};

#[tokio::test(flavor = "multi_thread")]
async fn of_payment_and_close_one_wins() {
    let bed = Bed::new(Steps::default()).await;
    let (mut paid, mut closed) = (0, 0);
    for number in 0..40 {
        let id = bed.placed(&format!("key-{number}"), 1).await;
        let orders = Arc::clone(&bed.world.orders);
        // Each is first half of the time.
        let (payment, close) = if number % 2 == 0 {
            tokio::join!(orders.pay(&id), orders.close(&id))
        } else {
            let (close, payment) = tokio::join!(orders.close(&id), orders.pay(&id));
            (payment, close)
        };
        let state = bed.order(&format!("key-{number}")).await.expect("the order").state;
        match (payment.expect("an answer"), close.expect("an answer")) {
            (Payment::Paid(_), false) => {
                assert_eq!(state, OrderState::Paid);
                paid += 1;
            }
            (Payment::Closed, true) => {
                assert_eq!(state, OrderState::Cancelled);
                closed += 1;
            }
            both => panic!("{both:?}"),
        }
    }
    assert!(paid > 0 && closed > 0, "{paid} paid, {closed} closed");
    bed.round().await;
    let shelf = bed.shelf().await;
    assert_eq!((shelf.available, shelf.sold, shelf.reserved.len()), (UNITS - paid, paid, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_makes_one_order_however_often_it_is_sent() {
    let bed = Bed::new(Steps::default()).await;
    let mut requests = JoinSet::new();
    for _ in 0..20 {
        let client = Arc::clone(&bed.client);
        requests.spawn(async move { client.send(&Ask::place("key", wish(3))).await.expect("an answer") });
    }
    let answers = requests.join_all().await;
    let made = answers.iter().filter(|answer| answer.status == StatusCode::CREATED).count();
    assert_eq!(made, 1, "{answers:?}");
    assert!(answers.iter().all(|answer| answer.body["id"] == Order::id_of("key")), "{answers:?}");
    assert_eq!(bed.units().await, (UNITS - 3, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sold_twice() {
    let bed = Bed::new(Steps::default()).await;
    let mut requests = JoinSet::new();
    for number in 0..60 {
        let client = Arc::clone(&bed.client);
        requests.spawn(
            async move { client.send(&Ask::place(&format!("key-{number}"), wish(3))).await.expect("an answer") },
        );
    }
    let answers = requests.join_all().await;
    let statuses: BTreeSet<u16> = answers.iter().map(|answer| answer.status.as_u16()).collect();
    assert_eq!(statuses, BTreeSet::from([201, 409]));
    let made = answers.iter().filter(|answer| answer.status == StatusCode::CREATED).count();
    assert_eq!(made, 33, "of 100 units, three at a time");
    assert_eq!(bed.units().await, (1, 99));
}
