//! Which message a record is a copy of.

use std::time::UNIX_EPOCH;

use uuid::Builder;

use super::record::Record;
use crate::lane::fnv1a;
use crate::message::MessageId;

/// The id of the record's message. A record that no outbox sent has one of its own, made of its place and its time: then a message that
/// its producer sent twice is two.
pub(super) fn message_id(record: &Record) -> MessageId {
    record.message_id().unwrap_or_else(|| {
        let place = format!("{}/{}", record.partition, record.offset);
        let since_1970 = record.timestamp.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        let mut bits = [0; 10];
        bits[..8].copy_from_slice(&fnv1a(&place).to_be_bytes());
        bits[8..].copy_from_slice(&fnv1a(&format!("{place}.")).to_be_bytes()[..2]);
        let ms = u64::try_from(since_1970.as_millis()).unwrap_or_default();
        Builder::from_unix_timestamp_millis(ms, &bits).into_uuid().into()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::consumer::record::PartitionId;
    use crate::message::Headers;
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
        assert_eq!(message_id(&copy), id);
    }

    #[test]
    fn another_producers_record_is_known_by_its_place() {
        let id = message_id(&record(7));
        assert_eq!(id, message_id(&record(7)));
        assert_ne!(id, message_id(&record(8)));
        let (seconds, nanos) = id.as_uuid().get_timestamp().expect("a version with a time").to_unix();
        assert_eq!((seconds, nanos), (1_700_000_000, 123_000_000), "an inbox drops it by its age");
    }
}
