use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

use crate::limits::HEADER_NAME_BYTES_MAX;

/// A message's headers: ordered, with bytes as values. A name may repeat.
///
/// ```
/// use diesel_outbox::Headers;
/// let headers: Headers = [("trace", "a"), ("trace", "b")].into_iter().collect();
/// assert_eq!(headers.get("trace"), Some(&b"a"[..]));
/// assert_eq!(headers.iter().count(), 2);
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, Vec<u8>)>);

impl Headers {
    /// No headers.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Appends a header, even if the name exists already.
    pub fn push(&mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) {
        self.0.push((name.into(), value.into()));
    }

    /// The first value of `name`.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// How many headers there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The form of the `headers` column: a JSON array of `[name, value]`, or `[name, {"b64": ..}]` if the value is not
    /// text.
    ///
    /// An array and not an object, because names may repeat and order matters. Text stays text, because people read
    /// rows too.
    ///
    /// ```
    /// use diesel_outbox::Headers;
    /// let mut headers = Headers::new();
    /// headers.push("source", "shop");
    /// headers.push("digest", vec![0xff]);
    /// assert_eq!(headers.to_json(), r#"[["source","shop"],["digest",{"b64":"/w=="}]]"#);
    /// assert_eq!(Headers::from_json(&headers.to_json()).unwrap(), headers);
    /// ```
    pub fn to_json(&self) -> String {
        if self.0.is_empty() {
            return "[]".to_owned();
        }
        let column: Vec<(&str, Value)> = self.iter().map(|(name, value)| (name, Value::from(value))).collect();
        serde_json::to_string(&column).unwrap_or_else(|error| unreachable!("strings always encode as JSON: {error}"))
    }

    /// Parses the form of the `headers` column.
    ///
    /// # Errors
    /// Returns an error if the text does not have that form.
    pub fn from_json(column: &str) -> Result<Self, HeaderError> {
        if column == "[]" {
            return Ok(Self::new());
        }
        let column: Vec<(String, Value)> =
            serde_json::from_str(column).map_err(|error| HeaderError::Json { column: error.column() })?;
        let headers = column.into_iter().map(|(name, value)| Ok((name, value.into_bytes()?)));
        headers.collect::<Result<_, HeaderError>>().map(Self)
    }

    /// What may be shown of a column: the names, or the size if it cannot be parsed.
    pub(crate) fn shown(column: &str) -> Result<Self, String> {
        Self::from_json(column).map_err(|_| format!("{} bytes that are not headers", column.len()))
    }
}

/// Why a header cannot be sent, or why a `headers` column could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The header has no name.
    #[error("its name is empty: give it one")]
    NoName,
    /// Its name has the prefix of the outbox's own headers.
    #[error("names that begin with \"outbox-\" are reserved for the outbox's own headers: choose another one")]
    Reserved,
    /// Its name is too long.
    #[error("its name has more than {HEADER_NAME_BYTES_MAX} bytes: shorten it")]
    NameTooLong,
    /// Its name contains U+0000, which would end the name in librdkafka.
    #[error("its name has a NUL: remove it")]
    Nul,
    /// It is not a JSON array of pairs. The JSON library's own message could contain a value, which must not be logged.
    #[error("the headers column is not a JSON array of [name, value]: the error is at or before byte {column}")]
    Json {
        /// Where parsing stopped, in bytes from 1.
        column: usize,
    },
    /// A value under `b64` is not base64.
    #[error("a header's b64 value is not base64: {0}")]
    Base64(base64::DecodeError),
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Bytes { b64: String },
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            // PostgreSQL's jsonb and text refuse U+0000, so such a value is stored as base64.
            Ok(text) if !text.contains('\0') => Self::Text(text.to_owned()),
            _ => Self::Bytes { b64: BASE64.encode(bytes) },
        }
    }
}

impl Value {
    fn into_bytes(self) -> Result<Vec<u8>, HeaderError> {
        match self {
            Self::Text(text) => Ok(text.into_bytes()),
            Self::Bytes { b64 } => BASE64.decode(b64).map_err(HeaderError::Base64),
        }
    }
}

impl<N: Into<String>, V: Into<Vec<u8>>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(headers: I) -> Self {
        Self(headers.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

// Values can hold tokens and personal data. Names are enough to recognise a message in a log.
impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}
