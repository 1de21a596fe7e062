//! What the driver does to the consumers' topics and group, directly at the broker.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::types::RDKafkaErrorCode;
use uuid::Uuid;

use crate::truth::MessageName;
use crate::wire::{Group, TWICE, Topics};

/// The partitions of each topic.
pub(crate) const PARTITIONS: i32 = 3;
/// How long a member of a storm stays.
const STAY: Duration = Duration::from_millis(700);
/// How long a message of the driver may wait for a broker that is down.
const DELIVERY: Duration = Duration::from_secs(40);
/// The process in the names of the driver's messages. Those of applications begin with 1.
const DRIVER: u32 = 0;

pub(crate) fn client(bootstrap: &str) -> ClientConfig {
    let mut client = ClientConfig::new();
    client.set("bootstrap.servers", bootstrap);
    client
}

/// Creates a topic that no relay creates.
pub(crate) async fn create_topic(bootstrap: &str, topic: &str, partitions: i32) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> = client(bootstrap).create().context("create an admin client")?;
    let topic = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
    let options = AdminOptions::new().operation_timeout(Some(DELIVERY));
    for created in admin.create_topics([&topic], &options).await.context("create a topic")? {
        if let Err((name, error)) = created
            && error != RDKafkaErrorCode::TopicAlreadyExists
        {
            anyhow::bail!("create {name}: {error}");
        }
    }
    Ok(())
}

/// Members join both groups and leave again, for this long. Blocks.
pub(crate) fn storm(bootstrap: &str, run: &str, topics: &Topics, how_long: Duration) -> Result<()> {
    let end = Instant::now() + how_long;
    while Instant::now() < end {
        let mut members = Vec::new();
        for group in Group::ALL {
            let mut client = client(bootstrap);
            client.set("group.id", group.name(run)).set("enable.auto.commit", "false");
            client.set("partition.assignment.strategy", "cooperative-sticky").set("session.timeout.ms", "6000");
            let member: BaseConsumer = client.create().context("create a member")?;
            let names: Vec<&str> = topics.consumed(group).map(|(_, name)| name).collect();
            member.subscribe(&names).context("subscribe")?;
            members.push(member);
        }
        let leave = Instant::now() + STAY;
        while Instant::now() < leave {
            // It processes nothing, and says nothing about offsets: whatever it reads is read again. Errors are those of other faults.
            members.iter().for_each(|member| drop(member.poll(Duration::from_millis(20))));
        }
    }
    Ok(())
}

/// Sends messages whose copies are in two partitions at the same moment. Blocks.
pub(crate) fn deliver_twice(bootstrap: &str, topics: &Topics, sequences: std::ops::Range<u64>) -> Result<()> {
    let mut client = client(bootstrap);
    client.set("message.timeout.ms", DELIVERY.as_millis().to_string()).set("enable.idempotence", "true");
    let producer: BaseProducer = client.create().context("create a producer")?;
    for sequence in sequences {
        let name = MessageName { process: DRIVER, sequence };
        let (id, key, payload) = (Uuid::now_v7().to_string(), format!("twice-{sequence}"), name.payload());
        let first = i32::try_from(sequence % 3).context("it is small")?;
        for partition in [first, (first + 1) % PARTITIONS] {
            let headers = OwnedHeaders::new().insert(Header { key: "outbox-message-id", value: Some(&id) });
            let record = BaseRecord::to(topics.name(TWICE)).partition(partition).key(&key).payload(&payload);
            let sent = producer.send(record.headers(headers));
            sent.map_err(|(error, _)| error).context("send a message of the driver")?;
        }
    }
    producer.flush(DELIVERY).context("send the driver's messages")
}
