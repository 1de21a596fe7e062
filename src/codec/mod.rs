//! How an event becomes bytes: [`Json`] by default, [`Raw`] for bytes as they are, or your own [`Codec`].

pub(crate) mod error;

use serde::Serialize;
use serde::de::DeserializeOwned;

// Public at the root alone.
pub(crate) use self::error::CodecError;

/// Encodes an event as a payload.
///
/// It is named in `#[outbox(codec = ..)]`. It has no state, so it is never constructed.
///
/// ```
/// use diesel_outbox::CodecError;
/// use diesel_outbox::codec::Codec;
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

/// The event in a stored payload that [`Json`] wrote. A tombstone is read as `null`.
pub(crate) fn decode_json<T: DeserializeOwned>(payload: Option<&[u8]>) -> Result<T, CodecError> {
    serde_json::from_slice(payload.unwrap_or(b"null")).map_err(CodecError::new)
}
