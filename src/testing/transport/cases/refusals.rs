use std::time::Duration;

use super::super::outcomes::{envelope, full_error_text};
use super::super::{OutcomeRecorder, RecordedOutcome, TransportUnderTest};
use super::delivery::first_undelivered;
use super::{ids_stored, missing_capability, numbers};
use crate::transport::{FailureClass, Transport};

/// An oversized message among others is refused for good; a neighbour that shared its request is delivered alone.
pub async fn only_oversized_messages_are_refused(broker: &dyn TransportUnderTest) {
    let Some(bytes) = broker.oversized_payload_bytes() else {
        missing_capability("only_oversized_messages_are_refused", "limit");
    };
    let (transport, topic) = (broker.transport(), broker.new_topic().await);
    let payload = |id: i64| if id == 10 { "x".repeat(bytes) } else { id.to_string() };
    let first = OutcomeRecorder::new();
    (0..20).for_each(|id| first.send(&*transport, id, envelope(&topic, Some("key"), &payload(id))));
    let seen = first.wait_for(20, broker.max_wait()).await;
    assert_eq!(numbers(&seen).len(), 20);
    let refused: Vec<_> = seen.iter().filter(|(_, seen)| *seen != RecordedOutcome::Delivered).collect();
    assert!(refused.iter().any(|(id, _)| *id == 10), "the broker took a message of {bytes} bytes");
    for (id, seen) in refused {
        assert_eq!(seen.class(), Some(broker.refusal()), "{seen:?}");
        let alone = OutcomeRecorder::new();
        alone.send(&*transport, 0, envelope(&topic, Some("key"), &payload(*id)));
        let (_, again) = &alone.wait_for(1, broker.max_wait()).await[0];
        match *id {
            10 => assert_eq!(again.class(), Some(broker.refusal()), "{again:?}"),
            _ => assert_eq!(*again, RecordedOutcome::Delivered, "a neighbour that is tried alone"),
        }
    }
    assert_eq!(ids_stored(broker, &topic).await.len(), 19);
}

/// An unknown topic is reported within the delivery time-out and stops no other; once created, it accepts messages.
pub async fn unknown_topic_is_a_topic_failure(broker: &dyn TransportUnderTest) {
    let Some(unknown) = broker.unknown_topic().await else {
        missing_capability("unknown_topic_is_a_topic_failure", "unknown topic");
    };
    let (transport, outcomes, known) = (broker.transport(), OutcomeRecorder::new(), broker.new_topic().await);
    for id in 0..10 {
        let topic = if id < 5 { &unknown } else { &known };
        outcomes.send(&*transport, id, envelope(topic, Some("key"), "x"));
    }
    let seen = outcomes.wait_for(10, transport.delivery_timeout() + broker.max_wait()).await;
    for (id, seen) in &seen {
        match seen.class() {
            Some(class) => assert_eq!((*id < 5, class), (true, FailureClass::Topic), "{seen:?}"),
            None => assert_eq!((*id < 5, seen), (false, &RecordedOutcome::Delivered)),
        }
    }
    if broker.create_topic(&unknown).await {
        wait_until_delivered(&*transport, &unknown, broker.max_wait()).await;
    }
}

/// A full client says so at once. What it accepted is delivered; what it did not accept is not stored.
pub async fn full_queue_is_busy(broker: &dyn TransportUnderTest) {
    let Some(transport) = broker.transport_with_queue_max(10) else {
        missing_capability("full_queue_is_busy", "bounded queue");
    };
    let (outcomes, topic) = (OutcomeRecorder::new(), broker.new_topic().await);
    // Faster than any broker answers ten of them.
    (0..2_000).for_each(|id| outcomes.send(&*transport, id, envelope(&topic, Some("key"), "x")));
    let seen = outcomes.wait_for(2_000, broker.max_wait()).await;
    assert_eq!(numbers(&seen).len(), 2_000);
    let busy = seen.iter().filter(|(_, seen)| *seen == RecordedOutcome::Busy).count();
    assert!(busy > 0, "2,000 messages went into a queue of 10");
    let taken: Vec<_> = seen.into_iter().filter(|(_, seen)| *seen != RecordedOutcome::Busy).collect();
    assert!(!taken.is_empty() && first_undelivered(&taken).is_none(), "{:?}", first_undelivered(&taken));
    assert_eq!(ids_stored(broker, &topic).await.len(), taken.len());
}

/// A client that the broker refuses gets an authentication error, without its secret in the text.
pub async fn authentication_failure_hides_secrets(broker: &dyn TransportUnderTest) {
    let Some((transport, secrets)) = broker.unauthorized_transport() else {
        missing_capability("authentication_failure_hides_secrets", "login");
    };
    let outcomes = OutcomeRecorder::new();
    outcomes.send(&*transport, 0, envelope(&broker.new_topic().await, None, "x"));
    let within = transport.delivery_timeout() + Duration::from_secs(1);
    let (_, seen) = &outcomes.wait_for(1, within).await[0];
    assert_eq!(seen.class(), Some(FailureClass::Authentication), "{seen:?}");
    // After the message: a probe may be authenticated differently, so its refusal alone says little.
    let probed = transport.probe().await;
    let error = probed.err().unwrap_or_else(|| panic!("a client with a wrong secret was let in"));
    assert_eq!(error.class(), FailureClass::Authentication, "{error}");
    let texts = [full_error_text(&error), format!("{seen:?}"), format!("{transport:?}")];
    for secret in &secrets {
        assert!(texts.iter().all(|text| !text.contains(secret)), "a secret is shown in {texts:?}");
    }
}

/// Sends single messages until one is delivered.
pub(super) async fn wait_until_delivered(transport: &dyn Transport, topic: &str, max_wait: Duration) {
    let delivered = async {
        loop {
            let outcomes = OutcomeRecorder::new();
            outcomes.send(transport, 0, envelope(topic, Some("key"), "again"));
            let (_, seen) = &outcomes.wait_for(1, transport.delivery_timeout() + max_wait).await[0];
            if *seen == RecordedOutcome::Delivered {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    assert!(tokio::time::timeout(max_wait, delivered).await.is_ok(), "nothing is delivered {max_wait:?} later");
}
