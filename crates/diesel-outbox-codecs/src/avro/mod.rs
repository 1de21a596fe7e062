//! Avro in the wire format of schema registries: a zero byte, the id of the schema in four bytes, and the datum.
//!
//! The registry is asked when [`AvroSchemas`] are built, at start, and never in a transaction. Rows hold the final bytes.
//!
//! ```no_run
//! use apache_avro::AvroSchema;
//! use diesel_outbox::{Outbox, OutboxMessage, Topic};
//! use diesel_outbox_codecs::avro::{Avro, SchemaRegistry};
//!
//! #[derive(serde::Serialize, AvroSchema, OutboxMessage)]
//! #[outbox(topic = "orders", kind = "order.placed", key = order_id, codec = Avro)]
//! struct OrderPlaced { order_id: i64 }
//!
//! # async fn start() -> Result<(), Box<dyn std::error::Error>> {
//! let registry = SchemaRegistry::new("https://registry.example:8081").basic_auth("shop", "swordfish");
//! registry.schemas().message::<OrderPlaced>().build().await?;
//! let outbox = Outbox::builder().topic(Topic::new("orders")).message::<OrderPlaced>().build()?;
//! # let _ = outbox;
//! # Ok(())
//! # }
//! ```

mod codec;
mod schemas;
mod subject;
mod table;
mod wire;

pub use codec::{Avro, DefaultRegistry};
pub use schemas::{AvroSchemas, AvroSchemasBuilder};
pub use subject::SubjectNames;

pub use crate::registry::{SchemaError, SchemaProblem, SchemaRegistry};
