use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

use super::classify::CallError;
use super::client::Client;
use super::connection::Connection;
use super::nodes::Node;
use crate::events::log_event;
use crate::transport::{FailureClass, TransportError};

const UPDATE_AND_CREATE_TOPIC: i32 = 17;
const GET_TOPIC_CONFIG: i32 = 351;

/// A topic as it should be on the cluster, for [`create_topic`](super::RocketMqTransportBuilder::create_topic) and
/// [`check_topic`](super::RocketMqTransportBuilder::check_topic).
///
/// ```
/// use diesel_outbox::transport::RocketMqTopic;
/// let orders = RocketMqTopic::new("orders").queues(8).attribute("message.type", "FIFO");
/// ```
#[derive(Debug, Clone)]
pub struct RocketMqTopic {
    pub(super) name: Arc<str>,
    pub(super) cluster: Option<String>,
    pub(super) queues: Option<u32>,
    pub(super) attributes: BTreeMap<String, String>,
}

impl RocketMqTopic {
    /// A topic on every broker. The name is the outbox's; the namespace of the configuration is put before it.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), cluster: None, queues: None, attributes: BTreeMap::new() }
    }

    /// Restricts it to the brokers of one cluster.
    #[must_use]
    pub fn cluster(mut self, cluster: impl Into<String>) -> Self {
        self.cluster = Some(cluster.into());
        self
    }

    /// The number of its queues on each broker, for writing and reading; by default a new topic gets 8. Keys are spread
    /// over the queues: if order matters, keep their number.
    #[must_use]
    pub fn queues(mut self, queues: u32) -> Self {
        self.queues = Some(queues);
        self
    }

    /// An attribute, such as `message.type` with `NORMAL`, `FIFO`, `DELAY` or `TRANSACTION`.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.insert(name.into(), value.into());
        self
    }
}

/// A topic to create or check.
#[derive(Debug, Clone)]
pub(super) struct TopicSpec {
    pub(super) topic: RocketMqTopic,
    pub(super) create: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    read_queue_nums: u32,
    write_queue_nums: u32,
    #[serde(default)]
    attributes: BTreeMap<String, String>,
}

/// Creates or checks the topics on each of their brokers. A broker that is down is left out if another one answers for
/// the topic: the name servers still list it for a while, and messages go past it.
pub(super) async fn prepare(client: &Client, wanted: &[TopicSpec]) -> Result<(), TransportError> {
    if wanted.is_empty() {
        return Ok(());
    }
    let failed = |call_error: CallError| call_error.into_outage().error();
    let (connection, masters) = (client.connection().await.map_err(failed)?, client.masters().await.map_err(failed)?);
    let (mut differences, mut gone) = (Vec::new(), HashMap::<Arc<str>, CallError>::new());
    for wanted in wanted {
        let topic = &wanted.topic;
        let is_its = |node: &&Node| topic.cluster.as_ref().is_none_or(|cluster| node.cluster == *cluster);
        let nodes: Vec<&Node> = masters.iter().filter(is_its).collect();
        if nodes.is_empty() {
            differences.push(Difference(format!("topic {:?}: its cluster has no brokers", topic.name)));
        }
        let (wire_name, mut responses) = (client.config.wire_name(&topic.name), 0);
        for node in &nodes {
            // Each broker that is down costs its time-out once, not once for every topic.
            if gone.contains_key(&node.name) {
                continue;
            }
            match prepare_on(&*connection, node, &wire_name, wanted).await.map_err(CallError::into_outage) {
                Ok(difference) => {
                    responses += 1;
                    differences.extend(difference);
                }
                Err(call_error) if call_error.class == FailureClass::Connection => {
                    log_event!(ROCKETMQ_BROKER_DOWN, broker = &*node.name, error = %call_error.text);
                    gone.insert(Arc::clone(&node.name), call_error);
                }
                Err(call_error) => return Err(call_error.error()),
            }
        }
        if responses == 0
            && let Some(call_error) = nodes.iter().find_map(|node| gone.get(&node.name))
        {
            return Err(call_error.error());
        }
    }
    match differences.is_empty() {
        true => Ok(()),
        false => Err(TransportError::new(FailureClass::Topic, TopicsDiffer(differences))),
    }
}

