//! The `send` spans of each path, of batches and of failures.

use std::time::Duration;

use diesel_outbox::testing::OutcomeRecorder;
use diesel_outbox::transport::{FailureClass, MemoryTransport, ScriptedResponse, Transport as _};
use diesel_outbox::{Envelope, Message, MessageId};
use diesel_outbox_otel::traced;
use opentelemetry::KeyValue;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;

use crate::collector::{Collector, DEADLINE, Ids};
use crate::shop::{Shop, assert_created, assert_sent, headers, order};

#[test]
fn a_message_of_the_hook_is_linked_to_its_creation_sqlite() {
    let shop = Shop::open();
    let relay = shop.start();
    let (request, created) = shop.place(&order(1));
    let message = shop.delivered(1).remove(0);
    assert_created(&created, &request, &message);
    let sent = shop.collector.wait_for(1, "send orders").remove(0);
    assert_sent(&sent, &created.ids, &message);
    assert_eq!((message.path, sent.attribute("messaging.system")), (Some("confirmed"), Some("memory")));
    assert_eq!((sent.error, sent.attributes.get("error.type")), (None, None));
    drop(relay);
}

#[test]
fn a_message_of_the_sweeper_is_linked_to_its_creation_sqlite() {
    let shop = Shop::open();
    let (request, created) = shop.place(&order(1));
    let relay = shop.start();
    let message = shop.delivered(1).remove(0);
    assert_created(&created, &request, &message);
    assert_sent(&shop.collector.wait_for(1, "send orders")[0], &created.ids, &message);
    assert_eq!(message.path, Some("swept"));
    drop(relay);
}

#[test]
fn a_message_of_a_lane_is_linked_to_its_creation_sqlite() {
    for topic in ["payments", "fenced"] {
        let shop = Shop::open();
        let relay = shop.start();
        let (request, created) = shop.place(&Message::to(topic).kind("paid").key("7"));
        let message = shop.delivered(1).remove(0);
        assert_created(&created, &request, &message);
        let sent = shop.collector.wait_for(1, &format!("send {topic}")).remove(0);
        assert_sent(&sent, &created.ids, &message);
        assert!(message.path == Some("lane") && message.lane.is_some(), "{message:?}");
        drop(relay);
    }
}

#[test]
fn a_delayed_message_is_linked_to_its_creation_sqlite() {
    let shop = Shop::open();
    let relay = shop.start();
    let delayed = order(1).delay(Duration::from_secs(1));
    let request = shop.in_request(|conn| shop.outbox.enqueue(conn, &delayed));
    let created = shop.collector.wait_for(1, "create orders").remove(0);
    let message = shop.delivered(1).remove(0);
    assert!(message.deliver_at.is_some());
    assert_created(&created, &request, &message);
    assert_sent(&shop.collector.wait_for(1, "send orders")[0], &created.ids, &message);
    drop(relay);
}

