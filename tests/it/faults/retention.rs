//! Messages that are old when they are sent, in topics that keep nothing so old: a broker deletes by a record's time.

use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, Pool};
use diesel_outbox::admin::{Admin, DeadLetterFilter, RedriveRate};
use diesel_outbox::relay::{RelayBuilder, TransportStatus};
use diesel_outbox::store::SqliteStore;
use diesel_outbox::transport::{
    FailureClass, KafkaConfig, KafkaTopic, KafkaTransport, MemoryTransport, ScriptedResponse, Transport,
};
use diesel_outbox::{Message, MessageId, OnFailedKey, Outbox, Topic};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use xtask::servers::{Kafka, kafka};
use xtask::test_servers;

use super::audit::read_records;
use super::owner::until;
use super::shop::{DEADLINE, limits};
use crate::outbox::databases::{SqliteFile, pool};

const DAY: Duration = Duration::from_secs(24 * 3_600);
/// What the topics keep.
const RETENTION: Duration = DAY;
/// How old the messages are when they are sent; more than a segment of a topic spans, so that the end of a transaction, which
/// has the broker's time, is in another one.
const AGE: Duration = Duration::from_secs(8 * 24 * 3_600);

/// Every way in which a message gets old, plain and fenced; a delay is refused where there is an order.
const WAYS: [&str; 7] =
    ["delayed", "redriven", "sent_again", "outage", "fenced_redriven", "fenced_sent_again", "fenced_outage"];
/// Has records that are old, and nothing else.
const CANARY: &str = "canary";

fn topic_of(way: &str) -> Topic {
    let topic = Topic::new(way).attempts_max(1).keep_sent_days(30).staleness(Duration::from_secs(2));
    match way.starts_with("fenced") {
        true => topic.ordered_by_key().lanes(1).on_failed_key(OnFailedKey::DeadLetter).fenced(),
        false => topic,
    }
}

fn message(way: &str) -> Message {
    Message::to(way).key("42").payload_bytes("x")
}

/// The shop's till.
struct Shop {
    file: SqliteFile,
    outbox: Outbox,
}

impl Shop {
    fn open() -> Self {
        let topics = WAYS.iter().map(|way| topic_of(way));
        let builder = topics.fold(Outbox::builder(), |builder, topic| builder.topic(topic));
        let outbox = builder.allow_outside_transaction().build().unwrap();
        Self { file: SqliteFile::fresh(), outbox }
    }

    fn store(&self) -> SqliteStore<Pool<ConnectionManager<SqliteConnection>>> {
        SqliteStore::new(pool::<SqliteConnection>(&self.file.url()))
    }

    fn relay(&self, transport: impl Transport) -> RelayBuilder {
        self.outbox.relay().store(self.store()).transport(transport)
    }

    fn admin(&self) -> Admin {
        self.outbox.admin(self.store())
    }

    fn enqueue(&self, way: &str) -> MessageId {
        self.outbox.enqueue(&mut self.file.connect(), &message(way)).unwrap()
    }

    fn live(&self) -> i64 {
        outbox_messages::table.count().get_result(&mut self.file.connect()).unwrap()
    }

    /// Puts every live message so far into the past.
    fn age(&self) {
        let age = AGE.as_millis();
        let sql = format!(
            "UPDATE outbox_messages SET created_at = created_at - {age}, deliver_at = deliver_at - {age}, \
             due_at = CASE WHEN lane < 0 THEN due_at - {age} ELSE due_at END"
        );
        self.file.connect().batch_execute(&sql).unwrap();
    }

    async fn until_live(&self, rows: i64) {
        until(&format!("{rows} rows are left"), || self.live() == rows).await;
    }
}

diesel::table! {
    outbox_messages (id) {
        id -> BigInt,
    }
}

fn broker() -> Option<Kafka> {
    let setting = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let settings = vec![setting("log.retention.check.interval.ms", "200"), setting("log.initial.task.delay.ms", "200")];
    test_servers::own_or_skip(Kafka::start(&kafka::Options { settings, ..kafka::Options::default() }))
}

