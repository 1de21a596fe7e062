//! Compares topics with their configuration.
//!
//! Each request may go to another broker. A broker that does not know a topic yet answers as if it did not exist, or
//! had no settings. That is no difference: the check asks again, for a while. Without that, 1 of 23 starts failed that
//! had just created their topic on two brokers.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use tokio::time::{Instant, sleep};

use super::topic::KafkaTopic;
use crate::limits::{KAFKA_ADMIN_POLL_INTERVAL, KAFKA_TOPIC_PROPAGATION_MAX};
use crate::transport::{FailureClass, TransportError};

/// How a topic is laid out.
#[derive(Debug, Clone, Copy)]
pub(super) struct TopicLayout {
    pub(super) partitions: usize,
    pub(super) replication: usize,
}

/// A topic's settings, as the cluster shows them.
pub(super) type Settings = HashMap<String, Option<String>>;

/// A broker's answers about a topic; `None` if that broker does not know it.
pub(super) trait Cluster {
    async fn shape(&self, topic: &KafkaTopic) -> Result<Option<TopicLayout>, TransportError>;

    async fn settings(&self, topic: &KafkaTopic) -> Result<Option<Settings>, TransportError>;
}

/// Fails with the differences of all topics.
pub(super) async fn check<'a>(
    cluster: &impl Cluster,
    topics: impl IntoIterator<Item = &'a KafkaTopic>,
) -> Result<(), TransportError> {
    // One deadline for all topics, so that a start with several missing ones reports them before it times out.
    let ends_at = Instant::now() + KAFKA_TOPIC_PROPAGATION_MAX;
    let mut differences = Vec::new();
    for topic in topics {
        differences.extend(compare(cluster, topic, ends_at).await?);
    }
    match differences.is_empty() {
        true => Ok(()),
        false => Err(TransportError::new(FailureClass::Topic, TopicsDiffer(differences))),
    }
}

/// Fails if a progress topic has not a partition for each lane, or does not keep the last record of each.
pub(super) async fn check_progress(
    cluster: &impl Cluster,
    topic: &KafkaTopic,
    lanes: u16,
) -> Result<(), TransportError> {
    let ends_at = Instant::now() + KAFKA_TOPIC_PROPAGATION_MAX;
    let name = || Arc::clone(&topic.name);
    let refused = |problem| Err(TransportError::new(FailureClass::Topic, UnfitProgress { topic: name(), problem }));
    let Some(shape) = retry_until_known(ends_at, async || cluster.shape(topic).await).await? else {
        return refused("it does not exist: create it, or give this user the right to".to_owned());
    };
    if shape.partitions < usize::from(lanes) {
        return refused(format!(
            "it has {} partitions, and {lanes} lanes need one each: add the rest",
            shape.partitions
        ));
    }
    let Some(settings) = retry_until_known(ends_at, async || cluster.settings(topic).await).await? else {
        return refused("its settings are not shown: give this user the right DescribeConfigs on it".to_owned());
    };
    match settings.get("cleanup.policy").and_then(Option::as_deref) {
        Some("compact") => Ok(()),
        found => refused(format!("its cleanup.policy is {}: set it to compact", found.unwrap_or("not shown"))),
    }
}

async fn compare(
    cluster: &impl Cluster,
    topic: &KafkaTopic,
    ends_at: Instant,
) -> Result<Vec<Difference>, TransportError> {
    let Some(shape) = retry_until_known(ends_at, async || cluster.shape(topic).await).await? else {
        return Ok(vec![Difference::missing(topic)]);
    };
    let TopicLayout { partitions, replication } = shape;
    let mut differences = Vec::new();
    let counts = [("partitions", topic.partitions, partitions), ("replication", topic.replication, replication)];
    for (field, wanted, found) in counts {
        if let Some(wanted) = wanted.filter(|&wanted| usize::try_from(wanted) != Ok(found)) {
            differences.push(Difference::new(topic, field, &wanted.to_string(), Some(found.to_string())));
        }
    }
    if topic.config.is_empty() {
        return Ok(differences);
    }
    let Some(settings) = retry_until_known(ends_at, async || cluster.settings(topic).await).await? else {
        return Err(TransportError::new(FailureClass::Topic, NoSettings { topic: Arc::clone(&topic.name) }));
    };
    for (name, wanted) in &topic.config {
        let found = settings.get(name).cloned().flatten();
        if found.as_ref() != Some(wanted) {
            differences.push(Difference::new(topic, name, wanted, found));
        }
    }
    Ok(differences)
}

/// Asks until a broker knows the topic; `None` if none did in time.
async fn retry_until_known<T>(
    ends_at: Instant,
    look_up: impl AsyncFn() -> Result<Option<T>, TransportError>,
) -> Result<Option<T>, TransportError> {
    loop {
        let found = look_up().await?;
        if found.is_some() || Instant::now() >= ends_at {
            return Ok(found);
        }
        sleep(KAFKA_ADMIN_POLL_INTERVAL).await;
    }
}

