//! The broker's side of Kafka: what a topic holds, and topics made by hand.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use diesel_outbox::testing::StoredMessage;
use diesel_outbox::transport::{KafkaConfig, KafkaTransport, Transport};
use diesel_outbox::{Envelope, MessageId};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Headers as _, Message as _};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use rustix::process::{Pid, Signal, kill_process};

/// How long anything may take that a broker does at once.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// A message with the partition it is in.
pub(crate) type Placed = (i32, StoredMessage);

/// Settings with a short delivery time-out, for brokers that are there.
pub(crate) fn config(bootstrap: &str) -> KafkaConfig {
    KafkaConfig::new(bootstrap).set("message.timeout.ms", "4000").set("topic.metadata.propagation.max.ms", "500")
}

pub(crate) fn transport(config: KafkaConfig) -> Box<dyn Transport> {
    Box::new(KafkaTransport::new(config).expect("a transport"))
}

pub(crate) fn client(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("reconnect.backoff.max.ms", "500");
    config
}

/// Everything a topic holds that is committed, partition by partition.
pub(crate) fn read(bootstrap: &str, topic: &str) -> Vec<Placed> {
    let consumer: BaseConsumer =
        client(bootstrap).set("group.id", "reader").set("enable.partition.eof", "true").create().expect("a consumer");
    let metadata = consumer.fetch_metadata(Some(topic), TIMEOUT).expect("metadata");
    let mut left = BTreeSet::new();
    let mut from = TopicPartitionList::new();
    for partition in metadata.topics()[0].partitions() {
        left.insert(partition.id());
        from.add_partition_offset(topic, partition.id(), Offset::Beginning).expect("partition");
    }
    consumer.assign(&from).expect("assign");
    let mut read = Vec::new();
    while !left.is_empty() {
        // The marks of transactions have offsets, too: the end is where the broker says so.
        match consumer.poll(TIMEOUT).expect("a message before the max_wait ends") {
            Ok(message) => read.push((message.partition(), stored(&message))),
            Err(KafkaError::PartitionEOF(partition)) => {
                left.remove(&partition);
            }
            Err(error) => panic!("{error}"),
        }
    }
    read
}

fn stored(message: &rdkafka::message::BorrowedMessage<'_>) -> StoredMessage {
    let headers = message.headers().map(|headers| headers.iter().collect::<Vec<_>>()).unwrap_or_default();
    let headers = headers.into_iter().map(|header| (header.key.to_owned(), header.value.unwrap_or_default().to_vec()));
    let timestamp = message.timestamp().to_millis().and_then(|ms| u64::try_from(ms).ok());
    StoredMessage {
        key: message.key().map(<[u8]>::to_vec),
        payload: message.payload().map(<[u8]>::to_vec),
        headers: headers.collect(),
        timestamp: timestamp.map(|ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms)),
    }
}

/// Makes a topic.
pub(crate) async fn make(bootstrap: &str, topic: &str, partitions: i32) {
    create(bootstrap, topic, partitions).await.expect("the topic is made");
}

/// Makes a topic of one partition that another test may have made.
pub(crate) async fn make_unless_there(bootstrap: &str, topic: &str) {
    let made = create(bootstrap, topic, 1).await;
    assert!(matches!(made, Ok(()) | Err(RDKafkaErrorCode::TopicAlreadyExists)), "{made:?}");
}

async fn create(bootstrap: &str, topic: &str, partitions: i32) -> Result<(), RDKafkaErrorCode> {
    let admin: AdminClient<DefaultClientContext> = client(bootstrap).create().expect("an admin client");
    let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
    let options = AdminOptions::new().operation_timeout(Some(TIMEOUT)).request_timeout(Some(TIMEOUT));
    let mut made = admin.create_topics([&new], &options).await.expect("an answer");
    made.pop().expect("an answer about the topic").map(drop).map_err(|(_, code)| code)
}

pub(crate) fn unique_name(name: &str) -> String {
    format!("{name}-{}", MessageId::new())
}

#[expect(clippy::disallowed_methods, reason = "a broker removes messages by its own clock")]
pub(crate) fn envelope(topic: &str, key: Option<&str>) -> Envelope {
    let mut envelope = Envelope::new(MessageId::new(), topic.into(), SystemTime::now());
    envelope.key = key.map(str::to_owned);
    envelope.payload = Some(b"x".to_vec());
    envelope
}

/// Stops a server's process, or lets it go on. One that is to stop has stopped when this returns: on a busy machine its threads go on
/// for a while, and answer.
pub(crate) fn signal(pid: Option<u32>, signal: Signal) {
    let pid = pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw).expect("it runs");
    kill_process(pid, signal).expect("it is signalled");
    let end = Instant::now() + TIMEOUT;
    while signal == Signal::STOP && !is_stopped(pid) {
        assert!(Instant::now() < end, "it does not stop");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// Whether each of its threads stands still.
fn is_stopped(pid: Pid) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).expect("its threads");
    let stats = threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
    // The state stands behind the name, which is in parentheses and may hold some.
    stats.filter_map(|stat| Some(stat.rsplit_once(") ")?.1.starts_with('T'))).all(|is_stopped| is_stopped)
}
