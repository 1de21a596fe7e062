//! The `process` spans of the library's own consumers, over each broker.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, Pool};
use diesel_outbox::consumer::{HandlerError, KafkaConsumer, Record, RocketMqConsumer, RunningConsumer};
use diesel_outbox::retry::Fixed;
use diesel_outbox::transport::{KafkaConfig, KafkaTopic, KafkaTransport, RocketMqConfig, RocketMqTransport};
use diesel_outbox_otel::consumer::continue_trace;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use xtask::servers::ServerKind;
use xtask::servers::rocketmq::create_topic;
use xtask::test_servers;

use crate::child;
use crate::collector::{DEADLINE, Span};
use crate::shop::{Shop, connect, exporting_to};
use crate::transports::{sent_through, unique_name};

/// Has another process consume the topic: a subscriber of `tracing` is of a whole process. Its handler fails once.
fn consumed(shop: &Shop, broker: &str, address: &str, topic: &str, created: &Span) -> [Span; 2] {
    let argument = [shop.collector.endpoint(), broker, address, topic, &shop.file()].join(" ");
    let status = child::run("loops::this_process_consumes", &argument);
    assert!(status.success(), "{status}");
    let mut spans = shop.collector.wait_for(2, &format!("process {topic}"));
    spans.sort_by_key(|span| span.attribute("outbox.attempt").map(str::to_owned));
    let inner = shop.collector.wait_for(2, "write invoice");
    for span in &spans {
        assert_eq!(span.kind, SpanKind::Consumer);
        assert_eq!((&span.ids.0, &span.parent), (&created.ids.0, &created.ids.1), "it continues the trace");
        assert_eq!(span.linked(), std::slice::from_ref(&created.ids));
        let children = inner.iter().filter(|inner| inner.parent == span.ids.1 && inner.ids.0 == span.ids.0);
        assert_eq!(children.count(), 1, "what the handler does is a child: {inner:#?}");
        let expected = [
            ("messaging.operation.name", "process"),
            ("messaging.operation.type", "process"),
            ("messaging.system", broker),
            ("messaging.destination.name", topic),
            // Each test has a group of its own: members must agree on topics and strategy.
            ("messaging.consumer.group.name", topic),
            ("messaging.message.id", created.attribute("messaging.message.id").expect("an id")),
            ("outbox.kind", "order.placed"),
        ];
        let seen: BTreeMap<&str, &str> =
            expected.iter().filter_map(|(name, _)| Some((*name, span.attribute(name)?))).collect();
        assert_eq!(seen, BTreeMap::from(expected));
    }
    let [first, second] = <[Span; 2]>::try_from(spans).expect("two");
    let of = |span: &Span| {
        let attribute = |name: &str| span.attribute(name).map(str::to_owned);
        (attribute("outbox.attempt"), attribute("error.type"), span.error.clone())
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(of(&first), (text("1"), text("retriable"), text("not yet")));
    assert_eq!(of(&second), (text("2"), None, None));
    [first, second]
}

#[test]
fn a_consumer_of_kafka_continues_the_trace() {
    let Some(bootstrap) = test_servers::shared_or_skip(ServerKind::Kafka) else { return };
    let (shop, topic) = (Shop::open(), unique_name());
    let kafka = KafkaTransport::builder(KafkaConfig::new(&bootstrap));
    let kafka = kafka.create_topic(KafkaTopic::new(topic.as_str()).partitions(1).replication(1));
    let [_, created, _] = sent_through(&shop, &topic, kafka.build().expect("a transport"));
    for span in consumed(&shop, "kafka", &bootstrap, &topic, &created) {
        assert_eq!(span.attribute("messaging.destination.partition.id"), Some("0"));
        assert_eq!(span.attribute("messaging.kafka.offset"), Some("0"));
    }
}

#[test]
fn a_consumer_of_rocketmq_continues_the_trace() {
    let Some(name_server) = test_servers::shared_or_skip(ServerKind::Rocketmq) else { return };
    let (shop, topic) = (Shop::open(), unique_name());
    create_topic(&name_server, &topic).expect("a topic");
    let rocketmq = RocketMqTransport::new(RocketMqConfig::new(&name_server)).expect("a transport");
    let [_, created, _] = sent_through(&shop, &topic, rocketmq);
    for span in consumed(&shop, "rocketmq", &name_server, &topic, &created) {
        let partition = span.attribute("messaging.destination.partition.id").expect("a queue");
        assert!(partition.contains('/'), "{partition}");
        assert_eq!((span.attribute("outbox.offset"), span.attribute("messaging.kafka.offset")), (Some("0"), None));
    }
}

/// The other process. Without its argument it does nothing.
#[test]
fn this_process_consumes() {
    let Some(argument) = child::argument() else { return };
    let parts: Vec<&str> = argument.splitn(5, ' ').collect();
    let [endpoint, broker, address, topic, file] = parts[..] else { panic!("five: {parts:?}") };
    let provider = exporting_to(endpoint);
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("billing"));
    // What exports spans makes some of its own.
    let targets = Targets::new().with_targets([("diesel_outbox", Level::INFO), ("it", Level::INFO)]);
    let subscriber = tracing_subscriber::registry().with(targets).with(layer);
    tracing::subscriber::set_global_default(subscriber).expect("the first one");
    let file = format!("{file}.billing");
    let mut conn = connect(&file);
    conn.batch_execute("CREATE TABLE invoices (payload text NOT NULL)").expect("a table");
    let consumer = match broker {
        "kafka" => start_kafka(address, topic, &file, &mut conn),
        _ => start_rocketmq(address, topic, &file, &mut conn),
    };
    let end = Instant::now() + DEADLINE;
    while invoices(&mut conn) == 0 {
        assert!(Instant::now() < end, "nothing is consumed within {DEADLINE:?}: {consumer:?}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let report = consumer.shutdown_blocking(DEADLINE);
    assert!(report.is_clean(), "{report:?}");
    provider.shutdown().expect("exported");
}

fn invoices(conn: &mut SqliteConnection) -> i64 {
    diesel::dsl::sql::<diesel::sql_types::BigInt>("SELECT count(*) FROM invoices").get_result(conn).expect("a count")
}

macro_rules! start {
    ($function:ident, $consumer:ty, $config:expr) => {
        fn $function(address: &str, topic: &str, file: &str, conn: &mut SqliteConnection) -> RunningConsumer {
            let consumer = <$consumer>::new($config(address), topic).topic(topic);
            let consumer = consumer.retry(Fixed::from(vec![Duration::from_millis(50)])).workers(1).without_pruning();
            let consumer = consumer.on_span(|span, record| continue_trace(span, record.headers().iter()));
            consumer.migrate(conn).expect("migrate");
            let pool =
                Pool::builder().max_size(3).build(ConnectionManager::<SqliteConnection>::new(file)).expect("a pool");
            let attempts = AtomicU32::new(0);
            consumer.start(pool, move |conn, record| handle(conn, record, &attempts)).expect("it starts")
        }
    };
}

start!(start_kafka, KafkaConsumer, KafkaConfig::new);
start!(start_rocketmq, RocketMqConsumer, RocketMqConfig::new);

fn handle(conn: &mut SqliteConnection, record: &Record, attempts: &AtomicU32) -> Result<(), HandlerError> {
    assert_eq!(record.payload(), Some(&b"{}"[..]));
    tracing::info_span!("write invoice").in_scope(|| conn.batch_execute("INSERT INTO invoices VALUES ('{}')"))?;
    match attempts.fetch_add(1, Ordering::SeqCst) {
        0 => Err(HandlerError::retriable("not yet")),
        _ => Ok(()),
    }
}
