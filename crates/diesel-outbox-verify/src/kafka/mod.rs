//! Topics of Kafka.

mod decode;
mod reader;

use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use diesel_outbox::transport::KafkaConfig;
use rdkafka::ClientConfig;

use self::reader::Reader;
use crate::record::Record;
use crate::source::{RecordSource, SourceError, TopicState};

/// Settings that a consumer has in common with a producer. The others are about sending.
const COMMON: &[&str] = &[
    "api.version.",
    "bootstrap.servers",
    "broker.",
    "client.",
    "enable.ssl.",
    "https.",
    "metadata.",
    "reconnect.",
    "sasl.",
    "security.",
    "socket.",
    "ssl.",
    "test.mock.",
];

/// Reads a topic of Kafka: every partition, what is committed, without a consumer group.
///
/// ```
/// use diesel_outbox::transport::KafkaConfig;
/// use diesel_outbox_verify::KafkaSource;
/// let topic = KafkaSource::new(&KafkaConfig::new("kafka-1:9092,kafka-2:9092"));
/// ```
///
/// It needs the rights to read the topic (`Read` and `Describe`), and its settings (`DescribeConfigs`) to learn whether it is compacted.
#[derive(Debug)]
pub struct KafkaSource {
    config: ClientConfig,
    reader: Option<Reader>,
}

impl KafkaSource {
    /// A reader that connects as the transport with this configuration does.
    pub fn new(config: &KafkaConfig) -> Self {
        let mut client = ClientConfig::new();
        let is_common = |name: &str| COMMON.iter().any(|common| name.starts_with(common));
        client.extend(config.settings().filter(|(name, _)| is_common(name)).map(|(n, v)| (n.to_owned(), v.to_owned())));
        Self { config: client, reader: None }
    }

    /// Runs what blocks on a thread for that.
    async fn with_reader<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Reader) -> Result<T, SourceError> + Send + 'static,
    ) -> Result<T, SourceError> {
        let Some(mut reader) = self.reader.take() else {
            return Err(SourceError::Settings { problem: "the topic is not open".to_owned() });
        };
        let (reader, done) = blocking(move || {
            let done = work(&mut reader);
            (reader, done)
        })
        .await?;
        self.reader = Some(reader);
        done
    }
}

#[async_trait]
impl RecordSource for KafkaSource {
    async fn open(&mut self, topic: &str, from: Option<SystemTime>) -> Result<TopicState, SourceError> {
        let (config, topic) = (self.config.clone(), Arc::from(topic));
        let reader = blocking(move || Reader::open(&config, topic, from)).await??;
        let state = reader.state.clone();
        self.reader = Some(reader);
        Ok(state)
    }

    async fn next(&mut self) -> Result<Vec<Record>, SourceError> {
        self.with_reader(Reader::read).await
    }

    async fn move_ends(&mut self) -> Result<(), SourceError> {
        self.with_reader(Reader::move_ends).await
    }

    fn state(&self) -> TopicState {
        self.reader.as_ref().map(|reader| reader.state.clone()).unwrap_or_default()
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, SourceError> {
    let failed = |error: tokio::task::JoinError| SourceError::Settings { problem: error.to_string() };
    tokio::task::spawn_blocking(work).await.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_producers_are_left_out() {
        let config = KafkaConfig::new("kafka:9093").set("security.protocol", "SASL_SSL").set("sasl.username", "shop");
        let source = KafkaSource::new(&config);
        for (name, value) in
            [("bootstrap.servers", "kafka:9093"), ("security.protocol", "SASL_SSL"), ("sasl.username", "shop")]
        {
            assert_eq!(source.config.get(name), Some(value));
        }
        for name in ["acks", "enable.idempotence", "linger.ms", "message.timeout.ms", "partitioner"] {
            assert_eq!(source.config.get(name), None, "{name}");
        }
    }
}
