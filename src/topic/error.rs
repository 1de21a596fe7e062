//! What can be wrong with a topic.

use std::fmt;
use std::time::Duration;

use crate::limits::{LANES_MAX, STALENESS_MIN};
use crate::retention::RetentionProblem;

/// What is wrong with a configured topic, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TopicProblem {
    NameLength { chars_max: usize },
    NameCharacters,
    Staleness(Duration),
    AttemptsMax,
    MessageBytesMax,
    NotOrdered,
    NotFenced,
    Lanes,
    Retention(RetentionProblem),
}

impl fmt::Display for TopicProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameLength { chars_max } => {
                write!(f, "a name has 1 to {chars_max} characters and is neither \".\" nor \"..\"")
            }
            Self::NameCharacters => f.write_str("a name holds only a-z, A-Z, 0-9, \".\", \"_\" and \"-\""),
            Self::Staleness(given) => {
                write!(
                    f,
                    "staleness is {given:?}; use at least {STALENESS_MIN:?}: otherwise two processes often send the same row"
                )
            }
            Self::AttemptsMax => {
                f.write_str("attempts_max is 0, so no message would ever be sent; use at least 1")
            }
            Self::NotOrdered => f.write_str(
                "lanes, on_failed_key, serialize_by_key, fenced and exactly_once are for ordered topics: add .ordered_by_key()",
            ),
            Self::NotFenced => f.write_str("exactly_once is for fenced topics: add .fenced()"),
            Self::Lanes => write!(f, "an ordered topic has 1 to {LANES_MAX} lanes"),
            Self::Retention(problem) => problem.fmt(f),
            Self::MessageBytesMax => f.write_str("message_bytes_max is 0; set it to the broker's limit"),
        }
    }
}
