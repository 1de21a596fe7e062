use std::fmt;
use std::sync::Arc;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode as Code;

use super::blocking::blocking;
use super::classify::class_of;
use super::client::Client;
use crate::limits::{KAFKA_ADMIN_LOOK_INTERVAL, KAFKA_ADMIN_TIMEOUT};
use crate::transport::{FailureClass, TransportError};

/// What the cluster's default stands for in a request.
const BROKER_DEFAULT: i32 = -1;

/// A topic as it should be in the cluster. What is not given is the cluster's choice, and not compared.
///
/// ```
/// use diesel_outbox::transport::KafkaTopic;
/// let orders = KafkaTopic::new("orders").partitions(6).replication(3).config("cleanup.policy", "delete");
/// ```
#[derive(Debug, Clone)]
pub struct KafkaTopic {
    name: Arc<str>,
    partitions: Option<i32>,
    replication: Option<i32>,
    config: Vec<(String, String)>,
}

impl KafkaTopic {
    /// A topic as the cluster makes them by default.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), partitions: None, replication: None, config: Vec::new() }
    }

    /// How many partitions it has.
    #[must_use]
    pub fn partitions(mut self, count: i32) -> Self {
        self.partitions = Some(count);
        self
    }

    /// On how many brokers each partition is.
    #[must_use]
    pub fn replication(mut self, factor: i32) -> Self {
        self.replication = Some(factor);
        self
    }

    /// A setting of the topic, such as `retention.ms`, spelt as the cluster shows it.
    #[must_use]
    pub fn config(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.config.push((name.into(), value.into()));
        self
    }
}

/// A topic, and what to do where it is missing.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) topic: KafkaTopic,
    pub(super) create: bool,
}

/// Makes what is to be made and compares every topic.
pub(super) async fn prepare(client: &Arc<Client>, wanted: &[Wanted]) -> Result<(), TransportError> {
    if wanted.is_empty() {
        return Ok(());
    }
    let wanted: Vec<(KafkaTopic, bool)> = wanted.iter().map(|wanted| (wanted.topic.clone(), wanted.create)).collect();
    let client = Arc::clone(client);
    let runtime = tokio::runtime::Handle::current();
    // The admin client's end waits for its thread, so all of it is away from the runtime's own threads.
    blocking(move || runtime.block_on(Admin::new(&client)?.prepare(&wanted))).await?
}

struct Admin<'a> {
    client: &'a Client,
    inner: AdminClient<DefaultClientContext>,
}

impl<'a> Admin<'a> {
    fn new(client: &'a Client) -> Result<Self, TransportError> {
        let mut config = client.config().clone();
        // Or the check would make what it looks for, on a cluster that makes topics by themselves.
        config.set("allow.auto.create.topics", "false");
        let inner = config.create().map_err(|error| client.config_error(error))?;
        Ok(Self { client, inner })
    }

    async fn prepare(&self, wanted: &[(KafkaTopic, bool)]) -> Result<(), TransportError> {
        let mut differences = Vec::new();
        for (topic, create) in wanted {
            if *create {
                self.create(topic).await?;
            }
            differences.extend(self.compare(topic).await?);
        }
        match differences.is_empty() {
            true => Ok(()),
            false => Err(TransportError::new(FailureClass::Topic, TopicsDiffer(differences))),
        }
    }

    /// Makes the topic; one that is there is left as it is.
    async fn create(&self, topic: &KafkaTopic) -> Result<(), TransportError> {
        let replication = TopicReplication::Fixed(topic.replication.unwrap_or(BROKER_DEFAULT));
        let new = NewTopic::new(&topic.name, topic.partitions.unwrap_or(BROKER_DEFAULT), replication);
        let new = topic.config.iter().fold(new, |new, (name, value)| new.set(name, value));
        let made = self.inner.create_topics([&new], &options().operation_timeout(Some(KAFKA_ADMIN_TIMEOUT))).await;
        let made = made.map_err(|error| self.failed(error))?;
        match made.into_iter().find_map(Result::err) {
            // Somebody else's, too: of several nodes that start at once, one makes it a moment before the others look.
            None | Some((_, Code::TopicAlreadyExists)) => self.wait_until_known(topic).await,
            Some((_, code)) => Err(self.refused(topic, "create", code)),
        }
    }

    /// A topic that was just made is unknown to a broker for a moment.
    async fn wait_until_known(&self, topic: &KafkaTopic) -> Result<(), TransportError> {
        let ends_at = tokio::time::Instant::now() + KAFKA_ADMIN_TIMEOUT;
        loop {
            match self.shape(topic)? {
                Some(_) => return Ok(()),
                None if tokio::time::Instant::now() >= ends_at => {
                    return Err(self.refused(topic, "find", Code::UnknownTopicOrPartition));
                }
                None => tokio::time::sleep(KAFKA_ADMIN_LOOK_INTERVAL).await,
            }
        }
    }

