use std::sync::Arc;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode as Code;

use super::blocking::blocking;
use super::classify::class_of;
use super::client::Client;
use super::topic::KafkaTopic;
use super::topic_check::{self, Cluster, Settings, TopicLayout};
use crate::limits::{KAFKA_ADMIN_TIMEOUT, KAFKA_PROGRESS_SEGMENT_BYTES};
use crate::transport::{FailureClass, TransportError};

/// Stands for the cluster's default in a request.
const BROKER_DEFAULT: i32 = -1;

/// A topic, and what to do if it is missing.
#[derive(Debug, Clone)]
pub(super) struct TopicSpec {
    pub(super) topic: KafkaTopic,
    pub(super) create: bool,
}

/// Creates the topics that are to be created, and compares every topic. `progress` are the progress topics of exactly-once topics,
/// with their lanes.
pub(super) async fn prepare(
    client: &Arc<Client>,
    specs: &[TopicSpec],
    progress: Vec<(Arc<str>, u16)>,
) -> Result<(), TransportError> {
    if specs.is_empty() && progress.is_empty() {
        return Ok(());
    }
    let specs = specs.to_vec();
    let client = Arc::clone(client);
    // Dropping the admin client waits for its thread, so all of this runs outside the runtime's threads. It has its own runtime,
    // because the caller's may end meanwhile.
    blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| TransportError::new(FailureClass::Temporary, error))?;
        runtime.block_on(prepare_by(&Admin::new(&client)?, &specs, &progress))
    })
    .await?
}

async fn prepare_by(
    admin: &Admin<'_>,
    specs: &[TopicSpec],
    progress: &[(Arc<str>, u16)],
) -> Result<(), TransportError> {
    for TopicSpec { topic, .. } in specs.iter().filter(|specs| specs.create) {
        admin.create(topic).await?;
    }
    topic_check::check(admin, specs.iter().map(|specs| &specs.topic)).await?;
    for (name, lanes) in progress {
        let is_given = specs.iter().any(|spec| spec.topic.name == *name);
        let topic = progress_topic(name, *lanes);
        // A broker refuses whoever may not create a topic, even if it exists.
        if !is_given && admin.shape(&topic).await?.is_none() {
            admin.create(&topic).await?;
        }
        topic_check::check_progress(admin, &topic, *lanes).await?;
    }
    Ok(())
}

fn progress_topic(name: &Arc<str>, lanes: u16) -> KafkaTopic {
    let topic = KafkaTopic::new(Arc::clone(name)).partitions(lanes.into()).config("cleanup.policy", "compact");
    topic.config("segment.bytes", KAFKA_PROGRESS_SEGMENT_BYTES.to_string())
}

struct Admin<'a> {
    client: &'a Client,
    inner: AdminClient<DefaultClientContext>,
}

impl<'a> Admin<'a> {
    fn new(client: &'a Client) -> Result<Self, TransportError> {
        let mut config = client.config().clone();
        // Otherwise the check would create the topic on a cluster with automatic creation.
        config.set("allow.auto.create.topics", "false");
        let inner = config.create().map_err(|error| client.config_error(error))?;
        Ok(Self { client, inner })
    }

    /// Creates the topic; an existing one is left as it is.
    async fn create(&self, topic: &KafkaTopic) -> Result<(), TransportError> {
        let replication = TopicReplication::Fixed(topic.replication.unwrap_or(BROKER_DEFAULT));
        let new = NewTopic::new(&topic.name, topic.partitions.unwrap_or(BROKER_DEFAULT), replication);
        let new = topic.config.iter().fold(new, |new, (name, value)| new.set(name, value));
        let made = self.inner.create_topics([&new], &options().operation_timeout(Some(KAFKA_ADMIN_TIMEOUT))).await;
        let made = made.map_err(|error| match code_of(&error) {
            Some(Code::UnsupportedFeature) => {
                TransportError::new(FailureClass::Topic, NoCreateTopics { topic: Arc::clone(&topic.name) })
            }
            // A cluster that elects its controller is as silent, so this is no reason to refuse the start.
            Some(Code::OperationTimedOut) if !self.client.is_out() => {
                TransportError::new(FailureClass::Connection, NotCreated { topic: Arc::clone(&topic.name) })
            }
            code => self.client.failed(code),
        })?;
        match made.into_iter().find_map(Result::err) {
            // Another node may have created it: several nodes may start at once.
            None | Some((_, Code::TopicAlreadyExists)) => Ok(()),
            Some((_, code)) => Err(self.refused(topic, "create", code)),
        }
    }

