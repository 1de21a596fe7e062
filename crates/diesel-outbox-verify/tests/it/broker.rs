//! Kafka's side: topics, and records by hand.

use std::time::Duration;

use diesel_outbox::MessageId;
use diesel_outbox::transport::{KafkaConfig, KafkaTransport};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use xtask::servers::ServerKind;
use xtask::test_servers;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A topic of a test.
pub(crate) struct Cluster {
    pub(crate) bootstrap: String,
    pub(crate) topic: String,
}

impl Cluster {
    /// A new topic on the shared server; `None` if there is none, which is recorded.
    pub(crate) async fn with_topic(topic: &str, partitions: i32, settings: &[(&str, &str)]) -> Option<Self> {
        let bootstrap = test_servers::shared_or_skip(ServerKind::Kafka)?;
        let cluster = Self { bootstrap, topic: topic.to_owned() };
        let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        let new = settings.iter().fold(new, |new, (name, value)| new.set(name, value));
        for made in cluster.admin().create_topics([&new], &options()).await.expect("an answer") {
            made.expect("the topic is made");
        }
        Some(cluster)
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap);
        config
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.client().create().expect("an admin client")
    }

    pub(crate) fn config(&self) -> KafkaConfig {
        KafkaConfig::new(&self.bootstrap)
    }

    pub(crate) fn transport(&self) -> KafkaTransport {
        KafkaTransport::new(self.config()).expect("a transport")
    }

    fn producer(&self, transactional_id: Option<&str>) -> BaseProducer {
        let mut config = self.client();
        if let Some(id) = transactional_id {
            config.set("transactional.id", id).set("transaction.timeout.ms", "600000");
        }
        config.create().expect("a producer")
    }

    fn send(&self, producer: &BaseProducer, partition: i32, message: Option<MessageId>) {
        let id = message.map(|message| message.to_string());
        let headers = id.iter().fold(OwnedHeaders::new(), |headers, id| {
            headers.insert(Header { key: "outbox-message-id", value: Some(id.as_str()) })
        });
        let record = BaseRecord::to(&self.topic).partition(partition).key("7").payload("by hand").headers(headers);
        producer.send(record).map_err(|(error, _)| error).expect("queued");
    }

    /// Produces a record that no relay has sent.
    pub(crate) fn produce(&self, partition: i32, message: Option<MessageId>) {
        let producer = self.producer(None);
        self.send(&producer, partition, message);
        producer.flush(TIMEOUT).expect("flushed");
    }

    /// A transaction that stays open as long as what it returns.
    pub(crate) fn begin(&self, partition: i32) -> BaseProducer {
        let producer = self.producer(Some(&self.topic));
        producer.init_transactions(TIMEOUT).expect("a transactional producer");
        producer.begin_transaction().expect("begun");
        self.send(&producer, partition, Some(MessageId::new()));
        producer.flush(TIMEOUT).expect("flushed");
        producer
    }

    /// Removes the records of a partition before an offset, or all of them.
    pub(crate) async fn delete_records(&self, partition: i32, before: Offset) {
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(&self.topic, partition, before).expect("an offset");
        self.admin().delete_records(&offsets, &options()).await.expect("deleted");
    }

    /// Adds partitions.
    pub(crate) async fn grow(&self, partitions: usize) {
        let grown = rdkafka::admin::NewPartitions::new(&self.topic, partitions);
        for grown in self.admin().create_partitions([&grown], &options()).await.expect("an answer") {
            grown.expect("partitions are added");
        }
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(TIMEOUT)).request_timeout(Some(TIMEOUT))
}
