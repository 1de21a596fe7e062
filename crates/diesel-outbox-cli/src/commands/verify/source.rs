//! The broker, or the reports of consumers.

use std::time::Duration;

use clap::{ArgGroup, Args};
use diesel_outbox_verify::RecordSource;

use super::duration;
use crate::arguments::Header;
use crate::error::Error;

/// With what the tables are compared.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Compared with")]
#[command(group(ArgGroup::new("source").required(true).args(["kafka", "rocketmq", "processed_within"])))]
pub(super) struct SourceArgs {
    /// The topic in the Kafka cluster at host:port, or several of these separated by commas
    #[arg(long, value_name = "BROKERS")]
    kafka: Option<String>,
    /// A setting of the Kafka client, such as security.protocol=SSL; may be repeated
    #[arg(long, value_name = "NAME=VALUE", requires = "kafka")]
    kafka_setting: Vec<Header>,
    /// The password for Kafka's SASL
    #[arg(long, env = "KAFKA_SASL_PASSWORD", hide_env_values = true, value_name = "PASSWORD")]
    kafka_password: Option<String>,
    /// The topic in the RocketMQ cluster of the name servers at host:port, separated by semicolons
    #[arg(long, value_name = "NAME SERVERS")]
    rocketmq: Option<String>,
    /// The namespace of the topic
    #[arg(long, value_name = "NAME", requires = "rocketmq")]
    rocketmq_namespace: Option<String>,
    /// How long the broker holds the topic's messages back
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "rocketmq")]
    rocketmq_delay: Option<Duration>,
    /// Who reads from RocketMQ
    #[arg(long, env = "ROCKETMQ_ACCESS_KEY", value_name = "KEY")]
    rocketmq_access_key: Option<String>,
    /// The secret of that key
    #[arg(long, env = "ROCKETMQ_SECRET_KEY", hide_env_values = true, value_name = "SECRET")]
    rocketmq_secret_key: Option<String>,
    /// What consumers have reported as processed, which they should within this time; for HTTP, which has no topic to read
    #[arg(long, value_name = "TIME", value_parser = duration)]
    processed_within: Option<Duration>,
}

impl SourceArgs {
    pub(super) fn processed_within(&self) -> Option<Duration> {
        self.processed_within
    }

    /// The reader of the topic.
    pub(super) fn open(&self) -> Result<Box<dyn RecordSource>, Error> {
        match (&self.kafka, &self.rocketmq) {
            (Some(brokers), _) => self.open_kafka(brokers),
            (None, Some(name_servers)) => self.open_rocketmq(name_servers),
            (None, None) => Err(Error::usage("give --kafka, --rocketmq or --processed-within")),
        }
    }

    #[cfg(feature = "kafka")]
    fn open_kafka(&self, brokers: &str) -> Result<Box<dyn RecordSource>, Error> {
        let mut config = diesel_outbox::transport::KafkaConfig::new(brokers);
        if let Some(password) = &self.kafka_password {
            config = config.set("sasl.password", password);
        }
        for Header { name, value } in &self.kafka_setting {
            config = config.set(name, value);
        }
        Ok(Box::new(diesel_outbox_verify::KafkaSource::new(&config)))
    }

    #[cfg(not(feature = "kafka"))]
    fn open_kafka(&self, _brokers: &str) -> Result<Box<dyn RecordSource>, Error> {
        let _ = &self.kafka_password;
        Err(Error::usage("this program was built without the feature `kafka`"))
    }

    #[cfg(feature = "rocketmq")]
    fn open_rocketmq(&self, name_servers: &str) -> Result<Box<dyn RecordSource>, Error> {
        let mut source = diesel_outbox_verify::RocketMqSource::new(name_servers);
        if let Some(namespace) = &self.rocketmq_namespace {
            source = source.namespace(namespace);
        }
        if let Some(delay) = self.rocketmq_delay {
            source = source.broker_delay(delay);
        }
        source = match (&self.rocketmq_access_key, &self.rocketmq_secret_key) {
            (Some(access_key), Some(secret_key)) => source.credentials(access_key, secret_key),
            (None, None) => source,
            _ => return Err(Error::usage("give both --rocketmq-access-key and --rocketmq-secret-key")),
        };
        Ok(Box::new(source))
    }

    #[cfg(not(feature = "rocketmq"))]
    fn open_rocketmq(&self, _name_servers: &str) -> Result<Box<dyn RecordSource>, Error> {
        let _ = (&self.rocketmq_namespace, self.rocketmq_delay, &self.rocketmq_access_key, &self.rocketmq_secret_key);
        Err(Error::usage(
            "this program was built without the feature `rocketmq`: cargo install diesel-outbox-cli --features rocketmq",
        ))
    }
}
