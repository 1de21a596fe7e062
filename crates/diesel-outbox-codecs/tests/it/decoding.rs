//! What a consumer makes of payloads: of old shapes, in each codec, and of those that are none.

use anyhow::{Context as _, Result};
use apache_avro::AvroSchema;
use axum::http::StatusCode;
use diesel_outbox::OutboxMessage;
use diesel_outbox::codec::Codec;
use diesel_outbox_codecs::avro::{Avro, SchemaRegistry};
use diesel_outbox_codecs::{Decode as _, DecodeError, Decoder, Protobuf};
use serde::{Deserialize, Serialize};

use crate::fake_registry::{Behaviour, start};

/// Has the id 258 for every schema.
struct Old;
/// Has the id 7 for every schema.
struct Current;

#[derive(Debug, Serialize, Deserialize, AvroSchema, OutboxMessage)]
#[serde(rename = "Order")]
#[outbox(topic = "orders", codec = Avro<Old>)]
struct OrderV1 {
    id: i64,
    note: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, AvroSchema, OutboxMessage)]
#[outbox(topic = "orders", codec = Avro<Current>)]
struct Order {
    id: i64,
    lines: Vec<String>,
}

impl From<OrderV1> for Order {
    fn from(old: OrderV1) -> Self {
        Self { id: old.id, lines: vec![old.note] }
    }
}

async fn registries() -> Result<()> {
    let (url, _) = start(Behaviour::Answers(StatusCode::OK, r#"{"id":258}"#.to_owned())).await;
    SchemaRegistry::new(url).schemas_of::<Old>().message::<OrderV1>().build().await?;
    let (url, _) = start(Behaviour::Answers(StatusCode::OK, r#"{"id":7}"#.to_owned())).await;
    SchemaRegistry::new(url).schemas_of::<Current>().message::<Order>().build().await?;
    Ok(())
}

fn fingerprint<M: OutboxMessage>() -> Option<&'static [u8]> {
    M::FINGERPRINTS.first().map(|fingerprint| fingerprint.as_bytes())
}

#[tokio::test]
async fn a_consumer_in_memory_upcasts_avro_by_its_fingerprint() -> Result<()> {
    registries().await?;
    let old = OrderV1 { id: 3, note: "x".to_owned() }.payload()?.context("a payload")?;
    assert_eq!(old, [0, 0, 0, 1, 2, 6, 2, b'x']);
    let builder = Decoder::<Order, Avro<Current>>::builder().upcast_from::<Avro<Old>, OrderV1, Order>();
    let decoder = builder.build()?;
    let order = Order { id: 3, lines: vec!["x".to_owned()] };
    assert_eq!(decoder.decode(fingerprint::<OrderV1>(), &old)?, order);
    let current = order.payload()?.context("a payload")?;
    assert_eq!(decoder.decode(fingerprint::<Order>(), &current)?, order);
    Ok(())
}

#[tokio::test]
async fn avro_in_memory_that_cannot_be_decoded_is_an_error() -> Result<()> {
    registries().await?;
    let decoder = Decoder::<Order, Avro<Current>>::builder().build()?;
    for (payload, expected) in [
        (&b""[..], "the payload is empty"),
        (br#"{"id":1}"#, "begins with byte 123"),
        (&[0, 0, 0, 7], "has 4 bytes"),
        (&[0, 0, 0, 0, 8, 6, 0], "has not fetched the schema 8"),
        // The fields end early.
        (&[0, 0, 0, 0, 7], "the codec failed"),
        (&[0, 0, 0, 0, 7, 6], "the codec failed"),
        (&[0, 0, 0, 0, 7, 6, 2, 40, b'x'], "the codec failed"),
        // The text is not UTF-8.
        (&[0, 0, 0, 0, 7, 6, 2, 2, 0xff, 0], "the codec failed"),
        // The length of an array, of 2^62.
        (&[0, 0, 0, 0, 7, 6, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01], "the codec failed"),
        // More than the fields.
        (&[0, 0, 0, 0, 7, 6, 2, 2, b'x', 0, 1], "1 bytes follow the datum"),
    ] {
        let error = decoder.decode(None, payload).expect_err("no order");
        assert!(matches!(&error, DecodeError::Payload { event, .. } if event.ends_with("Order")), "{error:?}");
        assert!(error.to_string().contains(expected), "{payload:?}: {error}");
        assert!(<Avro<Current> as Codec<Order>>::text(payload).is_err(), "{payload:?}");
    }
    let whole: Order = Avro::<Current>::decode(&[0, 0, 0, 0, 7, 6, 2, 2, b'x', 0])?;
    assert_eq!(whole, Order { id: 3, lines: vec!["x".to_owned()] });
    Ok(())
}

#[derive(Clone, PartialEq, prost::Message, OutboxMessage)]
#[outbox(topic = "orders", codec = Protobuf)]
struct PaidV1 {
    #[prost(int64, tag = "1")]
    cents: i64,
}

#[derive(Clone, PartialEq, prost::Message, OutboxMessage)]
#[outbox(topic = "orders", codec = Protobuf)]
struct Paid {
    #[prost(string, tag = "1")]
    amount: String,
}

impl From<PaidV1> for Paid {
    fn from(old: PaidV1) -> Self {
        Self { amount: format!("{}.{:02}", old.cents / 100, old.cents % 100) }
    }
}

#[test]
fn a_consumer_in_memory_upcasts_protobuf_by_its_fingerprint() -> Result<()> {
    let decoder = Decoder::<Paid, Protobuf>::builder().upcast::<PaidV1, Paid>().build()?;
    let old = PaidV1 { cents: 1_250 }.payload()?.context("a payload")?;
    assert_eq!(decoder.decode(fingerprint::<PaidV1>(), &old)?, Paid { amount: "12.50".to_owned() });
    let error = decoder.decode(fingerprint::<Paid>(), &old).expect_err("a number is no text");
    assert!(matches!(error, DecodeError::Payload { .. }), "{error}");
    Ok(())
}
