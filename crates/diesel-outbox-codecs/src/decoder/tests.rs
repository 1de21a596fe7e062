use serde::{Deserialize, Serialize};

use super::*;

#[derive(Debug, Serialize, Deserialize, OutboxMessage)]
#[outbox(topic = "orders")]
struct V1 {
    order: u32,
}

#[derive(Debug, Serialize, Deserialize, OutboxMessage)]
#[outbox(topic = "orders")]
struct V2 {
    order: u32,
    cents: u32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, OutboxMessage)]
#[outbox(topic = "orders")]
struct Order {
    order: u32,
    cents: u32,
    currency: String,
}

impl From<V1> for V2 {
    fn from(old: V1) -> Self {
        Self { order: old.order, cents: 7 }
    }
}

impl From<V2> for Order {
    fn from(old: V2) -> Self {
        Self { order: old.order, cents: old.cents, currency: "EUR".to_owned() }
    }
}

impl From<V2> for V1 {
    fn from(old: V2) -> Self {
        Self { order: old.order }
    }
}

fn of<M: OutboxMessage>() -> Option<&'static [u8]> {
    M::FINGERPRINTS.first().map(|fingerprint| fingerprint.as_bytes())
}

fn order(order: u32, cents: u32, currency: &str) -> Order {
    Order { order, cents, currency: currency.to_owned() }
}

#[test]
fn each_shape_is_decoded_as_its_type_and_converted_step_by_step() {
    let decoder = Decoder::<Order>::builder().upcast::<V1, V2>().upcast::<V2, Order>().build().expect("a decoder");
    let decode = |fingerprint, payload: &str| decoder.decode(fingerprint, payload.as_bytes()).expect("decode");
    let current = r#"{"order":1,"cents":2,"currency":"USD"}"#;
    assert_eq!(decode(of::<Order>(), current), order(1, 2, "USD"));
    assert_eq!(decode(None, current), order(1, 2, "USD"));
    assert_eq!(decode(of::<V2>(), r#"{"order":1,"cents":2}"#), order(1, 2, "EUR"));
    assert_eq!(decode(of::<V1>(), r#"{"order":1}"#), order(1, 7, "EUR"));
}

#[test]
fn an_unknown_fingerprint_is_refused_with_what_to_do() {
    let builder = || Decoder::<Order>::builder().upcast::<V2, Order>();
    let current = br#"{"order":1,"cents":2,"currency":"USD","note":"new"}"#;
    let decoder = builder().build().expect("a decoder");
    let error = decoder.decode(Some(b"0123456789abcdef"), current).expect_err("unknown");
    assert!(matches!(&error, DecodeError::UnknownFingerprint { known, .. } if known.len() == 2), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("0123456789abcdef") && text.contains("Order") && text.contains("upcast"), "{text}");
    let lenient = builder().accept_unknown().build().expect("a decoder");
    assert_eq!(lenient.decode(Some(b"0123456789abcdef"), current).expect("decode"), order(1, 2, "USD"));
}

#[test]
fn a_message_says_its_shape_in_its_headers() {
    let decoder = Decoder::<Order>::builder().upcast::<V2, Order>().build().expect("a decoder");
    let headers = |fingerprint: &str| [("tenant", "7"), ("outbox-fingerprint", fingerprint)].into_iter().collect();
    let old: Headers = headers(V2::FINGERPRINTS[0]);
    let payload = Some(&br#"{"order":1,"cents":2}"#[..]);
    assert_eq!(decoder.decode_message(&old, payload).expect("decode"), Some(order(1, 2, "EUR")));
    assert_eq!(decoder.decode_message(&old, None).expect("a tombstone"), None);
    let error = decoder.decode_message(&Headers::new(), payload).expect_err("it lacks a field").to_string();
    assert!(error.contains("cannot be decoded as") && error.contains("currency"), "{error}");
    let error = decoder.decode_message(&headers("0123456789abcdef"), payload).expect_err("unknown").to_string();
    assert!(error.starts_with("the codec failed: no type of the decoder"), "{error}");
}

#[test]
fn a_payload_of_another_shape_names_the_type() {
    let decoder = Decoder::<Order>::builder().upcast::<V2, Order>().build().expect("a decoder");
    for (fingerprint, name) in [(of::<V2>(), "V2"), (of::<Order>(), "Order"), (None, "Order")] {
        let error = decoder.decode(fingerprint, b"{}").expect_err("not its shape").to_string();
        assert!(error.contains(&format!("tests::{name}`")), "{error}");
    }
}

#[test]
fn old_types_that_cannot_work_are_refused() {
    #[derive(Deserialize)]
    struct ByHand {
        order: u32,
    }
    impl OutboxMessage for ByHand {
        const TOPIC: Option<&'static str> = Some("orders");
        const KIND: &'static str = "by_hand";
        fn payload(&self) -> Result<Option<Vec<u8>>, CodecError> {
            Ok(None)
        }
    }
    impl From<ByHand> for Order {
        fn from(old: ByHand) -> Self {
            order(old.order, 0, "EUR")
        }
    }
    #[derive(Serialize, Deserialize, OutboxMessage)]
    #[outbox(topic = "orders")]
    struct Same {
        order: u32,
        cents: u32,
        currency: String,
    }
    impl From<Same> for Order {
        fn from(old: Same) -> Self {
            order(old.order, old.cents, &old.currency)
        }
    }
    let build = |builder: DecoderBuilder<Order>| builder.build().expect_err("it cannot work");
    let none = build(Decoder::builder().upcast::<ByHand, Order>());
    assert!(matches!(none, DecoderBuildError::NoFingerprint { old } if old.ends_with("ByHand")), "{none}");
    let same = build(Decoder::builder().upcast::<Same, Order>());
    assert!(matches!(same, DecoderBuildError::SameShape { other, .. } if other.ends_with("Order")), "{same}");
    let twice = build(Decoder::builder().upcast::<V2, Order>().upcast::<V2, Order>());
    assert!(matches!(twice, DecoderBuildError::SameShape { .. }), "{twice}");
    let end = build(Decoder::builder().upcast::<V1, V2>());
    assert!(matches!(end, DecoderBuildError::DeadEnd { end, .. } if end.ends_with("V2")), "{end}");
    let circle = build(Decoder::builder().upcast::<V1, V2>().upcast::<V2, V1>());
    assert!(matches!(circle, DecoderBuildError::DeadEnd { .. }), "{circle}");
}
