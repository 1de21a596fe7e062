//! Kafka's settings in configuration files.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::{KafkaConfig, KafkaTopic};

/// A setting, or a table of settings with the same prefix: TOML and YAML make a table of `sasl.username = ..` without quotes.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Flag(bool),
    Whole(i64),
    Fraction(f64),
    Text(String),
    List(Vec<String>),
    Table(BTreeMap<String, Value>),
}

impl Value {
    fn flatten(self, name: String, into: &mut BTreeMap<String, String>) {
        let text = match self {
            Self::Flag(value) => value.to_string(),
            Self::Whole(value) => value.to_string(),
            Self::Fraction(value) => value.to_string(),
            Self::Text(value) => value,
            Self::List(values) => values.join(","),
            Self::Table(values) => {
                return values.into_iter().for_each(|(inner, value)| value.flatten(format!("{name}.{inner}"), into));
            }
        };
        into.insert(name, text);
    }
}

/// A table of the client's settings by name, including `bootstrap.servers`. The defaults of [`KafkaConfig`] apply. Not serializable,
/// because it holds secrets.
impl<'de> Deserialize<'de> for KafkaConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut settings = BTreeMap::new();
        for (name, value) in BTreeMap::<String, Value>::deserialize(deserializer)? {
            value.flatten(name, &mut settings);
        }
        let servers = ["bootstrap.servers", "metadata.broker.list"].into_iter().find_map(|name| settings.remove(name));
        let Some(servers) = servers else {
            return Err(D::Error::custom("bootstrap.servers is missing: give host:port of a broker, or of several"));
        };
        Ok(settings.into_iter().fold(Self::new(servers), |config, (name, value)| config.set(name, value)))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TopicConfig {
    name: Arc<str>,
    partitions: Option<i32>,
    replication: Option<i32>,
    #[serde(default)]
    config: BTreeMap<String, Value>,
}

/// `name` is required; `partitions`, `replication` and a table `config` are optional.
impl<'de> Deserialize<'de> for KafkaTopic {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let TopicConfig { name, partitions, replication, config } = TopicConfig::deserialize(deserializer)?;
        let mut settings = BTreeMap::new();
        config.into_iter().for_each(|(name, value)| value.flatten(name, &mut settings));
        Ok(Self { name, partitions, replication, config: settings.into_iter().collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_flat_and_nested() {
        let json = r#"{
            "bootstrap.servers": ["kafka-1:9093", "kafka-2:9093"], "security": {"protocol": "SASL_SSL"}, "linger.ms": 5,
            "sasl": {"mechanism": "PLAIN", "username": "shop", "password": "swordfish"}, "enable.idempotence": true
        }"#;
        let read: KafkaConfig = serde_json::from_str(json).expect("settings");
        let built = KafkaConfig::new("kafka-1:9093,kafka-2:9093")
            .set("security.protocol", "SASL_SSL")
            .set("sasl.mechanisms", "PLAIN")
            .set("sasl.username", "shop")
            .set("sasl.password", "swordfish")
            .set("linger.ms", "5");
        assert_eq!(format!("{read:?}"), format!("{built:?}"));
        let error = serde_json::from_str::<KafkaConfig>(r#"{"acks": "all"}"#).expect_err("no servers").to_string();
        assert!(error.contains("bootstrap.servers is missing"), "{error}");
    }

    #[test]
    fn topics_are_read() {
        let json = r#"{"name": "orders", "partitions": 6, "config": {"retention.ms": 604800000, "cleanup": {"policy": "delete"}}}"#;
        let read: KafkaTopic = serde_json::from_str(json).expect("a topic");
        let built = KafkaTopic::new("orders").partitions(6);
        let built = built.config("cleanup.policy", "delete").config("retention.ms", "604800000");
        assert_eq!(format!("{read:?}"), format!("{built:?}"));
    }
}
