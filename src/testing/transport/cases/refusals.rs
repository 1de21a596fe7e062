use std::time::Duration;

use super::super::outcomes::{envelope, every_text};
use super::super::{Outcomes, Seen, TransportUnderTest};
use super::delivery::first_other;
use super::{ids_stored, nothing_said, numbers};
use crate::transport::{FailureClass, Transport};

/// One message too large among others is refused for good; a neighbour that shared its request goes through alone.
pub async fn refuses_what_is_too_large_and_nothing_else(broker: &dyn TransportUnderTest) {
    let Some(bytes) = broker.payload_bytes_refused() else {
        nothing_said("refuses_what_is_too_large_and_nothing_else", "limit");
    };
    let (transport, topic) = (broker.transport(), broker.new_topic().await);
    let payload = |id: i64| if id == 10 { "x".repeat(bytes) } else { id.to_string() };
    let first = Outcomes::new();
    (0..20).for_each(|id| first.send(&*transport, id, envelope(&topic, Some("key"), &payload(id))));
    let seen = first.wait_for(20, broker.patience()).await;
    assert_eq!(numbers(&seen).len(), 20);
    let refused: Vec<_> = seen.iter().filter(|(_, seen)| *seen != Seen::Delivered).collect();
    assert!(refused.iter().any(|(id, _)| *id == 10), "the broker took a message of {bytes} bytes");
    for (id, seen) in refused {
        assert_eq!(seen.class(), Some(broker.refusal()), "{seen:?}");
        let alone = Outcomes::new();
        alone.send(&*transport, 0, envelope(&topic, Some("key"), &payload(*id)));
        let (_, again) = &alone.wait_for(1, broker.patience()).await[0];
        match *id {
            10 => assert_eq!(again.class(), Some(broker.refusal()), "{again:?}"),
            _ => assert_eq!(*again, Seen::Delivered, "a neighbour that is tried alone"),
        }
    }
    assert_eq!(ids_stored(broker, &topic).await.len(), 19);
}

/// An unknown topic says so within the delivery time-out and stops no other; made later, it takes messages.
pub async fn an_unknown_topic_is_of_the_topic(broker: &dyn TransportUnderTest) {
    let Some(unknown) = broker.unknown_topic().await else {
        nothing_said("an_unknown_topic_is_of_the_topic", "unknown topic");
    };
    let (transport, outcomes, known) = (broker.transport(), Outcomes::new(), broker.new_topic().await);
    for id in 0..10 {
        let topic = if id < 5 { &unknown } else { &known };
        outcomes.send(&*transport, id, envelope(topic, Some("key"), "x"));
    }
    let seen = outcomes.wait_for(10, transport.delivery_timeout() + broker.patience()).await;
    for (id, seen) in &seen {
        match seen.class() {
            Some(class) => assert_eq!((*id < 5, class), (true, FailureClass::Topic), "{seen:?}"),
            None => assert_eq!((*id < 5, seen), (false, &Seen::Delivered)),
        }
    }
    if broker.make_topic(&unknown).await {
        delivers_again(&*transport, &unknown, broker.patience()).await;
    }
}

/// A client that is full says so at once; what it took is delivered, what it did not is not stored.
pub async fn a_full_queue_is_busy(broker: &dyn TransportUnderTest) {
    let Some(transport) = broker.transport_with_queue_max(10) else {
        nothing_said("a_full_queue_is_busy", "bounded queue");
    };
    let (outcomes, topic) = (Outcomes::new(), broker.new_topic().await);
    // Faster than any broker answers ten of them.
    (0..2_000).for_each(|id| outcomes.send(&*transport, id, envelope(&topic, Some("key"), "x")));
    let seen = outcomes.wait_for(2_000, broker.patience()).await;
    assert_eq!(numbers(&seen).len(), 2_000);
    let busy = seen.iter().filter(|(_, seen)| *seen == Seen::Busy).count();
    assert!(busy > 0, "2,000 messages went into a queue of 10");
    let taken: Vec<_> = seen.into_iter().filter(|(_, seen)| *seen != Seen::Busy).collect();
    assert!(!taken.is_empty() && first_other(&taken).is_none(), "{:?}", first_other(&taken));
    assert_eq!(ids_stored(broker, &topic).await.len(), taken.len());
}

/// A client that the broker does not let in hears that, in words without the secret it came with.
pub async fn who_is_not_let_in_hears_so_without_secrets(broker: &dyn TransportUnderTest) {
    let Some((transport, secrets)) = broker.transport_not_let_in() else {
        nothing_said("who_is_not_let_in_hears_so_without_secrets", "login");
    };
    let outcomes = Outcomes::new();
    outcomes.send(&*transport, 0, envelope(&broker.new_topic().await, None, "x"));
    let within = transport.delivery_timeout() + Duration::from_secs(1);
    let (_, seen) = &outcomes.wait_for(1, within).await[0];
    assert_eq!(seen.class(), Some(FailureClass::Authentication), "{seen:?}");
    // After the message: a probe may be asked otherwise than messages are, and a refusal of it alone says little.
    let probed = transport.probe().await;
    let error = probed.err().unwrap_or_else(|| panic!("a client with a wrong secret was let in"));
    assert_eq!(error.class(), FailureClass::Authentication, "{error}");
    let texts = [every_text(&error), format!("{seen:?}"), format!("{transport:?}")];
    for secret in &secrets {
        assert!(texts.iter().all(|text| !text.contains(secret)), "a secret is shown in {texts:?}");
    }
}

/// Sends single messages until one is delivered.
pub(super) async fn delivers_again(transport: &dyn Transport, topic: &str, patience: Duration) {
    let delivered = async {
        loop {
            let outcomes = Outcomes::new();
            outcomes.send(transport, 0, envelope(topic, Some("key"), "again"));
            let (_, seen) = &outcomes.wait_for(1, transport.delivery_timeout() + patience).await[0];
            if *seen == Seen::Delivered {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    assert!(tokio::time::timeout(patience, delivered).await.is_ok(), "nothing is delivered {patience:?} later");
}
