//! Partitions and records, in the client's terms and in the loop's.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use rdkafka::error::KafkaResult;
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::topic_partition_list::{TopicPartitionList, TopicPartitionListElem};

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

/// What was noted with an offset. The client panics at what is no text; then it is no note of ours.
pub(super) fn metadata<'e>(element: &'e TopicPartitionListElem<'_>) -> &'e str {
    catch_unwind(AssertUnwindSafe(|| element.metadata())).unwrap_or_default()
}

/// Whether the broker has these offsets with their notes.
pub(super) fn has_all(found: &TopicPartitionList, commits: &[Commit]) -> bool {
    commits.iter().all(|commit| {
        let partition = KafkaPartition::from_id(&commit.partition);
        found.find_partition(&partition.topic, partition.number).is_some_and(|element| {
            element.offset() == rdkafka::Offset::Offset(commit.next) && metadata(&element) == commit.note.to_string()
        })
    })
}

/// The headers whose names are text, as those of the outbox are.
fn headers(found: &impl rdkafka::message::Headers) -> Headers {
    let read = |index| {
        // The client panics at a name that is no text.
        let header = catch_unwind(AssertUnwindSafe(|| found.try_get(index)));
        header.inspect_err(|_| tracing::debug!(index, "a header was left out: its name is no text")).ok()?
    };
    let readable = (0..found.count()).filter_map(read);
    readable.map(|header| (header.key, header.value.unwrap_or_default())).collect()
}

pub(super) fn record(message: &BorrowedMessage<'_>, topic: Arc<str>) -> Record {
    let millis = message.timestamp().to_millis().and_then(|millis| u64::try_from(millis).ok());
    Record {
        partition: KafkaPartition { topic, number: message.partition() }.id(),
        offset: message.offset(),
        key: message.key().map(Arc::from),
        payload: message.payload().map(<[u8]>::to_vec),
        headers: message.headers().map(headers).unwrap_or_default(),
        timestamp: millis.map(|millis| UNIX_EPOCH + Duration::from_millis(millis)),
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::message::Header;

    use super::*;

    /// Panics at its second header, as the client does where the name is no UTF-8.
    struct OneIsNoText;

    impl rdkafka::message::Headers for OneIsNoText {
        fn count(&self) -> usize {
            3
        }

        fn try_get(&self, index: usize) -> Option<Header<'_, &[u8]>> {
            assert_ne!(index, 1, "of this test");
            Some(Header { key: ["first", "", "last"][index], value: Some(b"x") })
        }
    }

    #[test]
    fn a_header_whose_name_is_no_text_is_left_out() {
        let headers = headers(&OneIsNoText);
        assert_eq!(headers.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["first", "last"]);
    }
}
