//! The script of the memory transport.

use std::sync::Arc;
use std::time::Duration;

use diesel_outbox::transport::{Answer, FailureClass, MemoryTransport, Transport};

use super::outcomes::{Outcomes, Seen, envelope};

const DEADLINE: Duration = Duration::from_secs(5);

fn send(broker: &MemoryTransport, outcomes: &Arc<Outcomes>, id: i64, key: &str) {
    let envelope = envelope("orders", key);
    let receipt = outcomes.receipt(id, &envelope);
    broker.send(envelope, receipt);
}

fn keys(broker: &MemoryTransport) -> Vec<String> {
    broker.delivered().into_iter().filter_map(|envelope| envelope.key).collect()
}

#[test]
fn without_a_script_it_delivers_at_once() {
    let (broker, outcomes) = (MemoryTransport::new(), Outcomes::new());
    send(&broker, &outcomes, 1, "a");
    assert_eq!(outcomes.seen(), [(1, Seen::Delivered)]);
    assert_eq!(keys(&broker), ["a"]);
    assert_eq!(broker.delivered_to("orders").len(), 1);
    assert_eq!(broker.delivered_to("other").len(), 0);
}

#[test]
fn rules_are_asked_in_order_and_used_up() {
    let (broker, outcomes) = (MemoryTransport::new(), Outcomes::new());
    broker.answer_matching(Answer::Fail(FailureClass::RecordRefused), |e| e.key.as_deref() == Some("bad"));
    broker.answer_next(1, Answer::Busy);
    broker.answer_next(1, Answer::StoreThenFail(FailureClass::Temporary));
    for (id, key) in [(1, "bad"), (2, "a"), (3, "b"), (4, "c"), (5, "bad")] {
        send(&broker, &outcomes, id, key);
    }
    let expected = [
        (1, Seen::Failed(FailureClass::RecordRefused)),
        (2, Seen::Busy),
        (3, Seen::Failed(FailureClass::Temporary)),
        (4, Seen::Delivered),
        (5, Seen::Failed(FailureClass::RecordRefused)),
    ];
    assert_eq!(outcomes.seen(), expected);
    assert_eq!(keys(&broker), ["b", "c"], "the lost acknowledgement is of a stored message");
    broker.forget_answers();
    send(&broker, &outcomes, 6, "bad");
    assert_eq!(outcomes.seen()[5], (6, Seen::Delivered));
}

#[tokio::test]
async fn held_messages_wait_for_their_release_in_order() {
    let (broker, outcomes) = (MemoryTransport::new(), Outcomes::new());
    broker.hold();
    (1..=3).for_each(|id| send(&broker, &outcomes, id, &id.to_string()));
    assert_eq!((outcomes.seen().len(), broker.unanswered()), (0, 3));
    broker.release_next(1);
    assert_eq!(outcomes.seen(), [(1, Seen::Delivered)]);
    broker.go_down();
    broker.release();
    let lost = Seen::Failed(FailureClass::Connection);
    assert_eq!(outcomes.seen()[1..], [(2, lost), (3, lost)], "what counts is the broker at the release");
    assert_eq!(broker.flush(DEADLINE).await, 0);
}

#[tokio::test]
async fn down_fails_send_probe_and_prepare_until_it_is_up() {
    let (broker, outcomes) = (MemoryTransport::new(), Outcomes::new());
    broker.go_down_as(FailureClass::Authentication);
    send(&broker, &outcomes, 1, "a");
    assert_eq!(outcomes.seen(), [(1, Seen::Failed(FailureClass::Authentication))]);
    assert_eq!(broker.probe().await.unwrap_err().class(), FailureClass::Authentication);
    assert_eq!(broker.prepare(&[]).await.unwrap_err().class(), FailureClass::Authentication);
    broker.go_up();
    broker.probe().await.unwrap();
    broker.prepare(&[]).await.unwrap();
    send(&broker, &outcomes, 2, "a");
    assert_eq!(outcomes.seen()[1], (2, Seen::Delivered));
}

#[tokio::test(start_paused = true)]
async fn silence_is_seen_by_flush_and_reported_when_the_broker_goes() {
    let (broker, outcomes) = (MemoryTransport::new(), Outcomes::new());
    broker.answer_next(1, Answer::Silence);
    send(&broker, &outcomes, 1, "a");
    send(&broker, &outcomes, 2, "b");
    assert_eq!(broker.flush(DEADLINE).await, 1);
    assert_eq!(outcomes.seen(), [(2, Seen::Delivered)]);
    drop(broker);
    assert_eq!(outcomes.seen()[1], (1, Seen::Failed(FailureClass::Temporary)));
}

#[tokio::test(start_paused = true)]
async fn latency_runs_on_virtual_time_and_keeps_the_order() {
    let (broker, outcomes) = (MemoryTransport::new(), Outcomes::new());
    broker.set_latency(Duration::from_secs(3_600));
    (0..100).for_each(|id| send(&broker, &outcomes, id, &id.to_string()));
    assert_eq!(broker.sends(), 100);
    assert!(outcomes.seen().is_empty());
    let started = tokio::time::Instant::now();
    let delivered = broker.wait_for_delivered(100, Duration::from_secs(3_601)).await.unwrap();
    assert!(started.elapsed() >= Duration::from_secs(3_600));
    let order: Vec<_> = delivered.into_iter().filter_map(|envelope| envelope.key).collect();
    assert_eq!(order, (0..100).map(|id| id.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_full_queue_is_busy_and_takes_nothing() {
    let (broker, outcomes) = (MemoryTransport::new(), Outcomes::new());
    broker.set_queue_max(2);
    broker.hold();
    (1..=3).for_each(|id| send(&broker, &outcomes, id, &id.to_string()));
    assert_eq!(outcomes.seen(), [(3, Seen::Busy)]);
    broker.release();
    assert_eq!(keys(&broker), ["1", "2"]);
}

#[test]
fn a_wait_that_fails_says_what_is_there() {
    let (broker, outcomes) = (MemoryTransport::new(), Outcomes::new());
    send(&broker, &outcomes, 1, "a");
    broker.wait_for_delivered_blocking(1, DEADLINE).unwrap();
    let error = broker.wait_for_delivered_blocking(2, Duration::from_millis(1)).unwrap_err();
    assert_eq!(error.to_string(), "after 1ms the broker was handed 1 messages and stored 1");
}
