//! Which message a record is a copy of.

use super::options::KeyHook;
use super::record::Record;
use crate::inbox::InboxKey;
use crate::panic_guard::catch_panic;

/// The key under which a record is claimed whatever becomes of it. Of a record that no outbox sent it is made of its place and its time:
/// then a message that its producer sent twice is two.
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

/// Whether the application may know it by something else.
pub(super) fn asks_application(record: &Record, hook: Option<&KeyHook>) -> bool {
    hook.is_some() && record.message_id().is_none()
}

/// The application's function panicked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KeyNotFound;

/// The key under which it is processed, too, if the application knows it by something else than its place.
pub(super) fn key_of_application(record: &Record, hook: Option<&KeyHook>) -> Result<Option<InboxKey>, KeyNotFound> {
    match hook.filter(|_| asks_application(record, hook)) {
        Some(hook) => catch_panic("inbox_key", record.topic(), || (hook.0)(record)).ok_or(KeyNotFound),
        None => Ok(None),
    }
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
        assert_eq!((inbox_key(&copy), key_of_application(&copy, Some(&never))), (id.into(), Ok(None)));
    }

    #[test]
    fn another_producers_record_is_known_by_its_place() {
        let key = inbox_key(&record(7));
        assert_eq!(key, inbox_key(&record(7)));
        assert_ne!(key, inbox_key(&record(8)));
        assert_eq!(key.created_at(), record(7).timestamp, "an inbox removes it by its age");
    }

    #[test]
    fn the_application_may_know_it_by_something_else() {
        let by_offset = |offset: i64| (offset != 8).then(|| InboxKey::of_text("order 42"));
        let find = KeyHook(Arc::new(move |record: &Record| by_offset(record.offset)));
        assert_eq!(key_of_application(&record(7), Some(&find)), Ok(Some(InboxKey::of_text("order 42"))));
        assert_eq!(key_of_application(&record(8), Some(&find)), Ok(None));
        assert_eq!(key_of_application(&record(7), None), Ok(None));
        let panics = KeyHook(Arc::new(|_| panic!("a defect of the application")));
        assert_eq!(key_of_application(&record(7), Some(&panics)), Err(KeyNotFound));
    }
}