    async fn compare(&self, topic: &KafkaTopic) -> Result<Vec<Difference>, TransportError> {
        let Some((partitions, replication)) = self.shape(topic)? else {
            return Ok(vec![Difference::new(topic, "topic", "to be there", None)]);
        };
        let mut differences = Vec::new();
        let counts = [("partitions", topic.partitions, partitions), ("replication", topic.replication, replication)];
        for (field, wanted, found) in counts {
            if let Some(wanted) = wanted.filter(|&wanted| usize::try_from(wanted) != Ok(found)) {
                differences.push(Difference::new(topic, field, &wanted.to_string(), Some(found.to_string())));
            }
        }
        differences.extend(self.compare_config(topic).await?);
        Ok(differences)
    }

    async fn compare_config(&self, topic: &KafkaTopic) -> Result<Vec<Difference>, TransportError> {
        if topic.config.is_empty() {
            return Ok(Vec::new());
        }
        let described = self.inner.describe_configs([&ResourceSpecifier::Topic(&topic.name)], &options()).await;
        let mut described = described.map_err(|error| self.failed(error))?;
        let Some(resource) = described.pop() else {
            return Err(self.refused(topic, "describe", Code::UnknownTopicOrPartition));
        };
        let resource = resource.map_err(|code| self.refused(topic, "describe", code))?;
        let found = |name: &str| resource.get(name).and_then(|entry| entry.value.clone());
        let pairs = topic.config.iter().map(|(name, wanted)| (name, wanted, found(name)));
        let differing = pairs.filter(|(_, wanted, found)| found.as_ref() != Some(*wanted));
        Ok(differing.map(|(name, wanted, found)| Difference::new(topic, name, wanted, found)).collect())
    }

    /// Partitions and replicas of a topic; `None` where it is not there.
    fn shape(&self, topic: &KafkaTopic) -> Result<Option<(usize, usize)>, TransportError> {
        let metadata = self.inner.inner().fetch_metadata(Some(&topic.name), KAFKA_ADMIN_TIMEOUT);
        let metadata = metadata.map_err(|error| self.failed(error))?;
        let Some(found) = metadata.topics().iter().find(|found| found.name() == &*topic.name) else {
            return Ok(None);
        };
        match found.error().map(Code::from) {
            Some(Code::UnknownTopicOrPartition | Code::LeaderNotAvailable) => Ok(None),
            Some(code) => Err(self.refused(topic, "describe", code)),
            None => {
                let partitions = found.partitions();
                let replication = partitions.iter().map(|partition| partition.replicas().len()).min();
                Ok(replication.map(|replication| (partitions.len(), replication)))
            }
        }
    }

    fn failed(&self, error: KafkaError) -> TransportError {
        let code = match error {
            KafkaError::AdminOp(code) => Some(code),
            other => other.rdkafka_error_code(),
        };
        self.client.failed(code)
    }

    fn refused(&self, topic: &KafkaTopic, doing: &'static str, code: Code) -> TransportError {
        match class_of(code) {
            class if class.is_outage() => self.client.failed(Some(code)),
            _ => TransportError::new(FailureClass::Topic, Refused { doing, topic: Arc::clone(&topic.name), code }),
        }
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(KAFKA_ADMIN_TIMEOUT))
}

#[derive(Debug, thiserror::Error)]
#[error("the cluster does not let us {doing} topic {topic:?}: {code}")]
struct Refused {
    doing: &'static str,
    topic: Arc<str>,
    code: Code,
}

/// A field of a topic that is not as it was configured.
#[derive(Debug)]
struct Difference {
    topic: Arc<str>,
    field: String,
    wanted: String,
    found: Option<String>,
}

impl Difference {
    fn new(topic: &KafkaTopic, field: &str, wanted: &str, found: Option<String>) -> Self {
        Self { topic: Arc::clone(&topic.name), field: field.to_owned(), wanted: wanted.to_owned(), found }
    }
}

#[derive(Debug)]
struct TopicsDiffer(Vec<Difference>);

impl std::error::Error for TopicsDiffer {}

impl fmt::Display for TopicsDiffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the cluster differs from what is configured:")?;
        self.0.iter().enumerate().try_for_each(|(index, Difference { topic, field, wanted, found })| {
            let comma = if index == 0 { "" } else { "," };
            let found = found.as_deref().unwrap_or("nothing");
            write!(f, "{comma} topic {topic:?}: {field} wanted {wanted}, found {found}")
        })
    }
}
