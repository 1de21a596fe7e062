//! Topics in configuration files.

use std::sync::Arc;
use std::time::Duration;

use humantime_serde::Serde;
use serde::{Deserialize, Deserializer};

use super::{OnFailedKey, Topic};
use crate::retry::RetryConfig;

/// The builder's methods as fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    name: Arc<str>,
    staleness: Option<Serde<Duration>>,
    retry: Option<RetryConfig>,
    attempts_max: Option<u32>,
    message_bytes_max: Option<usize>,
    via: Option<Arc<str>>,
    #[serde(default)]
    ordered_by_key: bool,
    lanes: Option<u16>,
    on_failed_key: Option<OnFailedKey>,
    #[serde(default)]
    serialize_by_key: bool,
    #[serde(default)]
    fenced: bool,
    #[serde(default)]
    exactly_once: bool,
    keep_sent_days: Option<u32>,
    keep_dead_days: Option<u32>,
    processed_within: Option<Serde<Duration>>,
}

/// The fields are the builder's methods. Only `name` is required. [`OutboxBuilder::build`](crate::OutboxBuilder::build) checks the
/// values.
impl<'de> Deserialize<'de> for Topic {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let config = Config::deserialize(deserializer)?;
        let mut topic = Self::new(config.name);
        topic.staleness = config.staleness.map_or(topic.staleness, Serde::into_inner);
        topic.retry = config.retry.map_or(topic.retry, Into::into);
        topic.attempts_max = config.attempts_max.unwrap_or(topic.attempts_max);
        topic.message_bytes_max = config.message_bytes_max.unwrap_or(topic.message_bytes_max);
        topic.via = config.via.unwrap_or(topic.via);
        topic.is_ordered = config.ordered_by_key;
        topic.lanes = config.lanes;
        topic.on_failed_key = config.on_failed_key;
        topic.serializes = config.serialize_by_key;
        topic.is_fenced = config.fenced;
        topic.is_exactly_once = config.exactly_once;
        topic.retention.sent_days = config.keep_sent_days;
        topic.retention.dead_days = config.keep_dead_days;
        topic.retention.processed_within = config.processed_within.map(Serde::into_inner);
        Ok(topic)
    }
}

impl<'de> Deserialize<'de> for OnFailedKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Config {
            BlockKey,
            DeadLetter,
        }
        Ok(match Config::deserialize(deserializer)? {
            Config::BlockKey => Self::BlockKey,
            Config::DeadLetter => Self::DeadLetter,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_of_a_topic_is_read() {
        let json = r#"{
            "name": "orders", "staleness": "5s", "retry": {"fixed": ["10s", "30s"]}, "attempts_max": 7, "message_bytes_max": 2000,
            "via": "webhooks", "ordered_by_key": true, "lanes": 8, "on_failed_key": "dead_letter", "serialize_by_key": true,
            "fenced": true, "exactly_once": true, "keep_sent_days": 30, "keep_dead_days": 20, "processed_within": "10m"
        }"#;
        let read: Topic = serde_json::from_str(json).expect("a topic");
        let built = Topic::new("orders")
            .staleness(Duration::from_secs(5))
            .retry(crate::retry::Fixed::seconds(&[10, 30]))
            .attempts_max(7)
            .message_bytes_max(2000)
            .via("webhooks")
            .ordered_by_key()
            .lanes(8)
            .on_failed_key(OnFailedKey::DeadLetter)
            .serialize_by_key()
            .fenced()
            .exactly_once()
            .keep_sent_days(30)
            .keep_dead_days(20)
            .processed_within(Duration::from_secs(600));
        assert_eq!(format!("{read:?}"), format!("{built:?}"));
        read.check().expect("a good one");
        let plain: Topic = serde_json::from_str(r#"{"name": "orders"}"#).expect("a topic");
        assert_eq!(format!("{plain:?}"), format!("{:?}", Topic::new("orders")));
    }

    #[test]
    fn misspelt_fields_are_named() {
        for (json, names) in [
            (r#"{"name": "orders", "stalenes": "5s"}"#, "stalenes"),
            (r#"{"staleness": "5s"}"#, "name"),
            (r#"{"name": "orders", "staleness": "5"}"#, "a duration"),
            (r#"{"name": "orders", "on_failed_key": "drop"}"#, "dead_letter"),
        ] {
            let error = serde_json::from_str::<Topic>(json).expect_err(json).to_string();
            assert!(error.contains(names), "{json}: {error}");
        }
    }

    #[test]
    fn a_growing_wait_is_read() {
        let json = r#"{"name": "orders", "retry": {"exponential": {"initial": "1s", "max": "1m", "jitter": 0}}}"#;
        let topic: Topic = serde_json::from_str(json).expect("a topic");
        let waits: Vec<u64> = (1..9).map(|failures| topic.retry_policy().wait(failures).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
    }
}
