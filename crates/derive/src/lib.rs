//! The derive macro of [diesel-outbox](https://docs.rs/diesel-outbox), which re-exports it: depend on that crate.
#![forbid(unsafe_code)]

mod attrs;
mod event;
mod expand;
mod names;
mod places;
mod shape;
mod types;
mod value;
mod written;

#[cfg(test)]
#[path = "../tests/mod.rs"]
mod tests;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `OutboxMessage` for a struct or an enum, by its `#[outbox(..)]` attributes.
///
/// ```
/// use diesel_outbox::OutboxMessage;
/// use serde::Serialize;
///
/// #[derive(Serialize, OutboxMessage)]
/// #[outbox(topic = "orders", kind = "order.placed", key = order_id)]
/// struct OrderPlaced { order_id: i64, total_cents: i64 }
///
/// let placed = OrderPlaced { order_id: 42, total_cents: 1999 };
/// assert_eq!(OrderPlaced::TOPIC, Some("orders"));
/// assert_eq!(placed.key().as_deref(), Some("42"));
/// assert_eq!(placed.payload().unwrap().unwrap(), br#"{"order_id":42,"total_cents":1999}"#);
/// ```
///
/// # On the type, required
///
/// * **`topic = "orders"`**: where the messages go; checked against Kafka's rules for names. A constant
///   (`topic = ORDERS`, `topic = crate::topics::ORDERS`; a `&'static str`) is as fixed as a text. Any other [value](#values)
///   chooses the topic of each message at run time, and `OutboxMessage::TOPIC` is `None`.
///
/// # On the type, optional
///
/// * **`kind = "order.placed"`**: what happened, a text or a constant. Without it: the name of the type in snake case, for
///   an enum that of the variant. Consumers match on it, so name it before you rename the type.
/// * **`key = order_id`**: what the message is about, a [value](#values) that implements `Display`. Without it, and
///   without a field marked `#[outbox(key)]`, messages have no key.
/// * **`codec = path::to::Codec`**: how the event becomes bytes; `diesel_outbox::codec::Json` without it, which needs
///   `serde::Serialize`.
/// * **`tombstone`**: the messages have no payload, and the event needs no codec.
/// * **`headers("source" = "shop", "tenant" = tenant.id)`**: headers of every message, in this order, before those of marked
///   fields; names may repeat. Each is a [value](#values) that implements `Display`. Names that begin with `outbox-` are
///   the library's own.
/// * **`crate = path`**: where `diesel_outbox` is, for those who re-export or rename it.
///
/// # On a variant
///
/// * **`kind = "order.cancelled"`**: instead of the type's.
/// * **`tombstone`**: this variant has no payload.
///
/// # On a field
///
/// * **`key`**: this field is the key, instead of `key = ..` on the type. In an enum each variant marks its own; one that
///   marks none has no key.
/// * **`header`**, **`header = "tenant-id"`**: sends the field also as a header, under its own name or the given one.
///
/// The fields stay in the payload; `#[serde(skip)]` takes one out.
///
/// # Values
///
/// | written | is |
/// |---|---|
/// | `order_id`, `order.id`, `order.number()` | the field, or what the chain from that field yields; in an enum the field of whichever variant it is |
/// | `account?`, `account?.id` | the same, through an `Option`: `None` means no key, or leaves the header out |
/// | `ORDERS`, `crate::topics::ORDERS` | the constant |
/// | `"shop"`, `3` | itself; refused as a key, which would be the same for every message |
/// | `self.0`, `self.number()`, `format!("{}-{}", self.shop, self.order)` | any expression over `self`; a `?` on an `Option` works there too |
///
/// A field whose type is written `Option<..>` needs no `?`. As a header, a field of type `Vec<u8>`, `&[u8]` or `[u8; N]` is
/// sent as its bytes.
///
/// ```
/// # use diesel_outbox::OutboxMessage;
/// # use serde::Serialize;
/// #[derive(Serialize, OutboxMessage)]
/// #[outbox(topic = region, key = format!("{}/{}", self.shop, self.order_id), headers("source" = "shop"))]
/// struct OrderShipped {
///     #[serde(skip)]
///     region: String,
///     shop: String,
///     order_id: i64,
///     #[outbox(header = "trace-id")]
///     trace: Option<String>,
/// }
///
/// let shipped = OrderShipped { region: "orders-eu".into(), shop: "lyon".into(), order_id: 42, trace: None };
/// assert_eq!(shipped.topic(), "orders-eu");
/// assert_eq!(shipped.key().as_deref(), Some("lyon/42"));
/// assert_eq!(shipped.headers().get("source"), Some(&b"shop"[..]));
/// assert_eq!(shipped.headers().get("trace-id"), None);
/// ```
///
/// # Enums
///
/// The payload is what the codec makes of the whole enum; with JSON, serde's attributes say how the variant shows.
///
/// ```
/// # use diesel_outbox::OutboxMessage;
/// # use serde::Serialize;
/// #[derive(Serialize, OutboxMessage)]
/// #[serde(untagged)]
/// #[outbox(topic = "customers", key = id)]
/// enum CustomerChange {
///     #[outbox(kind = "customer.changed")]
///     Changed { id: i64, name: String },
///     #[outbox(kind = "customer.erased", tombstone)]
///     Erased { id: i64 },
/// }
///
/// let erased = CustomerChange::Erased { id: 7 };
/// assert_eq!(erased.kind(), "customer.erased");
/// assert_eq!(erased.key().as_deref(), Some("7"));
/// assert_eq!(erased.payload().unwrap(), None);
/// ```
///
/// # Generics
///
/// A type with type or const parameters gets the bound that its codec encodes it, and `Display` for marked or named
/// fields whose types hold a parameter. What an expression needs beyond that goes in the type's own where clause.
#[proc_macro_derive(OutboxMessage, attributes(outbox))]
pub fn derive_outbox_message(input: TokenStream) -> TokenStream {
    expand::derive(&parse_macro_input!(input as DeriveInput)).into()
}
