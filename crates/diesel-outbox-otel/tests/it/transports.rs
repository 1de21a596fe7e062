//! The whole way over each broker: from a traced request to a consumer that continues the trace.

use std::time::{Duration, Instant};

use diesel::connection::Connection as _;
use diesel::pg::PgConnection;
use diesel::r2d2::{ConnectionManager, Pool};
use diesel_outbox::store::PostgresStore;
use diesel_outbox::transport::{
    HttpTarget, HttpTransport, KafkaConfig, KafkaTransport, RocketMqConfig, RocketMqTransport, Transport, header,
};
use diesel_outbox::{Message, MessageId, Outbox, TableNames, Topic};
use diesel_outbox_otel::consumer::{ProcessSpan, http_context, kafka_context, rocketmq_context};
use diesel_outbox_otel::{OtelInterceptor, traced};
use opentelemetry::trace::{Tracer as _, TracerProvider as _};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::{ClientConfig, Message as _};
use xtask::servers::ServerKind;
use xtask::servers::rocketmq::create_topic;
use xtask::test_servers;

use crate::collector::{Collector, DEADLINE, Span};
use crate::consumers::assert_processed;
use crate::http_receiver::HttpReceiver;
use crate::rocketmq_broker;
use crate::shop::Shop;

/// Sends one message in a traced request, through a real transport. Returns the spans of request, creation and send.
pub(crate) fn sent_through(shop: &Shop, topic: &str, transport: impl Transport) -> [Span; 3] {
    let outbox = Outbox::builder().topic(Topic::new(topic));
    let outbox = outbox.interceptor(OtelInterceptor::new().with_provider(shop.collector.provider()));
    let outbox = outbox.build().expect("build");
    let transport = traced(transport).with_provider(shop.collector.provider());
    let relay = outbox.relay().store(shop.store()).transport(transport).start_blocking().expect("start");
    let message = Message::to(topic).kind("order.placed").key("7").payload_bytes("{}");
    let request = shop.in_request(|conn| outbox.enqueue(conn, &message));
    let created = shop.collector.wait_for(1, &format!("create {topic}")).remove(0);
    let sent = shop.collector.wait_for(1, &format!("send {topic}")).remove(0);
    assert_eq!((&created.parent, &sent.linked()[..]), (&request.ids.1, &[created.ids.clone()][..]));
    assert_eq!(sent.error, None);
    relay.shutdown(DEADLINE).expect("shutdown");
    [request, created, sent]
}

pub(crate) fn unique_name() -> String {
    format!("traces-{}", MessageId::new())
}

#[test]
fn a_trace_leads_over_kafka_to_the_consumer() {
    let Some(bootstrap) = test_servers::shared_or_skip(ServerKind::Kafka) else { return };
    let (shop, topic) = (Shop::open(), unique_name());
    let kafka = KafkaTransport::builder(KafkaConfig::new(&bootstrap));
    let kafka =
        kafka.create_topic(diesel_outbox::transport::KafkaTopic::new(topic.as_str()).partitions(1).replication(1));
    let [_, created, sent] = sent_through(&shop, &topic, kafka.build().expect("a transport"));
    assert_eq!(sent.attribute("messaging.system"), Some("kafka"));

    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &bootstrap).set("group.id", "billing").set("auto.offset.reset", "earliest");
    let consumer: BaseConsumer = config.create().expect("a consumer");
    consumer.subscribe(&[&topic]).expect("subscribed");
    let end = Instant::now() + DEADLINE;
    // A poll also ends with what is no record, such as an assignment.
    let record = std::iter::repeat_with(|| consumer.poll(Duration::from_millis(100)))
        .take_while(|_| Instant::now() < end)
        .flatten()
        .next();
    let record = record.expect("a record").expect("no error");
    assert_eq!(record.payload(), Some(&b"{}"[..]));
    let creation = kafka_context(&record);
    let processing = ProcessSpan::of_kafka(&record).consumer_group("billing").with_provider(shop.collector.provider());
    let processed = assert_processed(&shop.collector, processing, &creation, &created);
    for (name, value) in [
        ("messaging.system", "kafka"),
        ("messaging.destination.partition.id", "0"),
        ("messaging.kafka.offset", "0"),
        ("messaging.consumer.group.name", "billing"),
        ("messaging.message.id", created.attribute("messaging.message.id").expect("an id")),
    ] {
        assert_eq!(processed.attribute(name), Some(value), "{name}");
    }
}

