use std::any::type_name;
use std::marker::PhantomData;
use std::sync::Arc;

use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value;
use apache_avro::{AvroSchema, Schema, from_value};
use diesel_outbox::CodecError;
use diesel_outbox::codec::Codec;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{table, wire};
use crate::Decode;

/// The codec: `#[outbox(codec = Avro)]`. The event's type derives `serde::Serialize` and `apache_avro::AvroSchema`.
///
/// Its schema's id must be known before: build [`AvroSchemas`](super::AvroSchemas) at start. Otherwise an outbox with the type as a
/// [registered message](diesel_outbox::OutboxBuilder::message) is not built, and an enqueue fails.
///
/// Without the schema, the event does not compile:
///
/// ```compile_fail,E0277
/// # use {diesel_outbox::OutboxMessage, diesel_outbox_codecs::avro::Avro};
/// #[derive(serde::Serialize, OutboxMessage)]
/// #[outbox(topic = "orders", codec = Avro)]
/// struct OrderPlaced { order_id: i64 }
/// ```
///
/// A consumer decodes with it, too: a payload that another version of the type wrote is resolved by Avro's rules.
#[derive(Debug)]
pub struct Avro<R = DefaultRegistry>(PhantomData<fn() -> R>);

/// The registry of an [`Avro`] codec without another one. Name a type of your own, as in `Avro<Warehouse>`, if a process uses
/// several registries.
#[derive(Debug, Clone, Copy)]
pub struct DefaultRegistry;

impl<T, R> Codec<T> for Avro<R>
where
    T: Serialize + AvroSchema + 'static,
    R: 'static,
{
    fn encode(event: &T) -> Result<Vec<u8>, CodecError> {
        let own = table::own::<R, T>().ok_or_else(not_built::<T>)?;
        let mut payload = wire::prefix(own.id).to_vec();
        own.writer.write_ser(&mut payload, event).map_err(CodecError::new)?;
        Ok(payload)
    }

    fn check() -> Result<(), CodecError> {
        table::own::<R, T>().map(drop).ok_or_else(not_built::<T>)
    }

    /// The datum as JSON, read by the schema that it was written with.
    fn text(payload: &[u8]) -> Result<String, CodecError> {
        let (id, datum) = wire::split(payload)?;
        let writer = writer::<R>(id)?;
        let value = read(&writer, None, datum)?;
        let value: serde_json::Value = value.try_into().map_err(CodecError::new)?;
        Ok(value.to_string())
    }
}

impl<T, R> Decode<T> for Avro<R>
where
    T: DeserializeOwned + AvroSchema + 'static,
    R: 'static,
{
    fn decode(payload: &[u8]) -> Result<T, CodecError> {
        let (id, datum) = wire::split(payload)?;
        let writer = writer::<R>(id)?;
        let value = read(&writer, Some(table::schema_of::<T>()), datum)?;
        from_value(&value).map_err(CodecError::new)
    }
}

/// The schema that a payload was written with.
fn writer<R: 'static>(id: u32) -> Result<Arc<Schema>, CodecError> {
    table::by_id::<R>(id).ok_or_else(|| {
        CodecError::new(format!(
            "this process has not fetched the schema {id} from the registry: call `AvroSchemas::fetch` with the payload first"
        ))
    })
}

fn read(writer: &Schema, reader: Option<&Schema>, mut datum: &[u8]) -> Result<Value, CodecError> {
    let datums = GenericDatumReader::builder(writer).maybe_reader_schema(reader).build().map_err(CodecError::new)?;
    let value = datums.read_value(&mut datum).map_err(CodecError::new)?;
    match datum.len() {
        0 => Ok(value),
        left => Err(CodecError::new(format!("{left} bytes follow the datum: it was written with another schema"))),
    }
}

fn not_built<T>() -> CodecError {
    let name = type_name::<T>();
    CodecError::new(format!(
        "the id of the schema of `{name}` is not known: at start, before the outbox is built, call \
         `SchemaRegistry::new(..).schemas().message::<{name}>().build()`"
    ))
}
