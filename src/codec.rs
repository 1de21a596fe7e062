//! How an event becomes bytes: [`Json`] by default, [`Raw`] for bytes as they are, or a [`Codec`] of one's own.

use serde::Serialize;

/// Encodes an event as a payload.
///
/// Named in `#[outbox(codec = ..)]`; it carries no state, so it is never constructed.
///
/// ```
/// use diesel_outbox::codec::{Codec, CodecError};
///
/// /// One line of comma-separated values.
/// struct Csv;
///
/// impl Codec<(u32, u32)> for Csv {
///     fn encode(event: &(u32, u32)) -> Result<Vec<u8>, CodecError> {
///         Ok(format!("{},{}", event.0, event.1).into_bytes())
///     }
/// }
/// assert_eq!(Csv::encode(&(1, 2)).unwrap(), b"1,2");
/// ```
#[diagnostic::on_unimplemented(
    message = "the codec `{Self}` cannot encode `{T}`",
    note = "`Json` needs `serde::Serialize`, `Raw` needs `AsRef<[u8]>`"
)]
pub trait Codec<T: ?Sized> {
    /// Encodes one event.
    ///
    /// # Errors
    /// When this event cannot be represented.
    fn encode(event: &T) -> Result<Vec<u8>, CodecError>;
}

/// JSON through serde; the default.
///
/// ```
/// use diesel_outbox::codec::{Codec, Json};
/// assert_eq!(Json::encode(&vec![1, 2]).unwrap(), b"[1,2]");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Json;

impl<T: Serialize + ?Sized> Codec<T> for Json {
    fn encode(event: &T) -> Result<Vec<u8>, CodecError> {
        serde_json::to_vec(event).map_err(CodecError::new)
    }
}

/// The event's own bytes, as they are.
///
/// ```
/// use diesel_outbox::codec::{Codec, Raw};
/// assert_eq!(Raw::encode("as is").unwrap(), b"as is");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Raw;

impl<T: AsRef<[u8]> + ?Sized> Codec<T> for Raw {
    fn encode(event: &T) -> Result<Vec<u8>, CodecError> {
        Ok(event.as_ref().to_vec())
    }
}

/// Why an event could not be encoded.
///
/// ```
/// use diesel_outbox::CodecError;
/// let error = CodecError::new("no such unit");
/// assert_eq!(error.to_string(), "the event could not be encoded: no such unit");
/// ```
#[derive(Debug, thiserror::Error)]
#[error("the event could not be encoded: {source}")]
pub struct CodecError {
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl CodecError {
    /// Wraps a codec's own error.
    pub fn new(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { source: source.into() }
    }
}
