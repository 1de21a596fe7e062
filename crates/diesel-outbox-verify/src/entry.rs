//! What is kept of a row and of a record while they are compared: the same few bytes, whatever the size of the message.

use std::time::{Duration, SystemTime};

use diesel_outbox::MessageId;
use diesel_outbox::admin::{DeadLetter, LiveMessage, SentMessage};
use uuid::Uuid;

use crate::content::Content;
use crate::record::Record;
use crate::sorter::{Bytes, Sortable};

/// Where an entry is from. Of one message, the row that counts comes first, and the records come last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Origin {
    History = 0,
    DeadLetters = 1,
    Live = 2,
    Topic = 3,
}

/// Milliseconds since 1970, as in the headers of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Millis(pub(crate) i64);

impl Millis {
    pub(crate) const NEVER: Self = Self(i64::MIN);

    pub(crate) fn of(at: SystemTime) -> Self {
        let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    pub(crate) fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// The instant, if there is one.
    pub(crate) fn at(self) -> Option<SystemTime> {
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(self.0.try_into().ok()?))
    }
}

/// A row or a record. Sorted by message; the records of one message by partition and offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    id: [u8; 16],
    pub(crate) origin: Origin,
    /// The partition of a record.
    pub(crate) partition: u32,
    /// The id of a row, or the offset of a record.
    pub(crate) position: i64,
    flags: u8,
    pub(crate) created_at: Millis,
    pub(crate) deliver_at: Millis,
    /// When a row was sent, or a record stored.
    pub(crate) at: Millis,
    pub(crate) content: Content,
}

/// The row is in a lane, has a key, and was never requeued: it was sent in the order of its id.
const IN_ORDER: u8 = 1;

impl Entry {
    pub(crate) fn of_sent(row: &SentMessage) -> Self {
        let in_order = row.lane.is_some() && row.key.is_some() && !row.is_requeued;
        Self {
            id: id_bytes(row.message_id),
            origin: Origin::History,
            partition: 0,
            position: row.id,
            flags: if in_order { IN_ORDER } else { 0 },
            created_at: Millis::of(row.created_at),
            deliver_at: row.deliver_at.map_or(Millis::NEVER, Millis::of),
            at: Millis::of(row.sent_at),
            content: Content::of_row(row.key.as_deref(), &row.kind, &row.headers_json, row.payload.as_deref()),
        }
    }

    pub(crate) fn of_dead_letter(row: &DeadLetter) -> Self {
        Self {
            id: id_bytes(row.message_id),
            origin: Origin::DeadLetters,
            partition: 0,
            position: 0,
            flags: 0,
            created_at: Millis::of(row.created_at),
            deliver_at: Millis::NEVER,
            at: Millis::of(row.dead_at),
            content: Content::of_row(row.key.as_deref(), &row.kind, &row.headers_json, row.payload.as_deref()),
        }
    }

    pub(crate) fn of_live(row: &LiveMessage) -> Self {
        Self {
            id: id_bytes(row.message_id),
            origin: Origin::Live,
            partition: 0,
            position: row.id,
            flags: 0,
            created_at: Millis::of(row.created_at),
            deliver_at: row.deliver_at.map_or(Millis::NEVER, Millis::of),
            at: Millis::NEVER,
            content: Content::of_row(row.key.as_deref(), &row.kind, &row.headers_json, row.payload.as_deref()),
        }
    }

    /// A record that an outbox has written.
    pub(crate) fn of_record(record: &Record, message_id: MessageId) -> Self {
        Self {
            id: id_bytes(message_id),
            origin: Origin::Topic,
            partition: record.partition,
            position: record.offset,
            flags: 0,
            created_at: Millis::of(record.created_at.unwrap_or(record.at)),
            deliver_at: record.deliver_at.map_or(Millis::NEVER, Millis::of),
            at: Millis::of(record.at),
            content: Content::of(record.key.as_deref(), &record.kind, &record.headers, record.payload.as_deref()),
        }
    }

    /// The same elsewhere, for tests.
    #[cfg(test)]
    pub(crate) fn moved(self, origin: Origin, position: i64) -> Self {
        Self { origin, position, ..self }
    }

    pub(crate) fn message_id(&self) -> MessageId {
        Uuid::from_bytes(self.id).into()
    }

    pub(crate) fn is_in_order(&self) -> bool {
        self.flags & IN_ORDER != 0
    }