/// Brokers answer the same for an unknown topic and for one whose settings the user may not read: the client library
/// drops the code that tells which.
#[derive(Debug, thiserror::Error)]
#[error(
    "the cluster has topic {topic:?} and shows none of its settings: give this user the right DescribeConfigs on it, or leave \
     .config(..) out"
)]
struct NoSettings {
    topic: Arc<str>,
}

#[derive(Debug, thiserror::Error)]
#[error("topic {topic:?}, in which an exactly-once topic notes what is delivered, does not do: {problem}")]
struct UnfitProgress {
    topic: Arc<str>,
    problem: String,
}

/// What differs from a topic's configuration, as a text.
#[derive(Debug)]
struct Difference(String);

impl Difference {
    fn missing(topic: &KafkaTopic) -> Self {
        Self(format!("topic {:?} does not exist", topic.name))
    }

    fn new(topic: &KafkaTopic, field: &str, wanted: &str, found: Option<String>) -> Self {
        let found = found.as_deref().unwrap_or("nothing");
        Self(format!("topic {:?}: {field} wanted {wanted}, found {found}", topic.name))
    }
}

#[derive(Debug)]
struct TopicsDiffer(Vec<Difference>);

impl std::error::Error for TopicsDiffer {}

impl fmt::Display for TopicsDiffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the cluster differs from the configuration:")?;
        self.0.iter().enumerate().try_for_each(|(index, Difference(text))| {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma} {text}")
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A cluster of several brokers: this many requests go to one that does not know the topic yet.
    struct Propagating {
        shape_unknown: Cell<usize>,
        settings_unknown: Cell<usize>,
        policy: &'static str,
    }

    impl Propagating {
        fn new(shape_unknown: usize, settings_unknown: usize) -> Self {
            let (shape_unknown, settings_unknown) = (Cell::new(shape_unknown), Cell::new(settings_unknown));
            Self { shape_unknown, settings_unknown, policy: "compact" }
        }
    }

    /// Whether this request goes to such a broker.
    fn is_unknown(left: &Cell<usize>) -> bool {
        let is_unknown = left.get() > 0;
        left.set(left.get().saturating_sub(1));
        is_unknown
    }

    impl Cluster for Propagating {
        async fn shape(&self, _topic: &KafkaTopic) -> Result<Option<TopicLayout>, TransportError> {
            Ok((!is_unknown(&self.shape_unknown)).then_some(TopicLayout { partitions: 3, replication: 2 }))
        }

        async fn settings(&self, _topic: &KafkaTopic) -> Result<Option<Settings>, TransportError> {
            let settings = || HashMap::from([("cleanup.policy".to_owned(), Some(self.policy.to_owned()))]);
            Ok((!is_unknown(&self.settings_unknown)).then(settings))
        }
    }

    fn wanted() -> KafkaTopic {
        KafkaTopic::new("orders").partitions(3).replication(2).config("cleanup.policy", "compact")
    }

    async fn text_of(cluster: &Propagating) -> Option<String> {
        check(cluster, [&wanted()]).await.err().map(|error| error.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn the_look_up_is_repeated_if_a_broker_does_not_know_the_topic_yet() {
        for (shape, settings) in [(1, 0), (0, 1), (7, 0), (0, 7), (3, 3)] {
            assert_eq!(text_of(&Propagating::new(shape, settings)).await, None, "{shape} {settings}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_topic_unknown_until_the_deadline_is_reported_missing() {
        let began = Instant::now();
        let missing = text_of(&Propagating::new(usize::MAX, 0)).await.unwrap_or_default();
        assert!(missing.contains("does not exist"), "{missing}");
        let hidden = text_of(&Propagating::new(0, usize::MAX)).await.unwrap_or_default();
        assert!(hidden.contains("DescribeConfigs"), "{hidden}");
        assert!(began.elapsed() < KAFKA_TOPIC_PROPAGATION_MAX * 2 + KAFKA_ADMIN_POLL_INTERVAL * 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_progress_topic_has_a_partition_for_each_lane_and_is_compacted() {
        let text = async |cluster: Propagating, lanes| {
            let checked = check_progress(&cluster, &KafkaTopic::new("outbox-progress.ledger"), lanes).await;
            checked.err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(text(Propagating::new(3, 3), 3).await, "");
        assert!(text(Propagating::new(0, 0), 4).await.contains("4 lanes need one each"));
        let deleted = Propagating { policy: "compact,delete", ..Propagating::new(0, 0) };
        assert!(text(deleted, 3).await.contains("set it to compact"));
        assert!(text(Propagating::new(usize::MAX, 0), 3).await.contains("does not exist"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_difference_is_reported_at_once() {
        let began = Instant::now();
        let other = Propagating { policy: "delete", ..Propagating::new(0, 0) };
        let text = text_of(&other).await.unwrap_or_default();
        assert!(text.contains("cleanup.policy wanted compact, found delete"), "{text}");
        assert_eq!(began.elapsed(), std::time::Duration::ZERO);
    }
}