    fn failed(&self, error: KafkaError) -> TransportError {
        self.client.failed(code_of(&error))
    }

    fn refused(&self, topic: &KafkaTopic, doing: &'static str, code: Code) -> TransportError {
        match class_of(code) {
            class if class.is_outage() => self.client.failed(Some(code)),
            _ => TransportError::new(FailureClass::Topic, Refused { doing, topic: Arc::clone(&topic.name), code }),
        }
    }
}

impl Cluster for Admin<'_> {
    async fn shape(&self, topic: &KafkaTopic) -> Result<Option<TopicLayout>, TransportError> {
        let metadata = self.inner.inner().fetch_metadata(Some(&topic.name), KAFKA_ADMIN_TIMEOUT);
        let metadata = metadata.map_err(|error| self.failed(error))?;
        let Some(found) = metadata.topics().iter().find(|found| found.name() == &*topic.name) else {
            return Ok(None);
        };
        match found.error().map(Code::from) {
            Some(code) if is_unknown_topic(code) => Ok(None),
            Some(code) => Err(self.refused(topic, "describe", code)),
            None => {
                let partitions = found.partitions();
                let replication = partitions.iter().map(|partition| partition.replicas().len()).min();
                Ok(replication.map(|replication| TopicLayout { partitions: partitions.len(), replication }))
            }
        }
    }

    async fn settings(&self, topic: &KafkaTopic) -> Result<Option<Settings>, TransportError> {
        let described = self.inner.describe_configs([&ResourceSpecifier::Topic(&topic.name)], &options()).await;
        let described = described.map_err(|error| self.failed(error))?;
        let entries = match described.into_iter().next() {
            None => return Ok(None),
            Some(Err(code)) if is_unknown_topic(code) => return Ok(None),
            Some(Err(code)) => return Err(self.refused(topic, "describe", code)),
            Some(Ok(resource)) => resource.entries,
        };
        // Every topic has some thirty settings. If the broker answers with an error for this topic, the client library
        // returns no entry and drops the error.
        let settings: Settings = entries.into_iter().map(|entry| (entry.name, entry.value)).collect();
        Ok((!settings.is_empty()).then_some(settings))
    }
}

fn code_of(error: &KafkaError) -> Option<Code> {
    match error {
        KafkaError::AdminOp(code) => Some(*code),
        other => other.rdkafka_error_code(),
    }
}

/// A broker's answer for a topic that it does not know yet.
fn is_unknown_topic(code: Code) -> bool {
    matches!(code, Code::UnknownTopicOrPartition | Code::LeaderNotAvailable)
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(KAFKA_ADMIN_TIMEOUT))
}

#[derive(Debug, thiserror::Error)]
#[error(
    "topic {topic:?} cannot be created: the cluster does not support CreateTopics, like librdkafka's mock cluster: create the topic with \
     MockCluster::create_topic, and give .check_topic(..) in place of .create_topic(..), or neither"
)]
struct NoCreateTopics {
    topic: Arc<str>,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "topic {topic:?} was not created within {KAFKA_ADMIN_TIMEOUT:?}: check that the cluster has a controller. librdkafka's mock cluster does \
     not answer CreateTopics: create the topic with MockCluster::create_topic, and give .check_topic(..) in place of .create_topic(..)"
)]
struct NotCreated {
    topic: Arc<str>,
}

#[derive(Debug, thiserror::Error)]
#[error("the cluster refused to {doing} topic {topic:?}: {code}")]
struct Refused {
    doing: &'static str,
    topic: Arc<str>,
    code: Code,
}
