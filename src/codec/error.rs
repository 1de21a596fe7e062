use std::fmt;

/// Why an event could not be encoded, or a payload could not be read.
///
/// ```
/// use diesel_outbox::CodecError;
/// let error = CodecError::new("no such unit");
/// assert_eq!(error.to_string(), "the codec failed: no such unit");
/// ```
#[derive(Debug)]
pub struct CodecError(Box<dyn std::error::Error + Send + Sync>);

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
