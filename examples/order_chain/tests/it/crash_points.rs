//! Death at each step. After it the client repeats its request, or never comes back.

use axum::http::StatusCode;
use order_chain::domain::{Order, OrderState};
use order_chain::embedded::world::Consumer;
use order_chain::load::client::Ask;
use order_chain::steps::Step;

use super::bed::{Bed, UNITS, stock, wish};

/// The steps of a request that places an order, and whether there is an order after it.
const PLACING: [(Step, bool); 5] = [
    (Step::Asked, false),
    (Step::Deducted, false),
    (Step::OrderInserted, false),
    (Step::Enqueued, false),
    (Step::Committed, true),
];

async fn dies_placing(step: Step) -> Bed {
    let (bed, deaths) = Bed::dying().await;
    deaths.kill_at(step);
    assert_eq!(bed.try_send(&Ask::place("key", wish(2))).await, None, "it dies at {step:?}");
    assert_eq!(deaths.counts().len(), 1, "{:?}", deaths.counts());
    bed
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_back_gets_one_order() {
    for (step, has_order) in PLACING {
        let bed = dies_placing(step).await;
        let again = bed.place("key", 2).await;
        let expected = if has_order { StatusCode::OK } else { StatusCode::CREATED };
        assert_eq!(again.status, expected, "{step:?}: {again:?}");
        assert_eq!(bed.units().await, (UNITS - 2, 2), "{step:?}");
        bed.round().await;
        assert_eq!(bed.units().await, (UNITS - 2, 2), "{step:?}");
        assert_eq!(bed.world.orders.all().await.expect("orders").len(), 1, "{step:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_comes_back_for_is_given_back() {
    for (step, has_order) in PLACING {
        let bed = dies_placing(step).await;
        assert!(bed.round().await);
        let expected = if has_order { (UNITS - 2, 2) } else { (UNITS, 0) };
        assert_eq!(bed.units().await, expected, "{step:?}");
        assert_eq!(bed.order("key").await.is_some(), has_order, "{step:?}");
        // Late, but not too late.
        let late = bed.place("key", 2).await;
        assert!(late.status.is_success(), "{step:?}: {late:?}");
        assert_eq!(bed.units().await, (UNITS - 2, 2), "{step:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_that_dies_is_followed_by_the_next_one() {
    for step in [Step::Refused, Step::GivenBack] {
        let (bed, deaths) = Bed::dying().await;
        deaths.kill_at(Step::Deducted);
        assert_eq!(bed.try_send(&Ask::place("key", wish(2))).await, None);
        deaths.kill_at(step);
        assert!(!bed.round().await, "it dies at {step:?}");
        // The client may also be faster than the next sweep: its new deduction is its own.
        let again = bed.place("key", 2).await;
        assert!(bed.round().await);
        match again.status {
            StatusCode::CREATED => assert_eq!(bed.units().await, (UNITS - 2, 2), "{step:?}"),
            StatusCode::SERVICE_UNAVAILABLE => assert_eq!(bed.units().await, (UNITS, 0), "{step:?}"),
            _ => panic!("{step:?}: {again:?}"),
        }
        let id = bed.place("key", 2).await.body["id"].clone();
        assert_eq!(id, Order::id_of("key"), "{step:?}");
        assert_eq!(bed.units().await, (UNITS - 2, 2), "{step:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_dies_can_be_repeated() {
    for (step, is_paid) in [(Step::PaymentWritten, false), (Step::PaymentCommitted, true)] {
        let (bed, deaths) = Bed::dying().await;
        let id = bed.placed("key", 2).await;
        deaths.kill_at(step);
        assert_eq!(bed.try_send(&Ask::pay(&id)).await, None, "it dies at {step:?}");
        let state = bed.order("key").await.expect("the order").state;
        assert_eq!(state, if is_paid { OrderState::Paid } else { OrderState::Created }, "{step:?}");
        assert_eq!(bed.send(&Ask::pay(&id)).await.status, StatusCode::OK);
        assert_eq!(bed.order("key").await.expect("the order").state, OrderState::Paid);
    }
}

/// The messages of such a payment are sent once, and settled once.
#[tokio::test(flavor = "multi_thread")]
async fn a_close_and_a_settle_that_die_happen_once() {
    let deaths = order_chain::embedded::Deaths::new(1);
    let short = order_chain::embedded::world::Stock { payment_term: std::time::Duration::from_millis(300), ..stock() };
    let mut bed = Bed::with(short, deaths.steps()).await;
    deaths.kill_at(Step::CloseWritten);
    bed.placed("key", 2).await;
    bed.world.start_relay().await.expect("a relay");
    for consumer in Consumer::ALL.into_iter().filter(|consumer| *consumer != Consumer::Cache) {
        bed.world.start_consumer(consumer).expect("a consumer");
    }
    bed.wait_for_state("key", OrderState::Cancelled).await;
    assert_eq!(deaths.counts().get("CloseWritten"), Some(&1));
    deaths.kill_at(Step::CacheSettled);
    bed.world.start_consumer(Consumer::Cache).expect("a consumer");
    bed.wait_until_equal().await;
    bed.wait_for_death(&deaths, "CacheSettled").await;
    bed.wait_until_equal().await;
    assert_eq!(bed.units().await, (UNITS, 0));
    bed.world.end().await.expect("it ends in order");
}

/// Every step is one of a test.
#[test]
fn every_step_is_killed_at() {
    let here = [include_str!("crash_points.rs"), include_str!("doubt.rs"), include_str!("rebuild.rs")].concat();
    for step in Step::ALL {
        assert!(here.contains(&format!("Step::{step:?}")), "no test dies at {step:?}");
    }
}
