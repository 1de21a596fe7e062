//! Why messages are dead-lettered.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// Why a message was dead-lettered: the word with which the `reason` column begins, before the colon and the error.
///
/// ```
/// use diesel_outbox::admin::DeadLetterReason;
/// assert_eq!(DeadLetterReason::from("refused"), DeadLetterReason::Refused);
/// assert_eq!(DeadLetterReason::Attempts.to_string(), "attempts");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeadLetterReason {
    /// The broker or receiver refused it, also when it was sent alone: `refused`.
    Refused,
    /// Its last attempt failed: `attempts`.
    Attempts,
    /// Its row could not be decoded: `poisoned`.
    Poisoned,
    /// Another word, of a later version or written by hand.
    Other(Arc<str>),
}

impl DeadLetterReason {
    /// That of a `reason` column.
    pub(crate) fn of(column: &str) -> Self {
        Self::from(column.split(':').next().unwrap_or_default())
    }

    /// The word.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Refused => "refused",
            Self::Attempts => "attempts",
            Self::Poisoned => "poisoned",
            Self::Other(word) => word,
        }
    }
}

impl From<&str> for DeadLetterReason {
    fn from(word: &str) -> Self {
        let known = [Self::Refused, Self::Attempts, Self::Poisoned];
        known.into_iter().find(|reason| reason.as_str() == word).unwrap_or_else(|| Self::Other(word.into()))
    }
}

impl fmt::Display for DeadLetterReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// As the word.
impl Serialize for DeadLetterReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_begins_with_the_reason() {
        for (column, reason) in [
            ("refused: too large: 2 MB", DeadLetterReason::Refused),
            ("attempts: timed out", DeadLetterReason::Attempts),
            ("poisoned", DeadLetterReason::Poisoned),
            ("Refused: by hand", DeadLetterReason::Other("Refused".into())),
            ("", DeadLetterReason::Other("".into())),
        ] {
            assert_eq!(DeadLetterReason::of(column), reason, "{column}");
            assert!(column.starts_with(reason.as_str()), "{column}");
        }
    }
}
