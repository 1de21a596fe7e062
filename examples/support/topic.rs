//! What a topic of Kafka holds in the end, for the examples that send to one.

use std::collections::BTreeMap;

use diesel_outbox::transport::header;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::support::{Failure, TIMEOUT};

/// A message as a consumer gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) kind: String,
    pub(crate) key: Option<String>,
    pub(crate) payload: Option<String>,
}

/// Everything that a topic holds, by message id.
///
/// # Panics
/// A message is there twice.
pub(crate) fn read_topic(kafka: &str, topic: &str) -> Result<BTreeMap<String, Received>, Failure> {
    let consumer: BaseConsumer = client(kafka).set("group.id", "example").create()?;
    let metadata = consumer.fetch_metadata(Some(topic), TIMEOUT)?;
    let mut left = BTreeMap::new();
    let mut assignment = TopicPartitionList::new();
    for partition in metadata.topics().iter().flat_map(|topic| topic.partitions()) {
        let (start, end) = consumer.fetch_watermarks(topic, partition.id(), TIMEOUT)?;
        if end > start {
            left.insert(partition.id(), end);
            assignment.add_partition_offset(topic, partition.id(), Offset::Beginning)?;
        }
    }
    consumer.assign(&assignment)?;
    let mut received = BTreeMap::new();
    while !left.is_empty() {
        let message = consumer.poll(TIMEOUT).expect("the rest of the topic comes in time")?;
        let id = header_of(&message, header::MESSAGE_ID).expect("every message has its id");
        let content = Received {
            kind: header_of(&message, header::KIND).unwrap_or_default(),
            key: message.key().map(text),
            payload: message.payload().map(text),
        };
        let twice = received.insert(id, content);
        assert_eq!(twice, None, "the topic holds a message twice");
        if left.get(&message.partition()).is_some_and(|end| message.offset() + 1 >= *end) {
            left.remove(&message.partition());
        }
    }
    Ok(received)
}

fn header_of(message: &BorrowedMessage<'_>, name: &str) -> Option<String> {
    message.headers()?.iter().find(|header| header.key == name)?.value.map(text)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Removes the topic of an example. Not to be called on a runtime's own thread.
pub(crate) fn delete_topic(kafka: &str, topic: &str) -> Result<(), Failure> {
    let admin: AdminClient<DefaultClientContext> = client(kafka).create()?;
    let options = AdminOptions::new().request_timeout(Some(TIMEOUT));
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    for deleted in runtime.block_on(admin.delete_topics(&[topic], &options))? {
        deleted.map_err(|(topic, code)| format!("{topic} is not deleted: {code}"))?;
    }
    Ok(())
}

fn client(kafka: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", kafka);
    config
}
