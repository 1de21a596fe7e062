use std::sync::Arc;

/// A topic as it should be in the cluster. Settings that are not given are left to the cluster, and not compared.
///
/// ```
/// use diesel_outbox::transport::KafkaTopic;
/// let orders = KafkaTopic::new("orders").partitions(6).replication(3).config("cleanup.policy", "delete");
/// ```
#[derive(Debug, Clone)]
pub struct KafkaTopic {
    pub(super) name: Arc<str>,
    pub(super) partitions: Option<i32>,
    pub(super) replication: Option<i32>,
    pub(super) config: Vec<(String, String)>,
}

impl KafkaTopic {
    /// A topic with the cluster's defaults.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), partitions: None, replication: None, config: Vec::new() }
    }

    /// The number of partitions.
    #[must_use]
    pub fn partitions(mut self, count: i32) -> Self {
        self.partitions = Some(count);
        self
    }

    /// The replication factor.
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
