//! Codecs for [diesel-outbox](diesel_outbox) besides JSON, and decoders for its consumers.
//!
//! ```
//! use diesel_outbox::OutboxMessage;
//! use diesel_outbox::codec::Json;
//! use diesel_outbox_codecs::Decoder;
//!
//! /// As version 1 of the producer had it.
//! #[derive(serde::Serialize, serde::Deserialize, OutboxMessage)]
//! #[outbox(topic = "orders")]
//! struct OrderPlacedV1 { order_id: i64 }
//!
//! #[derive(serde::Serialize, serde::Deserialize, OutboxMessage)]
//! #[outbox(topic = "orders")]
//! struct OrderPlaced { order_id: i64, currency: String }
//!
//! impl From<OrderPlacedV1> for OrderPlaced {
//!     fn from(old: OrderPlacedV1) -> Self {
//!         Self { order_id: old.order_id, currency: "EUR".to_owned() }
//!     }
//! }
//!
//! let decoder = Decoder::<OrderPlaced, Json>::builder().upcast::<OrderPlacedV1, OrderPlaced>().build()?;
//! // The header `outbox-fingerprint` of a message that version 1 sent:
//! let fingerprint = Some(OrderPlacedV1::FINGERPRINTS[0].as_bytes());
//! let order = decoder.decode(fingerprint, br#"{"order_id":42}"#)?;
//! assert_eq!(order.currency, "EUR");
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! | part | feature | does |
//! |---|---|---|
//! | [`Decoder`] | | decodes in a consumer, and converts messages of an old shape |
//! | `Protobuf` | `protobuf` | a codec for types of prost |
//! | [`avro`] | `avro` | a codec for types with an Avro schema, and the client of a schema registry |
//! | [`cloudevents`] | `cloudevents` | a transport that sends messages as CloudEvents |
//! | [`webhook`] | `webhook` | an extractor of axum that verifies what the library's HTTP transport signed, and handles it once |
//!
//! It is a crate of its own, so that the library needs none of these dependencies, and so that the codecs can follow new versions of
//! prost and apache-avro, which are in their types, without a new version of the library.
#![forbid(unsafe_code)]

#[cfg(feature = "avro")]
pub mod avro;
#[cfg(feature = "cloudevents")]
pub mod cloudevents;
mod decode;
mod decoder;
#[cfg(feature = "protobuf")]
mod protobuf;
#[cfg(feature = "avro")]
mod registry;
#[cfg(feature = "webhook")]
pub mod webhook;

pub use decode::Decode;
pub use decoder::{DecodeError, Decoder, DecoderBuildError, DecoderBuilder};
#[cfg(feature = "protobuf")]
pub use protobuf::Protobuf;
