//! How an event becomes bytes: [`Json`] by default, [`Raw`] for bytes as they are, or your own [`Codec`].

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Encodes an event as a payload.
///
/// It is named in `#[outbox(codec = ..)]`. It has no state, so it is never constructed.
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
    /// Returns an error if this event cannot be represented.
    fn encode(event: &T) -> Result<Vec<u8>, CodecError>;

    /// Whether the codec can encode such events: [`OutboxBuilder::build`](crate::OutboxBuilder::build) asks it for each
    /// [registered](crate::OutboxBuilder::message) type. For a codec that needs something at start, such as the id of a schema.
    ///
    /// # Errors
    /// Returns what is missing, and what to do.
    fn check() -> Result<(), CodecError> {
        Ok(())
    }

    /// A payload of this codec in readable form, for people who inspect a dead letter
    /// ([`Admin::payload_text`](crate::admin::Admin::payload_text)). If it fails, they see the bytes.
    ///
    /// # Errors
    /// Returns an error if the payload is not of this codec, or if the codec has no readable form.
    fn text(payload: &[u8]) -> Result<String, CodecError> {
        let _ = payload;
        Err(CodecError::new("its codec has no readable form: implement `Codec::text`"))
    }
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

    /// The payload as it is, if it is JSON.
    fn text(payload: &[u8]) -> Result<String, CodecError> {
        let text = std::str::from_utf8(payload).map_err(CodecError::new)?;
        serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(CodecError::new)?;
        Ok(text.to_owned())
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

    /// The bytes, if they are text.
    fn text(payload: &[u8]) -> Result<String, CodecError> {
        std::str::from_utf8(payload).map(str::to_owned).map_err(CodecError::new)
    }
}

/// Why an event could not be encoded, or a payload could not be read.
///
/// ```
/// use diesel_outbox::CodecError;
/// let error = CodecError::new("no such unit");
/// assert_eq!(error.to_string(), "the codec failed: no such unit");
/// ```
#[derive(Debug)]
pub struct CodecError(Box<dyn std::error::Error + Send + Sync>);

/// The event in a stored payload that [`Json`] wrote. A tombstone is read as `null`.
pub(crate) fn decode_json<T: DeserializeOwned>(payload: Option<&[u8]>) -> Result<T, CodecError> {
    serde_json::from_slice(payload.unwrap_or(b"null")).map_err(CodecError::new)
}

impl CodecError {
    /// Wraps a codec's own error.
    pub fn new(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(source.into())
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the codec failed: {}", self.0)
    }
}

/// The codec's error is in the text, so the source is that error's source.
impl std::error::Error for CodecError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}
