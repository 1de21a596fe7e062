use diesel_outbox::CodecError;
use diesel_outbox::codec::Json;
use serde::de::DeserializeOwned;

/// A codec that also decodes, for consumers.
///
/// ```
/// use diesel_outbox::codec::Json;
/// use diesel_outbox_codecs::Decode;
///
/// let numbers: Vec<u8> = Json::decode(b"[1, 2]")?;
/// assert_eq!(numbers, [1, 2]);
/// # Ok::<_, diesel_outbox::CodecError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "the codec `{Self}` cannot decode `{T}`",
    note = "`Json` needs `serde::Deserialize`, `Protobuf` needs a message of prost, `Avro` needs `serde::Deserialize` and `AvroSchema`"
)]
pub trait Decode<T> {
    /// Decodes one payload.
    ///
    /// # Errors
    /// Returns an error if the payload is not such an event.
    fn decode(payload: &[u8]) -> Result<T, CodecError>;
}

impl<T: DeserializeOwned> Decode<T> for Json {
    fn decode(payload: &[u8]) -> Result<T, CodecError> {
        serde_json::from_slice(payload).map_err(CodecError::new)
    }
}
