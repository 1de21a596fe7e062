use std::time::{Duration, SystemTime};

use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};

use crate::record::Record;

/// A record in the terms of the outbox. Its partitions are numbered from 0, as in the list.
pub(super) fn record(message: &BorrowedMessage<'_>) -> Record {
    let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
    let headers = headers.map(|header| (header.key, header.value.unwrap_or_default()));
    let partition = u32::try_from(message.partition()).unwrap_or_default();
    let mut record = Record::new(partition, message.offset(), timestamp(message)).with_headers(headers);
    record.key = message.key().map(<[u8]>::to_vec);
    record.payload = message.payload().map(<[u8]>::to_vec);
    record
}

fn timestamp(message: &BorrowedMessage<'_>) -> SystemTime {
    let millis = message.timestamp().to_millis().and_then(|millis| u64::try_from(millis).ok());
    SystemTime::UNIX_EPOCH + Duration::from_millis(millis.unwrap_or_default())
}
