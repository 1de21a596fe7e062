//! The derive macro. Its documentation is here, and not beside the macro, because its examples need this crate.

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
///   (`topic = ORDERS`, `topic = crate::topics::ORDERS`; a `&'static str`) is as fixed as a string. Any other
///   [value](#values) chooses the topic of each message at run time, and `OutboxMessage::TOPIC` is `None`.
///
/// # On the type, optional
///
/// * **`kind = "order.placed"`**: what happened, a string or a constant. By default it is the type's name in snake
///   case, or for an enum the variant's. Consumers match on it, so set it before you rename the type.
/// * **`key = order_id`**: what the message is about, a [value](#values) that implements `Display`. Without it, and
///   without a field marked `#[outbox(key)]`, messages have no key.
/// * **`codec = path::to::Codec`**: how the event becomes bytes; by default `diesel_outbox::codec::Json`, which needs
///   `serde::Serialize`.
/// * **`tombstone`**: the messages have no payload, and the event needs no codec.
/// * **`headers("source" = "shop", "tenant" = tenant.id)`**: headers of every message, in this order, before those of
///   marked fields; names may repeat. Each is a [value](#values) that implements `Display`. Names that begin with
///   `outbox-` are reserved for the library.
/// * **`crate = path`**: the path of `diesel_outbox`, if it is re-exported or renamed.
///
/// # On a variant
///
/// * **`kind = "order.cancelled"`**: instead of the type's.
/// * **`tombstone`**: this variant has no payload.
///
/// # On a field
///
/// * **`key`**: this field is the key, instead of `key = ..` on the type. In an enum each variant marks its own; a
///   variant without a marked field has no key.
/// * **`header`**, **`header = "tenant-id"`**: sends the field as a header too, under its own name or the given one.
///
/// Marked fields stay in the payload; `#[serde(skip)]` removes one.
///
/// # Values
///
/// | written | meaning |
/// |---|---|
/// | `order_id`, `order.id`, `order.number()` | the field, or the result of the chain; in an enum the field of the current variant |
/// | `account?`, `account?.id` | the same, through an `Option`: `None` means no key, or omits the header |
/// | `ORDERS`, `crate::topics::ORDERS` | the constant |
/// | `"shop"`, `3` | the literal; refused as a key, because it would be the same for every message |
/// | `self.0`, `self.number()`, `format!("{}-{}", self.shop, self.order)` | any expression over `self`; a `?` on an `Option` works there too |
///
/// A field whose type is written `Option<..>` needs no `?`. A header field of type `Vec<u8>`, `&[u8]` or `[u8; N]` is
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
/// The codec encodes the whole enum as the payload; with JSON, serde's attributes decide how the variant appears.
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
/// # Fingerprints
///
/// `OutboxMessage::FINGERPRINTS` has one for the type, or for each variant: a hash of the codec's name, the names and types of the
/// fields as they are written, the variants' names, and the attributes of serde, prost and avro that change the payload. It does
/// not change with the type's name, its kinds, its topic, or fields that serde skips. Types of fields are not looked into.
///
/// # Generics
///
/// A type with type or const parameters gets a bound on its codec, and `Display` for marked or named fields whose types
/// contain a parameter. Put further bounds of an expression into the type's own where clause.
pub use diesel_outbox_derive::OutboxMessage;
