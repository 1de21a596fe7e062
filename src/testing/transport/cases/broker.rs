use std::time::{Duration, Instant};

use super::super::outcomes::envelope;
use super::super::{OutcomeRecorder, RecordedOutcome, TransportUnderTest};
use super::refusals::wait_until_delivered;
use super::{missing_capability, numbers};
use crate::transport::FailureClass;

/// How long 20,000 calls into a client may take in all, on a machine that does other things as well.
const SENDS_DURATION_MAX: Duration = Duration::from_secs(5);

/// Without a broker, probes and messages fail as an outage, messages within the delivery time-out. When it is back, probes succeed
/// and messages are delivered.
pub async fn stopped_broker_is_an_outage_until_restarted(broker: &dyn TransportUnderTest) {
    let (transport, topic) = (broker.transport(), broker.new_topic().await);
    wait_until_delivered(&*transport, &topic, broker.max_wait()).await;
    if !broker.go_down().await {
        missing_capability("stopped_broker_is_an_outage_until_restarted", "way to take the broker down");
    }
    let outcomes = OutcomeRecorder::new();
    let sent_at = Instant::now();
    (0..100).for_each(|id| outcomes.send(&*transport, id, envelope(&topic, Some("key"), "x")));
    let probed = transport.probe().await;
    assert_eq!(probed.err().map(|error| error.class()), Some(FailureClass::Connection), "a probe without a broker");
    let seen = outcomes.wait_for(100, transport.delivery_timeout() + Duration::from_secs(1)).await;
    assert!(sent_at.elapsed() <= transport.delivery_timeout() + Duration::from_secs(1));
    assert_eq!(numbers(&seen).len(), 100);
    let other = seen.iter().find(|(_, seen)| seen.class() != Some(FailureClass::Connection));
    assert_eq!(other, None, "a message without a broker");

    broker.go_up().await;
    let back = async { while transport.probe().await.is_err() {} };
    let back = tokio::time::timeout(broker.max_wait(), back).await;
    assert!(back.is_ok(), "the broker is back and no probe succeeds");
    assert_eq!(transport.outage(), None, "a probe that succeeds ends the outage");
    wait_until_delivered(&*transport, &topic, broker.max_wait()).await;
}

/// The broker answers nothing, on connections that stay open. Every message has an outcome within the delivery time-out, and none
/// is "delivered". When the broker answers again, probes succeed and messages are delivered.
pub async fn frozen_broker_times_out_every_message(broker: &dyn TransportUnderTest) {
    let (transport, topic) = (broker.transport(), broker.new_topic().await);
    wait_until_delivered(&*transport, &topic, broker.max_wait()).await;
    if !broker.freeze().await {
        missing_capability("frozen_broker_times_out_every_message", "way to fall silent");
    }
    let outcomes = OutcomeRecorder::new();
    (0..100).for_each(|id| outcomes.send(&*transport, id, envelope(&topic, Some(&format!("key-{}", id % 7)), "x")));
    let seen = outcomes.wait_for(100, transport.delivery_timeout() + Duration::from_secs(1)).await;
    assert_eq!(numbers(&seen).len(), 100);
    let in_time = |seen: &RecordedOutcome| match seen.class() {
        // Messages that were not handed over yet are returned.
        None => *seen == RecordedOutcome::Busy,
        Some(class) => matches!(class, FailureClass::Connection | FailureClass::Temporary),
    };
    let other = seen.iter().find(|(_, seen)| !in_time(seen));
    assert_eq!(other, None, "a message without an outcome");

    broker.unfreeze().await;
    let back = async { while transport.probe().await.is_err() {} };
    let back = tokio::time::timeout(broker.max_wait(), back).await;
    assert!(back.is_ok(), "the broker answers and no probe succeeds");
    wait_until_delivered(&*transport, &topic, broker.max_wait()).await;
}

/// 20,000 messages without a broker: the calls return at once, and flush reports how many have no outcome.
pub async fn send_never_blocks(broker: &dyn TransportUnderTest) {
    let (transport, outcomes, topic) = (broker.transport(), OutcomeRecorder::new(), broker.new_topic().await);
    if !broker.go_down().await {
        missing_capability("send_never_blocks", "way to take the broker down");
    }
    let started = Instant::now();
    (0..20_000).for_each(|id| outcomes.send(&*transport, id, envelope(&topic, Some("key"), "x")));
    let taken = started.elapsed();
    let left = transport.flush(Duration::ZERO).await;
    let settled = outcomes.seen().len();
    assert!(taken < SENDS_DURATION_MAX, "20,000 calls of send took {taken:?}");
    // Outcomes may arrive between the two reads.
    assert!(left + settled >= 20_000, "{left} are said to be left, and {settled} have an outcome");
    drop(transport);
    assert_eq!(numbers(&outcomes.wait_for(20_000, broker.max_wait()).await).len(), 20_000);
}

/// When a transport is dropped, the outcome senders of messages that it held report a failure, once.
pub async fn dropping_the_transport_fails_held_messages(broker: &dyn TransportUnderTest) {
    let (transport, outcomes, topic) = (broker.transport(), OutcomeRecorder::new(), broker.new_topic().await);
    if !broker.go_down().await {
        missing_capability("dropping_the_transport_fails_held_messages", "way to take the broker down");
    }
    (0..100).for_each(|id| outcomes.send(&*transport, id, envelope(&topic, Some("key"), "x")));
    drop(transport);
    let seen = outcomes.wait_for(100, broker.max_wait()).await;
    assert_eq!(numbers(&seen).len(), 100);
    assert!(seen.iter().all(|(_, seen)| matches!(seen, RecordedOutcome::Failed { .. })), "{seen:?}");
}
