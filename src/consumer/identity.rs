//! Which message a record is a copy of.

use super::options::KeyHook;
use super::record::Record;
use crate::inbox::InboxKey;
use crate::panic_guard::catch_panic;

/// Whether the application's function finds the record's key.
pub(super) fn asks_application(record: &Record, of_application: Option<&KeyHook>) -> bool {
    of_application.is_some() && record.message_id().is_none()
}

/// The key of the record's message. A record that no outbox sent has the one that the application finds, or one made of its place and its
/// time: then a message that its producer sent twice is two. `None` if the application's function panicked.
pub(super) fn inbox_key(record: &Record, of_application: Option<&KeyHook>) -> Option<InboxKey> {
    if let Some(id) = record.message_id() {
        return Some(id.into());
    }
    let found = of_application.map(|find| catch_panic("inbox_key", record.topic(), || (find.0)(record)));
    match found {
        Some(None) => None,
        Some(Some(Some(key))) => Some(key),
        Some(Some(None)) | None => Some(key_of_place(record)),
    }
}

/// The key of its place in the partition, and of its time.
fn key_of_place(record: &Record) -> InboxKey {
    let place = match record.partition().parse() {
        Ok(partition) => InboxKey::of_offset(record.topic(), partition, record.offset),
        Err(_) => InboxKey::of_text(format!("{}/{}", record.partition, record.offset)),
    };
    record.timestamp.map_or(place, |at| place.dated(at))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
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
        let never = KeyHook(Arc::new(|_| panic!("it has a name")));
        assert_eq!(inbox_key(&copy, Some(&never)), Some(id.into()));
    }

    #[test]
    fn another_producers_record_is_known_by_its_place() {
        let key = inbox_key(&record(7), None).expect("a key");
        assert_eq!(Some(key), inbox_key(&record(7), None));
        assert_ne!(Some(key), inbox_key(&record(8), None));
        assert_eq!(key.created_at(), record(7).timestamp, "an inbox removes it by its age");
    }

    #[test]
    fn the_application_may_know_it_by_something_else() {
        let by_offset = |offset: i64| (offset != 8).then(|| InboxKey::of_text("order 42"));
        let find = KeyHook(Arc::new(move |record: &Record| by_offset(record.offset)));
        assert_eq!(inbox_key(&record(7), Some(&find)), Some(InboxKey::of_text("order 42")));
        assert_eq!(inbox_key(&record(8), Some(&find)), inbox_key(&record(8), None), "by its place");
        let panics = KeyHook(Arc::new(|_| panic!("a defect of the application")));
        assert_eq!(inbox_key(&record(7), Some(&panics)), None);
    }
}
