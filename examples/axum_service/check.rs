//! Starts the service for real, beside a Kafka in memory, and looks what it does.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use diesel_outbox::transport::header;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use rdkafka::mocking::MockCluster;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::Failure;
use crate::client::request;
use crate::orders::TOPIC;

/// How long anything here may take.
const TIMEOUT: Duration = Duration::from_secs(30);

const PARTITIONS: i32 = 3;

pub(crate) fn main() -> Result<(), Failure> {
    let kafka = MockCluster::new(1)?;
    kafka.create_topic(TOPIC, PARTITIONS, 1)?;
    let folder = tempfile::tempdir()?;
    let service = Process::start(&folder.path().join("shop.db"), &kafka.bootstrap_servers())?;
    let consumer = consumer(&kafka.bootstrap_servers())?;
    let place = |order: i64| {
        let body = format!(r#"{{"order_id":{order},"total_cents":1999}}"#);
        request(service.address, "POST", "/orders", &body)
    };

    let (status, placed) = place(42)?;
    let placed: Value = serde_json::from_str(&placed)?;
    assert_eq!(status, 201, "{placed}");
    let came = arrived(&consumer, 1)?;
    assert_eq!(came.get("42").map(String::as_str), placed["message_id"].as_str(), "{came:?}");
    println!("An order was placed by HTTP, and its event is in Kafka, under the id that the answer told.");
    let (status, refused) = place(42)?;
    assert_eq!(status, 409, "{refused}");
    println!("The same order once more is refused: {refused}");

    assert_eq!(request(service.address, "GET", "/livez", "")?.0, 200);
    let (status, health) = request(service.address, "GET", "/readyz", "")?;
    assert_eq!((status, health.contains(r#""ready":true,"degraded":false"#)), (200, true), "{health}");
    println!("Health: {health}");
    let (_, metrics) = request(service.address, "GET", "/metrics", "")?;
    assert!(metrics.contains("outbox_delivered_total{topic=\"orders\""), "{metrics}");
    assert!(
        metrics.contains(
            "outbox_send_seconds_bucket{topic=\"orders\",transport=\"default\",outcome=\"delivered\",le=\"60\"}"
        ),
        "{metrics}"
    );
    let (_, letters) = request(service.address, "GET", "/admin/dead-letters", "")?;
    assert_eq!(letters, r#"{"letters":[],"more":false}"#);

    // Right before the end: what was committed is sent before the process goes.
    for order in 100..110 {
        assert_eq!(place(order)?.0, 201);
    }
    let said = service.terminate()?;
    assert!(said.contains("ended: 0 left in the queue, 0 in flight"), "{said}");
    assert_eq!(arrived(&consumer, 10)?.len(), 10);
    println!("Ten more orders, and SIGTERM: the service ended with nothing left, and Kafka has all ten events.");
    Ok(())
}

/// The service as a process.
struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Process {
    fn start(database: &Path, kafka: &str) -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("serve")
            .env("SHOP_LISTEN", "127.0.0.1:0")
            .env("SHOP_DATABASE", database)
            .env("SHOP_KAFKA", kafka)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut output = BufReader::new(child.stdout.take().ok_or("piped above")?);
        let mut said = String::new();
        output.read_line(&mut said)?;
        let address =
            said.trim_end().strip_prefix("listening on ").ok_or_else(|| format!("the service said {said:?}"))?;
        Ok(Self { address: address.parse()?, child, output })
    }

    /// Ends it as an orchestrator does; returns what it said.
    fn terminate(mut self) -> Result<String, Failure> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let mut said = String::new();
        self.output.read_to_string(&mut said)?;
        let status = self.child.wait()?;
        if status.success() {
            Ok(said)
        } else {
            Err(format!("the service ended with {status}, and said {said:?}").into())
        }
    }
}

/// A check that fails leaves no process behind.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn consumer(kafka: &str) -> Result<BaseConsumer, Failure> {
    let mut config = ClientConfig::new();
    let consumer: BaseConsumer = config.set("bootstrap.servers", kafka).set("group.id", "warehouse").create()?;
    let mut assignment = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        assignment.add_partition_offset(TOPIC, partition, Offset::Beginning)?;
    }
    consumer.assign(&assignment)?;
    Ok(consumer)
}

/// The next messages: their ids, by their keys.
fn arrived(consumer: &BaseConsumer, count: usize) -> Result<BTreeMap<String, String>, Failure> {
    let (end, mut came) = (Instant::now() + TIMEOUT, BTreeMap::new());
    while came.len() < count {
        assert!(Instant::now() < end, "{} of {count} messages after {TIMEOUT:?}", came.len());
        let Some(message) = consumer.poll(Duration::from_millis(100)) else { continue };
        let message = message?;
        let key = message.key().map(String::from_utf8_lossy).ok_or("every message has its key")?.into_owned();
        came.insert(key, id(&message).ok_or("every message has its id")?);
    }
    Ok(came)
}

fn id(message: &BorrowedMessage<'_>) -> Option<String> {
    let id = message.headers()?.iter().find(|header| header.key == header::MESSAGE_ID)?;
    Some(String::from_utf8_lossy(id.value?).into_owned())
}
