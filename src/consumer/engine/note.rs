//! What is noted with a committed offset, so that the next owner of the partition learns how the last one ended.
//!
//! A process that is killed writes nothing at its end. So each owner notes at the beginning that it has not ended cleanly yet, and
//! takes that back at its end. **Rejected:** a row or a commit for each attempt, which would cost as much as the work itself.
//!
//! Offsets of RocketMQ hold no text, so there nobody learns how an owner ended, and no record runs apart from the others. **Rejected:** a note as the offset of
//! a second group: it is written apart from the one that it is about, and shows as a group that lags. A table in the database could hold
//! notes, at the price of a write at each beginning and end of an assignment.

use std::fmt;

/// Kept as the metadata of an offset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Note {
    /// How many owners in a row have not ended cleanly, the writer included.
    pub(crate) unclean: u32,
    /// The records that run apart from all others.
    pub(crate) suspects: Option<Suspects>,
    /// The process that wrote it. One that lost the partition and gets it back did not crash.
    pub(crate) writer: u32,
}

/// Records that run apart from all others, by their offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Suspects {
    pub(crate) first: i64,
    /// At least 1. Some of these offsets may have no record.
    pub(crate) rows: i64,
    /// How often the only one has begun. 0 if there are several.
    pub(crate) starts: u32,
}

impl Suspects {
    pub(crate) fn contains(self, offset: i64) -> bool {
        offset >= self.first && offset - self.first < self.rows
    }

    /// Those that are left once the ones up to this offset have ended.
    pub(crate) fn after(self, offset: i64) -> Option<Self> {
        if !self.contains(offset) {
            return Some(self);
        }
        let ended = offset - self.first + 1;
        (ended < self.rows).then(|| Self { first: offset + 1, rows: self.rows - ended, ..self })
    }
}

const PREFIX: &str = "outbox:";

impl Note {
    /// Reads a note. What is no note of ours is a clean end: another consumer committed it.
    #[cfg(any(test, feature = "kafka"))]
    pub(crate) fn parse(text: &str) -> Self {
        let parts = text.strip_prefix(PREFIX).and_then(|rest| {
            let (unclean, rest) = rest.split_once(':')?;
            let (suspects, writer) = rest.split_once(':')?;
            let suspects = if suspects.is_empty() { None } else { Some(parse_suspects(suspects)?) };
            let writer = u32::from_str_radix(writer, 16).ok()?;
            Some(Self { unclean: unclean.parse().ok()?, suspects, writer })
        });
        parts.unwrap_or_default()
    }
}

#[cfg(any(test, feature = "kafka"))]
fn parse_suspects(text: &str) -> Option<Suspects> {
    let (starts, offsets) = text.split_once('@')?;
    let (first, rows) = offsets.split_once('+')?;
    Some(Suspects { first: first.parse().ok()?, rows: rows.parse().ok()?, starts: starts.parse().ok()? })
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unclean, suspects, writer } = self;
        match (unclean, suspects) {
            (0, None) => Ok(()),
            (_, None) => write!(f, "{PREFIX}{unclean}::{writer:x}"),
            (_, Some(Suspects { first, rows, starts })) => {
                write!(f, "{PREFIX}{unclean}:{starts}@{first}+{rows}:{writer:x}")
            }
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
            Note { unclean: 3, suspects: None, writer: 0xbeef },
            Note { unclean: 1, suspects: Some(Suspects { first: 42, rows: 1, starts: 2 }), writer: 7 },
            Note { unclean: 2, suspects: Some(Suspects { first: 42, rows: 32, starts: 0 }), writer: 7 },
        ] {
            assert_eq!(Note::parse(&note.to_string()), note);
        }
        assert_eq!(Note::default().to_string(), "", "a clean end leaves nothing");
    }

    #[test]
    fn suspects_that_have_ended_are_none_any_more() {
        let suspects = Suspects { first: 10, rows: 3, starts: 0 };
        assert_eq!([9, 10, 12, 13].map(|offset| suspects.contains(offset)), [false, true, true, false]);
        assert_eq!(suspects.after(9), Some(suspects));
        assert_eq!(suspects.after(13), Some(suspects));
        assert_eq!(suspects.after(10), Some(Suspects { first: 11, rows: 2, starts: 0 }));
        assert_eq!(suspects.after(12), None);
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
            "outbox:1:2@3:1",
            "by hand",
        ] {
            assert_eq!(Note::parse(text), Note::default(), "{text}");
        }
    }
}