    /// From when on it may have been sent.
    pub(crate) fn due_from(&self) -> Millis {
        self.created_at.max(self.deliver_at)
    }
}

fn id_bytes(id: MessageId) -> [u8; 16] {
    id.as_uuid().into_bytes()
}

impl Sortable for Entry {
    const BYTES: usize = 86;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.id);
        out.push(self.origin as u8);
        out.extend(self.partition.to_le_bytes());
        out.extend(self.position.to_le_bytes());
        out.push(self.flags);
        [self.created_at, self.deliver_at, self.at].into_iter().for_each(|at| out.extend(at.0.to_le_bytes()));
        self.content.0.into_iter().for_each(|hash| out.extend(hash.to_le_bytes()));
    }

    fn read(bytes: &mut Bytes<'_>) -> Self {
        Self {
            id: bytes.take(),
            origin: match bytes.take::<1>() {
                [0] => Origin::History,
                [1] => Origin::DeadLetters,
                [2] => Origin::Live,
                _ => Origin::Topic,
            },
            partition: u32::from_le_bytes(bytes.take()),
            position: i64::from_le_bytes(bytes.take()),
            flags: u8::from_le_bytes(bytes.take()),
            created_at: Millis(i64::from_le_bytes(bytes.take())),
            deliver_at: Millis(i64::from_le_bytes(bytes.take())),
            at: Millis(i64::from_le_bytes(bytes.take())),
            content: Content([(); 4].map(|()| u64::from_le_bytes(bytes.take()))),
        }
    }
}

/// The first copy of a message of an ordered topic. Sorted by key, and there in the order in which the messages were to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Placed {
    /// The hash of the key.
    pub(crate) key: u64,
    pub(crate) row: i64,
    pub(crate) offset: i64,
    pub(crate) partition: u32,
    pub(crate) at: Millis,
    id: [u8; 16],
}

impl Placed {
    pub(crate) fn of(row: &Entry, copy: &Entry) -> Self {
        let (key, partition) = (row.content.key(), copy.partition);
        Self { key, row: row.position, offset: copy.position, partition, at: copy.at, id: row.id }
    }

    pub(crate) fn message_id(&self) -> MessageId {
        Uuid::from_bytes(self.id).into()
    }
}

impl Sortable for Placed {
    const BYTES: usize = 52;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.key.to_le_bytes());
        out.extend(self.row.to_le_bytes());
        out.extend(self.offset.to_le_bytes());
        out.extend(self.partition.to_le_bytes());
        out.extend(self.at.0.to_le_bytes());
        out.extend(self.id);
    }

    fn read(bytes: &mut Bytes<'_>) -> Self {
        Self {
            key: u64::from_le_bytes(bytes.take()),
            row: i64::from_le_bytes(bytes.take()),
            offset: i64::from_le_bytes(bytes.take()),
            partition: u32::from_le_bytes(bytes.take()),
            at: Millis(i64::from_le_bytes(bytes.take())),
            id: bytes.take(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_back<T: Sortable + PartialEq + std::fmt::Debug>(entry: T) {
        let mut bytes = Vec::new();
        entry.write(&mut bytes);
        assert_eq!(bytes.len(), T::BYTES);
        assert_eq!(T::read(&mut Bytes::new(&bytes)), entry);
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_234);
        let mut record = Record::new(7, i64::MAX, at);
        record.payload = Some(b"x".to_vec());
        record.created_at = Some(at - Duration::from_millis(200));
        record.deliver_at = Some(at);
        let entry = Entry::of_record(&record, MessageId::new());
        for origin in [Origin::History, Origin::DeadLetters, Origin::Live, Origin::Topic] {
            read_back(Entry { origin, flags: IN_ORDER, ..entry });
        }
        read_back(Placed::of(&entry, &entry));
        assert_eq!(entry.due_from(), Millis(1_234));
    }

    #[test]
    fn records_of_a_message_come_after_its_rows_and_by_offset() {
        let id = MessageId::new();
        let record = |partition, offset| Entry::of_record(&Record::new(partition, offset, SystemTime::UNIX_EPOCH), id);
        let row = Entry { origin: Origin::Live, position: 99, ..record(0, 0) };
        let mut entries = [record(1, 0), record(0, 9), row, record(0, -1)];
        entries.sort_unstable();
        assert_eq!(entries, [row, record(0, -1), record(0, 9), record(1, 0)]);
    }
}
