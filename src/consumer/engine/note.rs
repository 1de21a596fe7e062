//! What is noted with a committed offset, so that the next owner of the partition learns how the last one ended.
//!
//! A process that is killed writes nothing at its end. So each owner notes at the beginning that it has not ended cleanly yet, and
//! takes that back at its end. **Rejected:** a row or a commit for each attempt, which would cost as much as the work itself.
//!
//! Offsets of RocketMQ hold no text, so there nobody learns how an owner ended, and no record runs apart from the others. **Rejected:** a note as the offset of
//! a second group: it is written apart from the one that it is about, and shows as a group that lags. A table in the database could hold
//! notes, at the price of a write at each beginning and end of an assignment.

use std::fmt;

#[cfg(any(test, feature = "kafka"))]
use crate::limits::CONSUMER_SUSPECTS_MAX;

/// Kept as the metadata of an offset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Note {
    /// How many owners in a row have not ended cleanly, the writer included.
    pub(crate) unclean: u32,
    /// The records that ran when earlier owners ended, and that nobody has survived yet.
    pub(crate) suspects: Vec<Group>,
    /// The records that run now, apart from all others.
    pub(crate) running: Option<Group>,
    /// The process that wrote it. One that lost the partition and gets it back did not crash.
    pub(crate) writer: u32,
}

/// Records that run together, apart from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) first: i64,
    /// From 1 to [`CONSUMER_SUSPECTS_MAX`]. Some of these offsets may have no record.
    pub(crate) rows: i64,
    /// Of a single record: how often it has begun alone, and was not survived. Otherwise 0.
    pub(crate) starts: u32,
}

impl Group {
    pub(crate) fn end(self) -> i64 {
        self.first.saturating_add(self.rows)
    }

    pub(crate) fn contains(self, offset: i64) -> bool {
        (self.first..self.end()).contains(&offset)
    }

    /// The part of it between two offsets.
    pub(crate) fn within(self, first: i64, end: i64) -> Option<Self> {
        let (first, end) = (self.first.max(first), self.end().min(end));
        (first < end).then(|| Self { first, rows: end - first, ..self })
    }
}

const PREFIX: &str = "outbox:";

impl Note {
    /// Reads a note. What is no note of ours is a clean end: another consumer committed it.
    #[cfg(any(test, feature = "kafka"))]
    pub(crate) fn parse(text: &str) -> Self {
        Self::try_parse(text).unwrap_or_default()
    }

    #[cfg(any(test, feature = "kafka"))]
    fn try_parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix(PREFIX)?.split(':');
        let mut part = || parts.next();
        let (unclean, suspects, running, writer) = (part()?, part()?, part()?, part()?);
        let groups = |text: &str| text.split_terminator(',').map(parse_group).collect::<Option<Vec<_>>>();
        let note = Self {
            unclean: unclean.parse().ok()?,
            suspects: groups(suspects)?,
            running: groups(running)?.pop(),
            writer: u32::from_str_radix(writer, 16).ok()?,
        };
        parts.next().is_none().then_some(note)
    }

    /// What it says of the records between two offsets.
    pub(crate) fn within(mut self, first: i64, end: i64) -> Self {
        self.suspects = self.suspects.into_iter().filter_map(|group| group.within(first, end)).collect();
        self.running = self.running.and_then(|group| group.within(first, end));
        self
    }
}

#[cfg(any(test, feature = "kafka"))]
fn parse_group(text: &str) -> Option<Group> {
    let (starts, offsets) = text.split_once('@')?;
    let (first, rows) = offsets.split_once('+')?;
    let rows = rows.parse().ok().filter(|rows| (1..=CONSUMER_SUSPECTS_MAX).contains(rows))?;
    Some(Group { first: first.parse().ok()?, rows, starts: starts.parse().ok()? })
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}+{}", self.starts, self.first, self.rows)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if (self.unclean, self.suspects.as_slice(), self.running) == (0, &[], None) {
            return Ok(());
        }
        let suspects: Vec<String> = self.suspects.iter().map(Group::to_string).collect();
        let running = self.running.map(|group| group.to_string()).unwrap_or_default();
        write!(f, "{PREFIX}{}:{}:{running}:{:x}", self.unclean, suspects.join(","), self.writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Group = Group { first: 42, rows: 1, starts: 2 };
    const SEVERAL: Group = Group { first: 50, rows: 32, starts: 0 };

    #[test]
    fn a_note_is_read_as_it_was_written() {
        for (suspects, running) in
            [(vec![], None), (vec![ONE], None), (vec![ONE, SEVERAL], Some(ONE)), (vec![], Some(SEVERAL))]
        {
            let note = Note { unclean: 3, suspects, running, writer: 0xbeef };
            assert_eq!(Note::parse(&note.to_string()), note, "{note}");
        }
        assert_eq!(Note::default().to_string(), "", "a clean end leaves nothing");
    }

    #[test]
    fn what_others_wrote_is_no_unclean_end() {
        for text in [
            "",
            "outbox",
            "outbox:",
            "outbox:x:::1",
            "outbox:1",
            "outbox:1:",
            "outbox:1:::",
            "outbox:1:a@b+1::1",
            "outbox:1:2:1:1",
            "outbox:1:1@2+0::1",
            "outbox:1:1@2+33::1",
            "outbox:1:::1:1",
            "by hand",
        ] {
            assert_eq!(Note::parse(text), Note::default(), "{text}");
        }
    }

    #[test]
    fn a_part_of_a_group_is_what_lies_between_two_offsets() {
        assert_eq!([49, 50, 81, 82].map(|offset| SEVERAL.contains(offset)), [false, true, true, false]);
        assert_eq!(SEVERAL.within(0, 100), Some(SEVERAL));
        assert_eq!(SEVERAL.within(60, 70), Some(Group { first: 60, rows: 10, starts: 0 }));
        assert_eq!(SEVERAL.within(82, 100), None);
        let note = Note { unclean: 1, suspects: vec![ONE, SEVERAL], running: Some(SEVERAL), writer: 7 };
        let cut = Some(Group { first: 50, rows: 2, starts: 0 });
        let expected = Note { unclean: 1, suspects: cut.into_iter().collect(), running: cut, writer: 7 };
        assert_eq!(note.within(43, 52), expected);
    }
}
