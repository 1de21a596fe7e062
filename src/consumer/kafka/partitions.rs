//! Partitions and records, in the client's terms and in the loop's.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use rdkafka::TopicPartitionList;
use rdkafka::error::KafkaResult;
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};

use crate::consumer::engine::Commit;
use crate::consumer::record::{PartitionId, Record};
use crate::message::Headers;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KafkaPartition {
    pub(super) topic: Arc<str>,
    pub(super) number: i32,
}

impl KafkaPartition {
    pub(super) fn id(&self) -> PartitionId {
        PartitionId { topic: Arc::clone(&self.topic), name: self.number.to_string().into() }
    }

    pub(super) fn from_id(id: &PartitionId) -> Self {
        let Ok(number) = id.name.parse() else { unreachable!("made from a number") };
        Self { topic: Arc::clone(&id.topic), number }
    }
}

/// The partitions in a list.
pub(super) fn of(list: &TopicPartitionList) -> Vec<KafkaPartition> {
    let elements = list.elements();
    elements.iter().map(|of| KafkaPartition { topic: of.topic().into(), number: of.partition() }).collect()
}

/// Partitions as a list.
pub(super) fn plain_list(ids: &[PartitionId]) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for partition in ids.iter().map(KafkaPartition::from_id) {
        list.add_partition(&partition.topic, partition.number);
    }
    list
}

/// Offsets with their notes.
pub(super) fn list(commits: &[Commit]) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for commit in commits {
        let partition = KafkaPartition::from_id(&commit.partition);
        let mut element = list.add_partition(&partition.topic, partition.number);
        element.set_offset(rdkafka::Offset::Offset(commit.next))?;
        let note = commit.note.to_string();
        if !note.is_empty() {
            element.set_metadata(note);
        }
    }
    Ok(list)
}

/// Whether the broker has these offsets with their notes.
pub(super) fn has_all(found: &TopicPartitionList, commits: &[Commit]) -> bool {
    commits.iter().all(|commit| {
        let partition = KafkaPartition::from_id(&commit.partition);
        found.find_partition(&partition.topic, partition.number).is_some_and(|element| {
            element.offset() == rdkafka::Offset::Offset(commit.next) && element.metadata() == commit.note.to_string()
        })
    })
}

pub(super) fn record(message: &BorrowedMessage<'_>, topic: Arc<str>) -> Record {
    let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
    let headers: Headers = headers.map(|header| (header.key, header.value.unwrap_or_default())).collect();
    let millis = message.timestamp().to_millis().and_then(|millis| u64::try_from(millis).ok());
    Record {
        partition: KafkaPartition { topic, number: message.partition() }.id(),
        offset: message.offset(),
        key: message.key().map(Arc::from),
        payload: message.payload().map(<[u8]>::to_vec),
        headers,
        timestamp: millis.map(|millis| UNIX_EPOCH + Duration::from_millis(millis)),
    }
}
