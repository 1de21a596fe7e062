//! What a Kafka topic holds.

use anyhow::{Context as _, Result};
use apache_avro::AvroSchema;
use diesel_outbox::{Message, Outbox, OutboxMessage, Topic};
use diesel_outbox_codecs::avro::{Avro, SchemaRegistry, SubjectNames};
use diesel_outbox_codecs::cloudevents::cloud_events;
use diesel_outbox_codecs::{Decode as _, Decoder, Protobuf};
use serde::{Deserialize, Serialize};
use xtask::servers::{SchemaRegistry as Server, ServerKind};
use xtask::test_servers::{own_or_skip, shared_or_skip};

use crate::shop::{Shop, kafka, new_topic, read};

#[test]
fn kafka_gets_cloud_events_in_both_modes() -> Result<()> {
    let Some(bootstrap) = shared_or_skip(ServerKind::Kafka) else { return Ok(()) };
    let topic = new_topic("events");
    let shop = Shop::open(Outbox::builder().topic(Topic::new(topic.as_str())).build()?)?;
    let placed =
        Message::to(&topic).kind("order.placed").key("42").header("ce_region", "eu").payload_bytes(r#"{"n":1}"#);
    let erased = Message::to(&topic).kind("order.erased").key("42");
    shop.relay(cloud_events(kafka(&bootstrap, &topic)?, "/shop").subject_from_key(), |shop| {
        shop.enqueue(&placed)?;
        shop.enqueue(&erased)
    })?;
    shop.relay(cloud_events(kafka(&bootstrap, &topic)?, "/shop").structured(), |shop| shop.enqueue(&placed))?;

    let records = read(&bootstrap, &topic, 3)?;
    let by_kind = |kind| records.iter().find(|record| record.header("ce_type") == Some(kind));
    let binary = by_kind("order.placed").context("the binary one")?;
    assert_eq!(binary.payload.as_deref(), Some(&br#"{"n":1}"#[..]));
    assert_eq!(binary.key.as_deref(), Some("42"));
    assert_eq!(binary.header("ce_id"), binary.header("outbox-message-id"));
    for (name, value) in [
        ("ce_specversion", "1.0"),
        ("ce_source", "/shop"),
        ("ce_subject", "42"),
        ("ce_region", "eu"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(binary.header(name), Some(value), "{name}");
    }
    let tombstone = by_kind("order.erased").context("the tombstone")?;
    assert_eq!((&tombstone.payload, tombstone.header("content-type")), (&None, None));

    let structured = &records[2];
    assert_eq!(structured.header("content-type"), Some("application/cloudevents+json; charset=utf-8"));
    assert_eq!(structured.header("ce_type"), None);
    let event: serde_json::Value = serde_json::from_slice(structured.payload.as_deref().context("an event")?)?;
    assert_eq!(event["id"].as_str(), structured.header("outbox-message-id"));
    assert_eq!((&event["type"], &event["region"]), (&"order.placed".into(), &"eu".into()));
    assert_eq!(event["data"]["n"], 1);
    Ok(())
}

#[derive(Clone, PartialEq, prost::Message, OutboxMessage)]
#[outbox(topic = topic, kind = "order.placed", key = order_id, codec = Protobuf)]
struct Placed {
    #[prost(int64, tag = "1")]
    order_id: i64,
    #[prost(string, tag = "2")]
    topic: String,
}

#[test]
fn kafka_carries_protobuf_with_its_fingerprint() -> Result<()> {
    let Some(bootstrap) = shared_or_skip(ServerKind::Kafka) else { return Ok(()) };
    let topic = new_topic("protobuf");
    let shop = Shop::open(Outbox::builder().topic(Topic::new(topic.as_str())).fingerprints().build()?)?;
    let placed = Placed { order_id: 42, topic: topic.clone() };
    shop.relay(kafka(&bootstrap, &topic)?, |shop| shop.enqueue(&placed))?;
    let record = read(&bootstrap, &topic, 1)?.remove(0);
    let fingerprint = record.header("outbox-fingerprint");
    assert_eq!(fingerprint, Placed::FINGERPRINTS.first().copied());
    let decoder = Decoder::<Placed, Protobuf>::builder().build()?;
    let read = decoder.decode(fingerprint.map(str::as_bytes), record.payload.as_deref().context("a payload")?)?;
    assert_eq!(read, placed);
    Ok(())
}

#[derive(Debug, PartialEq, Serialize, Deserialize, AvroSchema, OutboxMessage)]
#[avro(namespace = "shop")]
#[outbox(topic = topic, kind = "order.placed", key = order_id, codec = Avro)]
struct AvroPlaced {
    order_id: i64,
    topic: String,
}

/// The registry as a consumer in another process knows it.
struct OfConsumer;

#[test]
fn kafka_carries_avro_of_a_schema_registry() -> Result<()> {
    let Some(bootstrap) = shared_or_skip(ServerKind::Kafka) else { return Ok(()) };
    let Some(registry) = own_or_skip(Server::start()) else { return Ok(()) };
    let topic = new_topic("avro");
    let schemas = SchemaRegistry::new(registry.url()).schemas().subjects(SubjectNames::Record);
    schemas.message::<AvroPlaced>().register().build_blocking()?;
    let shop = Shop::open(Outbox::builder().topic(Topic::new(topic.as_str())).message::<AvroPlaced>().build()?)?;
    let placed = AvroPlaced { order_id: 42, topic: topic.clone() };
    shop.relay(kafka(&bootstrap, &topic)?, |shop| shop.enqueue(&placed))?;

    let record = read(&bootstrap, &topic, 1)?.remove(0);
    let payload = record.payload.as_deref().context("a payload")?;
    let subject: serde_json::Value =
        serde_json::from_str(&registry.request("GET", "/subjects/shop.AvroPlaced/versions/1", "")?)?;
    let id = u32::try_from(subject["id"].as_u64().context("an id")?)?;
    assert_eq!(payload[..5], [&[0][..], &id.to_be_bytes()].concat());

    let unknown: Result<AvroPlaced, _> = Avro::<OfConsumer>::decode(payload);
    assert!(unknown.expect_err("not fetched yet").to_string().contains("AvroSchemas::fetch"));
    let consumer = SchemaRegistry::new(registry.url()).schemas_of::<OfConsumer>().build_blocking()?;
    consumer.fetch_blocking(payload)?;
    let read: AvroPlaced = Avro::<OfConsumer>::decode(payload)?;
    assert_eq!(read, placed);
    Ok(())
}
