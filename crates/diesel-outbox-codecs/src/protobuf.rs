use std::fmt;

use diesel_outbox::CodecError;
use diesel_outbox::codec::Codec;
use prost::Message;

use crate::Decode;

/// Protocol Buffers, for types of prost.
///
/// ```
/// use diesel_outbox::OutboxMessage;
/// use diesel_outbox::codec::Codec as _;
/// use diesel_outbox_codecs::Protobuf;
///
/// #[derive(Clone, PartialEq, prost::Message, OutboxMessage)]
/// #[outbox(topic = "orders", key = order_id, codec = Protobuf)]
/// struct OrderPlaced {
///     #[prost(int64, tag = "1")]
///     order_id: i64,
/// }
///
/// let payload = OrderPlaced { order_id: 42 }.payload()?.expect("a payload");
/// assert_eq!(payload, [0x08, 42]);
/// # Ok::<_, diesel_outbox::CodecError>(())
/// ```
///
/// Only messages of prost compile:
///
/// ```compile_fail,E0277
/// # use {diesel_outbox::OutboxMessage, diesel_outbox_codecs::Protobuf};
/// #[derive(serde::Serialize, OutboxMessage)]
/// #[outbox(topic = "orders", codec = Protobuf)]
/// struct OrderPlaced { order_id: i64 }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Protobuf;

impl<T: Message + Default + fmt::Debug> Codec<T> for Protobuf {
    fn encode(event: &T) -> Result<Vec<u8>, CodecError> {
        Ok(event.encode_to_vec())
    }

    /// The fields, as `Debug` shows them.
    fn text(payload: &[u8]) -> Result<String, CodecError> {
        let event: T = Self::decode(payload)?;
        Ok(format!("{event:#?}"))
    }
}

impl<T: Message + Default> Decode<T> for Protobuf {
    fn decode(payload: &[u8]) -> Result<T, CodecError> {
        T::decode(payload).map_err(CodecError::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of <https://protobuf.dev/programming-guides/encoding>.
    #[derive(Clone, PartialEq, Message)]
    struct Examples {
        #[prost(int32, tag = "1")]
        a: i32,
        #[prost(string, tag = "2")]
        b: String,
        #[prost(message, optional, tag = "3")]
        c: Option<Inner>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Inner {
        #[prost(int32, tag = "1")]
        a: i32,
    }

    #[test]
    fn bytes_are_those_of_the_specification() {
        let a = Examples { a: 150, ..Examples::default() };
        assert_eq!(Protobuf::encode(&a).expect("encode"), [0x08, 0x96, 0x01]);
        let b = Examples { b: "testing".to_owned(), ..Examples::default() };
        assert_eq!(Protobuf::encode(&b).expect("encode"), b"\x12\x07testing");
        let c = Examples { c: Some(Inner { a: 150 }), ..Examples::default() };
        assert_eq!(Protobuf::encode(&c).expect("encode"), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        for event in [a, b, c] {
            let payload = Protobuf::encode(&event).expect("encode");
            let back: Examples = Protobuf::decode(&payload).expect("decode");
            assert_eq!(back, event);
        }
    }

    #[test]
    fn bad_input_is_an_error() {
        for payload in [&b"\x08"[..], b"\x12\x07test", b"\x0a\x01a", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"] {
            let decoded: Result<Examples, _> = Protobuf::decode(payload);
            let error = decoded.expect_err("not such a message").to_string();
            assert!(error.starts_with("the codec failed: failed to decode Protobuf message"), "{error}");
        }
    }

    #[test]
    fn a_payload_is_shown_by_its_fields() {
        let text = <Protobuf as Codec<Examples>>::text(b"\x08\x96\x01\x12\x07testing").expect("text");
        assert!(text.contains("a: 150") && text.contains("b: \"testing\""), "{text}");
        assert!(<Protobuf as Codec<Examples>>::text(b"\x08").is_err());
    }
}