#[test]
fn a_trace_leads_over_rocketmq_to_the_consumer() {
    let Some(name_server) = test_servers::shared_or_skip(ServerKind::Rocketmq) else { return };
    let (shop, topic) = (Shop::open(), unique_name());
    create_topic(&name_server, &topic).expect("a topic");
    let rocketmq = RocketMqTransport::new(RocketMqConfig::new(&name_server)).expect("a transport");
    let [_, created, sent] = sent_through(&shop, &topic, rocketmq);
    assert_eq!(sent.attribute("messaging.system"), Some("rocketmq"));

    let stored = rocketmq_broker::read(&name_server, &topic).remove(0);
    let creation = rocketmq_context(&stored.properties);
    let processing = ProcessSpan::new("rocketmq", topic.as_str()).message_id(&stored.properties[header::MESSAGE_ID]);
    assert_processed(&shop.collector, processing.with_provider(shop.collector.provider()), &creation, &created);
}

#[test]
fn a_trace_leads_over_http_to_the_consumer_sqlite() {
    let (shop, receiver, topic) = (Shop::open(), HttpReceiver::start(), "orders");
    let http = HttpTransport::builder().default_target(HttpTarget::new(&receiver.url)).build().expect("a transport");
    let [_, created, sent] = sent_through(&shop, topic, http);
    assert_eq!(sent.attribute("messaging.system"), Some("http"));

    let received = receiver.received();
    let [headers] = &received[..] else { panic!("one request: {received:?}") };
    let creation = http_context(headers);
    let processing = ProcessSpan::new("http", topic).with_provider(shop.collector.provider());
    assert_processed(&shop.collector, processing, &creation, &created);
}

/// On PostgreSQL, the rows of `outbox.transaction` go to the relay without being read.
#[test]
fn an_inline_message_is_linked_to_its_creation_postgres() {
    let Some(url) = test_servers::shared_or_skip(ServerKind::Postgres) else { return };
    let (collector, broker) = (Collector::start(), diesel_outbox::transport::MemoryTransport::new());
    let prefix = format!("traces_{}_", std::process::id());
    let outbox =
        Outbox::builder().topic(Topic::new("orders")).tables(TableNames::default().prefix(prefix).expect("a prefix"));
    let outbox = outbox.interceptor(OtelInterceptor::new().with_provider(collector.provider())).build().expect("build");
    let mut conn = PgConnection::establish(&url).expect("connect");
    outbox.migrate(&mut conn).expect("migrate");
    let pool = Pool::builder().max_size(4).build(ConnectionManager::<PgConnection>::new(&url)).expect("a pool");
    let transport = traced(broker.clone()).with_provider(collector.provider());
    let relay = outbox.relay().store(PostgresStore::new(pool)).transport(transport).start_blocking().expect("start");
    let end = Instant::now() + DEADLINE;
    let tracer = collector.provider().tracer("shop");
    // The first ones may be too early for the hand-over.
    for count in 1.. {
        let enqueue = |_| outbox.transaction(&mut conn, |tx| tx.enqueue(&Message::to("orders").kind("order.placed")));
        tracer.in_span("request", enqueue).expect("commit");
        let message = broker.wait_for_delivered_blocking(count, DEADLINE).expect("delivered").remove(count - 1);
        let sent = collector.wait_for(count, "send orders").remove(count - 1);
        let created = collector.wait_for(count, "create orders").remove(count - 1);
        crate::shop::assert_sent(&sent, &created.ids, &message);
        if message.path == Some("inline") {
            break;
        }
        assert!(Instant::now() < end, "none goes the direct path");
    }
    relay.shutdown(DEADLINE).expect("shutdown");
}
