//! RocketMQ's settings in configuration files.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use humantime_serde::Serde;
use serde::{Deserialize, Deserializer};

use super::config::Credentials;
use super::{RocketMqConfig, RocketMqTopic};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    name_servers: Servers,
    group: Option<String>,
    namespace: Option<String>,
    access_key: Option<String>,
    secret_key: Option<String>,
    request_timeout: Option<Serde<Duration>>,
    delivery_timeout: Option<Serde<Duration>>,
    message_bytes_max: Option<usize>,
    in_flight_max: Option<usize>,
    tag_from_header: Option<String>,
    #[serde(default)]
    broker_delays: BTreeMap<Arc<str>, Serde<Duration>>,
    #[serde(default)]
    accept_unreplicated: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Servers {
    Text(String),
    List(Vec<String>),
}

/// The fields are the builder's methods, except `access_key` and `secret_key`, and `broker_delays`, a table by topic. `name_servers` is
/// required. Not serializable, because it holds a secret.
impl<'de> Deserialize<'de> for RocketMqConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = Config::deserialize(deserializer)?;
        let mut config = Self::new(match given.name_servers {
            Servers::Text(servers) => servers,
            Servers::List(servers) => servers.join(";"),
        });
        config.group = given.group.unwrap_or(config.group);
        config.namespace = given.namespace;
        if given.access_key.is_some() || given.secret_key.is_some() {
            // If one of them is missing, the transport reports it.
            let (access_key, secret_key) = (given.access_key.unwrap_or_default(), given.secret_key.unwrap_or_default());
            config.credentials = Some(Credentials { access_key, secret_key });
        }
        config.request_timeout = given.request_timeout.map_or(config.request_timeout, Serde::into_inner);
        config.delivery_timeout = given.delivery_timeout.map_or(config.delivery_timeout, Serde::into_inner);
        config.message_bytes_max = given.message_bytes_max.unwrap_or(config.message_bytes_max);
        config.in_flight_max = given.in_flight_max.unwrap_or(config.in_flight_max);
        config.tag_header = given.tag_from_header;
        config.broker_delays =
            given.broker_delays.into_iter().map(|(topic, delay)| (topic, delay.into_inner())).collect();
        config.accepts_unreplicated = given.accept_unreplicated;
        Ok(config)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TopicConfig {
    name: Arc<str>,
    cluster: Option<String>,
    queues: Option<u32>,
    #[serde(default)]
    attributes: BTreeMap<String, String>,
}

/// `name` is required; `cluster`, `queues` and a table `attributes` are optional.
impl<'de> Deserialize<'de> for RocketMqTopic {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let TopicConfig { name, cluster, queues, attributes } = TopicConfig::deserialize(deserializer)?;
        Ok(Self { name, cluster, queues, attributes })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn settings_are_read_and_checked() {
        let json = r#"{
            "name_servers": ["a:1", "b:2"], "group": "shop-outbox", "namespace": "shop", "access_key": "shop", "secret_key": "swordfish",
            "request_timeout": "2s", "delivery_timeout": "15s", "in_flight_max": 10, "broker_delays": {"orders": "5s"}
        }"#;
        let read: RocketMqConfig = serde_json::from_str(json).expect("settings");
        let built =
            RocketMqConfig::new("a:1;b:2").group("shop-outbox").namespace("shop").credentials("shop", "swordfish");
        let built = built.request_timeout(Duration::from_secs(2)).delivery_timeout(Duration::from_secs(15));
        assert_eq!(format!("{read:?}"), format!("{built:?}"));
        assert_eq!(read.broker_delays.get("orders"), Some(&Duration::from_secs(5)));
        read.check().expect("good ones");
        let half = serde_json::from_str::<RocketMqConfig>(r#"{"name_servers": "a:1", "access_key": "shop"}"#)
            .expect("settings");
        assert!(half.check().is_err(), "a key without its secret");
        let error =
            serde_json::from_str::<RocketMqConfig>(r#"{"nameservers": "a:1"}"#).expect_err("misspelt").to_string();
        assert!(error.contains("name_servers"), "{error}");
    }
}