/// Creates or checks one topic on one broker. Returns its differences there.
async fn prepare_on(
    connection: &dyn Connection,
    node: &Node,
    wire_name: &str,
    wanted: &TopicSpec,
) -> Result<Vec<Difference>, CallError> {
    let TopicSpec { topic, create } = wanted;
    match read_topic(connection, node, wire_name).await? {
        Some(found) => Ok(compare(topic, node, &found)),
        None if *create => create_topic_on(connection, node, wire_name, topic).await.map(|()| Vec::new()),
        None => Ok(vec![Difference(format!("topic {:?} does not exist on {}", topic.name, node.name))]),
    }
}

async fn read_topic(connection: &dyn Connection, node: &Node, wire_name: &str) -> Result<Option<Found>, CallError> {
    let response =
        connection.request(&node.address, GET_TOPIC_CONFIG, &[("topic", wire_name.to_owned())], Vec::new()).await;
    let Some(body) = response? else { return Ok(None) };
    let unread = |_| CallError::new(FailureClass::Topic, "the broker's settings of the topic cannot be read");
    serde_json::from_slice(&body).map(Some).map_err(unread)
}

async fn create_topic_on(
    connection: &dyn Connection,
    node: &Node,
    wire_name: &str,
    topic: &RocketMqTopic,
) -> Result<(), CallError> {
    const QUEUES: u32 = 8;
    let queues = topic.queues.unwrap_or(QUEUES).to_string();
    // A plus adds an attribute to the existing ones; here there are none.
    let attributes: Vec<_> = topic.attributes.iter().map(|(name, value)| format!("+{name}={value}")).collect();
    let fields = [
        ("topic", wire_name.to_owned()),
        ("defaultTopic", "TBW102".to_owned()),
        ("readQueueNums", queues.clone()),
        ("writeQueueNums", queues),
        ("perm", "6".to_owned()),
        ("topicFilterType", "SINGLE_TAG".to_owned()),
        ("topicSysFlag", "0".to_owned()),
        ("order", "false".to_owned()),
        ("attributes", attributes.join(",")),
    ];
    connection.request(&node.address, UPDATE_AND_CREATE_TOPIC, &fields, Vec::new()).await.map(drop)
}

fn compare(topic: &RocketMqTopic, node: &Node, found: &Found) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut expect = |field: &str, wanted: &str, found: Option<&str>| {
        if found != Some(wanted) {
            differences.push(Difference::new(topic, &node.name, field, wanted, found.map(str::to_owned)));
        }
    };
    if let Some(queues) = topic.queues.map(|queues| queues.to_string()) {
        expect("queues to write", &queues, Some(&found.write_queue_nums.to_string()));
        expect("queues to read", &queues, Some(&found.read_queue_nums.to_string()));
    }
    for (name, value) in &topic.attributes {
        expect(name, value, found.attributes.get(name).map(String::as_str));
    }
    differences
}

/// What differs from a topic's configuration, as a text.
#[derive(Debug)]
struct Difference(String);

impl Difference {
    fn new(topic: &RocketMqTopic, broker: &str, field: &str, wanted: &str, found: Option<String>) -> Self {
        let found = found.as_deref().unwrap_or("nothing");
        Self(format!("topic {:?} on {broker}: {field} wanted {wanted}, found {found}", topic.name))
    }
}

#[derive(Debug)]
struct TopicsDiffer(Vec<Difference>);

impl std::error::Error for TopicsDiffer {}

impl fmt::Display for TopicsDiffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the cluster differs from the configuration: ")?;
        self.0.iter().enumerate().try_for_each(|(index, Difference(text))| {
            if index > 0 {
                f.write_str(", ")?;
            }
            f.write_str(text)
        })
    }
}
