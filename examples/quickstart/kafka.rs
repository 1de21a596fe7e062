//! Kafka, as far as this example needs one: librdkafka's mock cluster, and a consumer that reads everything.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use diesel_outbox::transport::header;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::shop::TOPIC;
use crate::{Failure, TIMEOUT};

const PARTITIONS: i32 = 3;

pub(crate) struct Kafka {
    cluster: MockCluster<'static, DefaultProducerContext>,
    consumer: BaseConsumer,
    /// The next offset of each partition.
    read_to: BTreeMap<i32, i64>,
    /// How many messages came of each order.
    pub(crate) orders: BTreeMap<i64, usize>,
    /// Messages seen again, told by their message id.
    pub(crate) duplicates: usize,
    ids: HashSet<Vec<u8>>,
}

impl Kafka {
    pub(crate) fn start() -> Result<Self, Failure> {
        let cluster = MockCluster::new(1)?;
        cluster.create_topic(TOPIC, PARTITIONS, 1)?;
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", cluster.bootstrap_servers())
            .set("group.id", "warehouse")
            .set("enable.auto.commit", "false")
            .set("fetch.wait.max.ms", "20")
            .set("reconnect.backoff.max.ms", "500")
            .create()?;
        let mut assignment = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            assignment.add_partition_offset(TOPIC, partition, Offset::Beginning)?;
        }
        consumer.assign(&assignment)?;
        let read_to = (0..PARTITIONS).map(|partition| (partition, 0)).collect();
        Ok(Self { cluster, consumer, read_to, orders: BTreeMap::new(), duplicates: 0, ids: HashSet::new() })
    }

    pub(crate) fn address(&self) -> String {
        self.cluster.bootstrap_servers()
    }

    pub(crate) fn go_down(&self) -> Result<(), Failure> {
        Ok(self.cluster.broker_down(-1)?)
    }

    pub(crate) fn come_back(&self) -> Result<(), Failure> {
        Ok(self.cluster.broker_up(-1)?)
    }

    /// Reads what comes, for a moment at most.
    pub(crate) fn listen(&mut self) {
        // An error is that of a broker which is down; the consumer goes on by itself.
        if let Some(Ok(message)) = self.consumer.poll(Duration::from_millis(20)) {
            let id = header_of(&message, header::MESSAGE_ID).expect("every message has its id").to_vec();
            let key = message.key().and_then(|key| std::str::from_utf8(key).ok()).expect("every message has its key");
            let order = key.parse().expect("the key is the order");
            assert_eq!(header_of(&message, header::ATTEMPT), None, "no message of this story needs a second attempt");
            self.read_to.insert(message.partition(), message.offset() + 1);
            *self.orders.entry(order).or_default() += 1;
            self.duplicates += usize::from(!self.ids.insert(id));
        }
    }

    /// Reads until there is nothing left that was not seen.
    pub(crate) fn catch_up(&mut self) -> Result<(), Failure> {
        for partition in 0..PARTITIONS {
            let (_, end) = self.consumer.fetch_watermarks(TOPIC, partition, TIMEOUT)?;
            while self.read_to[&partition] < end {
                self.listen();
            }
        }
        Ok(())
    }
}

fn header_of<'m>(message: &'m BorrowedMessage<'_>, name: &str) -> Option<&'m [u8]> {
    message.headers()?.iter().find(|header| header.key == name)?.value
}
