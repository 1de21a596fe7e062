//! What is noted with a committed offset, so that the next owner of the partition learns how the last one ended.
//!
//! A process that is killed writes nothing at its end. So each owner notes at the beginning that it has not ended cleanly yet, and
//! takes that back at its end. **Rejected:** a row or a commit for each attempt, which would cost as much as the work itself.
//!
//! Offsets of RocketMQ hold no text, so there nobody learns how an owner ended, and no record runs alone. **Rejected:** a note as the offset of
//! a second group: it is written apart from the one that it is about, and shows as a group that lags. A table in the database could hold
//! notes, at the price of a write at each beginning and end of an assignment.

use std::fmt;

/// Kept as the metadata of an offset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Note {
    /// How many owners in a row have not ended cleanly, the writer included.
    pub(crate) unclean: u32,
    /// The record that runs alone, and how often it has begun so.
    pub(crate) alone: Option<Alone>,
    /// The process that wrote it. One that lost the partition and gets it back did not crash.
    pub(crate) writer: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Alone {
    pub(crate) offset: i64,
    pub(crate) starts: u32,
}

const PREFIX: &str = "outbox:";

impl Note {
    /// Reads a note. What is no note of ours is a clean end: another consumer committed it.
    #[cfg(any(test, feature = "kafka"))]
    pub(crate) fn parse(text: &str) -> Self {
        let parts = text.strip_prefix(PREFIX).and_then(|rest| {
            let (unclean, rest) = rest.split_once(':')?;
            let (alone, writer) = rest.split_once(':')?;
            let alone = match alone.split_once('@') {
                Some((starts, offset)) => Some(Alone { starts: starts.parse().ok()?, offset: offset.parse().ok()? }),
                None if alone.is_empty() => None,
                None => return None,
            };
            let writer = u32::from_str_radix(writer, 16).ok()?;
            Some(Self { unclean: unclean.parse().ok()?, alone, writer })
        });
        parts.unwrap_or_default()
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unclean, alone, writer } = self;
        match (unclean, alone) {
            (0, None) => Ok(()),
            (_, None) => write!(f, "{PREFIX}{unclean}::{writer:x}"),
            (_, Some(Alone { offset, starts })) => write!(f, "{PREFIX}{unclean}:{starts}@{offset}:{writer:x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        for note in [
            Note::default(),
            Note { unclean: 3, alone: None, writer: 0xbeef },
            Note { unclean: 1, alone: Some(Alone { offset: 42, starts: 2 }), writer: 7 },
        ] {
            assert_eq!(Note::parse(&note.to_string()), note);
        }
        assert_eq!(Note::default().to_string(), "", "a clean end leaves nothing");
    }

    #[test]
    fn what_others_wrote_is_no_unclean_end() {
        for text in [
            "",
            "outbox",
            "outbox:",
            "outbox:x::1",
            "outbox:1",
            "outbox:1:",
            "outbox:1:a@b:1",
            "outbox:1:2:1",
            "by hand",
        ] {
            assert_eq!(Note::parse(text), Note::default(), "{text}");
        }
    }
}