#[test]
fn a_batch_is_one_span_with_a_link_for_each_message_sqlite() {
    let shop = Shop::open();
    let request = shop.in_request(|conn| shop.outbox.enqueue_all(conn, (0..5).map(order)));
    let created = shop.collector.wait_for(5, "create orders");
    // The sweeper claims what is there: all of it.
    let relay = shop.start();
    let delivered = shop.delivered(5);
    let sent = shop.collector.wait_for(1, "send orders").remove(0);
    assert_eq!((sent.kind, sent.attribute("messaging.batch.message_count")), (SpanKind::Client, Some("5")));
    assert_eq!((sent.attribute("messaging.message.id"), sent.attribute("outbox.attempt")), (None, Some("1")));
    assert_eq!(sent.attribute("outbox.path"), Some("swept"));
    let creations: Vec<Ids> = created.iter().map(|created| created.ids.clone()).collect();
    assert_eq!(sent.linked(), creations, "in the order of the rows");
    for ((message, (_, link)), created) in delivered.iter().zip(&sent.links).zip(&created) {
        assert_created(created, &request, message);
        let id = message.message_id.to_string();
        let expected = [("messaging.message.id", id.as_str()), ("outbox.attempt", "1"), ("outbox.path", "swept")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(*link, expected.into());
    }
    drop(relay);
}

#[test]
fn a_retry_is_another_span_with_the_same_link_sqlite() {
    let shop = Shop::open();
    shop.broker.respond_next(1, ScriptedResponse::StoreThenFail(FailureClass::Record));
    let relay = shop.start();
    let (request, created) = shop.place(&order(1));
    let delivered = shop.delivered(2);
    let sent = shop.collector.wait_for(2, "send orders");
    for (message, sent) in delivered.iter().zip(&sent) {
        assert_created(&created, &request, message);
        assert_sent(sent, &created.ids, message);
    }
    let attempts: Vec<_> = sent.iter().map(|sent| sent.attribute("outbox.attempt")).collect();
    assert_eq!(attempts, [Some("1"), Some("2")]);
    assert_eq!((sent[0].attribute("error.type"), sent[1].attribute("error.type")), (Some("record"), None));
    let text = sent[0].error.as_deref().expect("an error");
    assert!(text.starts_with("record: "), "{text}");
    assert_eq!((&sent[1].error, sent[0].events.len()), (&None, 0));
    drop(relay);
}

#[test]
fn a_redriven_message_carries_the_same_context_sqlite() {
    let shop = Shop::open();
    shop.broker.respond_next(1, ScriptedResponse::Fail(FailureClass::Record));
    let relay = shop.start();
    let (request, created) = shop.place(&Message::to("single").kind("tried once"));
    let failed = shop.collector.wait_for(1, "send single").remove(0);
    assert_eq!((failed.linked(), failed.attribute("error.type")), (vec![created.ids.clone()], Some("record")));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let id: MessageId = created.attribute("messaging.message.id").expect("an id").parse().expect("a UUID");
    let admin = shop.outbox.admin(shop.store());
    runtime.block_on(async {
        let dead = async { while admin.redrive(id).await.is_err() {} };
        tokio::time::timeout(DEADLINE, dead).await.expect("it becomes a dead letter, and is redriven");
    });
    let message = shop.delivered(1).remove(0);
    assert_created(&created, &request, &message);
    assert_sent(&shop.collector.wait_for(2, "send single")[1], &created.ids, &message);
    drop(relay);
}

fn envelope(key: &str) -> Envelope {
    let mut envelope = Envelope::new(MessageId::new(), "orders".into(), std::time::SystemTime::UNIX_EPOCH);
    envelope.key = Some(key.to_owned());
    envelope
}

#[test]
fn a_batch_of_which_a_part_fails_names_what_failed_memory() {
    let (collector, broker, outcomes) = (Collector::start(), MemoryTransport::new(), OutcomeRecorder::new());
    let peer = KeyValue::new("server.address", "broker-1");
    let transport = traced(broker.clone()).with_provider(collector.provider()).with_attribute(peer);
    broker.respond_when(ScriptedResponse::Fail(FailureClass::Topic), |message| message.key.as_deref() == Some("b"));
    broker.respond_when(ScriptedResponse::Busy, |message| message.key.as_deref() == Some("d"));
    let messages: Vec<_> = ["a", "b", "c", "d"].into_iter().map(envelope).collect();
    let ids: Vec<_> = messages.iter().map(|message| message.message_id.to_string()).collect();
    let senders = (0..).map(|id| outcomes.sender(id));
    transport.send_all(messages.into_iter().zip(senders).collect());
    assert_eq!(outcomes.count(), 4, "each outcome is passed on");
    let sent = collector.wait_for(1, "send orders").remove(0);
    assert_eq!((sent.attribute("error.type"), sent.attribute("server.address")), (Some("topic"), Some("broker-1")));
    let text = sent.error.expect("an error");
    assert!(text.starts_with("2 of 4 messages failed, the first with: topic: "), "{text}");
    let failed = |id: &str, class: &str| {
        let attributes = [("messaging.message.id", id), ("error.type", class)];
        let attributes = attributes.map(|(name, value)| (name.to_owned(), value.to_owned()));
        ("outbox.message_failed".to_owned(), attributes.into())
    };
    assert_eq!(sent.events, [failed(&ids[1], "topic"), failed(&ids[3], "busy")]);
    assert!(sent.links.is_empty(), "none has a context");
}

#[test]
fn messages_of_several_topics_share_a_span_without_destination_memory() {
    let (collector, outcomes) = (Collector::start(), OutcomeRecorder::new());
    let transport = traced(MemoryTransport::new()).with_provider(collector.provider());
    let mut other = envelope("a");
    other.topic = "payments".into();
    other.attempt = 2;
    transport.send_all(vec![(envelope("a"), outcomes.sender(1)), (other, outcomes.sender(2))]);
    let sent = collector.wait_for(1, "send").remove(0);
    assert_eq!((sent.attribute("messaging.destination.name"), sent.attribute("outbox.attempt")), (None, None));
    transport.send_all(Vec::new());
    assert_eq!(collector.spans().len(), 1, "no call, no span");
}

/// A span ends with the last outcome, also where the transport forgets a message.
#[test]
fn a_span_ends_with_the_last_outcome_memory() {
    let (collector, broker, outcomes) = (Collector::start(), MemoryTransport::new(), OutcomeRecorder::new());
    let transport = traced(broker.clone()).with_provider(collector.provider());
    broker.hold();
    let mut message = envelope("a");
    message.headers.push("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    assert_eq!(headers(&message, "traceparent").len(), 1);
    transport.send_all(vec![(message, outcomes.sender(1)), (envelope("b"), outcomes.sender(2))]);
    broker.release_next(1);
    assert_eq!((outcomes.count(), collector.spans().len()), (1, 0));
    drop((transport, broker));
    let sent = collector.wait_for(1, "send orders").remove(0);
    assert_eq!((outcomes.count(), sent.attribute("error.type")), (2, Some("temporary")));
    assert_eq!(sent.linked().len(), 1, "one message has a context");
}