fn transport(bootstrap: &str) -> KafkaTransport {
    let config = KafkaConfig::new(bootstrap).set("message.timeout.ms", "2000");
    let topics = WAYS.iter().chain([&CANARY]).map(|name| {
        let topic = KafkaTopic::new(*name).partitions(1).replication(1);
        topic.config("retention.ms", RETENTION.as_millis().to_string()).config("segment.ms", "3600000")
    });
    topics.fold(KafkaTransport::builder(config), |builder, topic| builder.create_topic(topic)).build().unwrap()
}

/// Waits until the broker has deleted for their age whatever it had when this was called. It looks at one topic after the other, so
/// that of three records, each written when the one before is gone, the third is deleted in a pass that began after the first was.
fn until_the_old_is_deleted(bootstrap: &str) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    let producer: BaseProducer = config.create().unwrap();
    let consumer: BaseConsumer = config.create().unwrap();
    #[expect(clippy::disallowed_methods, reason = "a broker deletes by its own clock")]
    let now = std::time::SystemTime::now();
    let old = (now - AGE).duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap().as_millis();
    let end = Instant::now() + DEADLINE;
    let mut written = 0;
    while written < 3 {
        let record: BaseRecord<'_, (), [u8]> = BaseRecord::to(CANARY).payload(&b"x"[..]);
        producer.send(record.timestamp(i64::try_from(old).unwrap())).unwrap();
        producer.flush(Duration::from_secs(10)).unwrap();
        written += 1;
        loop {
            let (low, high) = consumer.fetch_watermarks(CANARY, 0, Duration::from_secs(10)).unwrap();
            if (low, high) == (written, written) {
                break;
            }
            assert!(Instant::now() < end, "the broker deletes nothing: {low} to {high}");
            std::thread::yield_now();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_old_when_it_is_sent_outlives_its_topics_retention() {
    let Some(mut broker) = broker() else { return };
    let (shop, bootstrap) = (Shop::open(), broker.bootstrap());
    transport(&bootstrap).prepare(&[]).await.unwrap();

    // What has been sent before, or refused, was so elsewhere: there is no younger record beside it in its topic.
    let elsewhere = MemoryTransport::new();
    let refused = ScriptedResponse::Fail(FailureClass::RecordRefused);
    elsewhere.respond_when(refused, |envelope| envelope.topic.ends_with("redriven"));
    let relay = shop.relay(elsewhere).start().await.unwrap();
    let delayed = message("delayed").delay(AGE);
    shop.outbox.enqueue(&mut shop.file.connect(), &delayed).unwrap();
    let sent_before = ["sent_again", "fenced_sent_again"].map(|way| shop.enqueue(way));
    for way in ["redriven", "fenced_redriven"] {
        shop.enqueue(way);
    }
    shop.until_live(1).await;
    assert!(relay.shutdown(Duration::from_secs(10)).await.is_clean());
    let admin = shop.admin();
    for id in sent_before {
        admin.resend(id).await.unwrap();
    }
    let redriven = admin.redrive_all(&DeadLetterFilter::default(), RedriveRate::default(), |_| {}).await.unwrap();
    assert_eq!(redriven, 2);

    broker.kill9().unwrap();
    for way in ["outage", "fenced_outage"] {
        shop.enqueue(way);
    }
    shop.age();
    let relay = shop.relay(transport(&bootstrap)).limits(limits()).start().await.unwrap();
    until("the outage is noticed", || relay.status().transport != TransportStatus::Up).await;
    assert_eq!(shop.live(), 7);
    broker.start_again().unwrap();
    shop.until_live(0).await;
    assert!(relay.shutdown(Duration::from_secs(10)).await.is_clean());

    let kept = tokio::task::spawn_blocking(move || {
        until_the_old_is_deleted(&bootstrap);
        WAYS.into_iter().filter(|way| read_records(&bootstrap, way).len() == 1).collect::<Vec<_>>()
    });
    assert_eq!(kept.await.unwrap(), WAYS, "the broker has deleted the others");
}
