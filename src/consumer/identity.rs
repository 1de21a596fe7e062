//! Which message a record is a copy of.

use super::record::Record;
use crate::inbox::InboxKey;

/// The key of the record's message. A record that no outbox sent has one of its own, made of its place and its time: then a message that
/// its producer sent twice is two.
pub(super) fn inbox_key(record: &Record) -> InboxKey {
    if let Some(id) = record.message_id() {
        return id.into();
    }
    let place = match record.partition().parse() {
        Ok(partition) => InboxKey::of_offset(record.topic(), partition, record.offset),
        Err(_) => InboxKey::of_text(format!("{}/{}", record.partition, record.offset)),
    };
    record.timestamp.map_or(place, |at| place.dated(at))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::consumer::record::PartitionId;
    use crate::message::{Headers, MessageId};
    use crate::transport::header;

    fn record(offset: i64) -> Record {
        let partition = PartitionId { topic: "orders".into(), name: "3".into() };
        let timestamp = Some(UNIX_EPOCH + Duration::from_millis(1_700_000_000_123));
        Record { partition, offset, key: None, payload: None, headers: Headers::new(), timestamp }
    }

    #[test]
    fn the_outbox_names_its_messages() {
        let (mut copy, id) = (record(7), MessageId::new());
        copy.headers.push(header::MESSAGE_ID, id.to_string());
        assert_eq!(inbox_key(&copy), id.into());
    }

    #[test]
    fn another_producers_record_is_known_by_its_place() {
        let key = inbox_key(&record(7));
        assert_eq!(key, inbox_key(&record(7)));
        assert_ne!(key, inbox_key(&record(8)));
        assert_eq!(key.created_at(), record(7).timestamp, "an inbox removes it by its age");
    }
}
