//! HTTP's settings in configuration files.

use std::collections::BTreeMap;
use std::time::Duration;

use humantime_serde::Serde;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::workers::RefusalRetries;
use super::{HttpTarget, HttpTransport, HttpTransportBuilder};
use crate::retry::RetryConfig;
use crate::transport::FailureClass;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetConfig {
    url: Option<String>,
    url_header: Option<String>,
    method: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    content_type: Option<String>,
    /// Empty: none.
    idempotency_header: Option<String>,
    #[serde(default)]
    created_at_header: bool,
    #[serde(default)]
    topic_header: bool,
    #[serde(default)]
    sign: Vec<String>,
    success: Option<Vec<u16>>,
    #[serde(default)]
    treat: BTreeMap<String, FailureClass>,
    health_url: Option<String>,
}

/// The fields are the builder's methods. Either `url` or `url_header` is required. `sign` is a list of secrets, `success` a list of
/// statuses, and `treat` a table of classes by status (`classify_status`). Not serializable, because it holds secrets.
impl<'de> Deserialize<'de> for HttpTarget {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let config = TargetConfig::deserialize(deserializer)?;
        let mut target = match (config.url, config.url_header) {
            (Some(url), None) => Self::new(url),
            (None, Some(header)) => Self::from_header(header),
            _ => return Err(D::Error::custom("a target needs either url or url_header: give one of them")),
        };
        target.method = config.method.unwrap_or(target.method);
        target.headers = config.headers.into_iter().collect();
        target.content_type = config.content_type.unwrap_or(target.content_type);
        if let Some(header) = config.idempotency_header {
            target.idempotency_header = Some(header).filter(|header| !header.is_empty());
        }
        target.sends_created_at = config.created_at_header;
        target.sends_topic = config.topic_header;
        target.secrets = config.sign;
        for (status, class) in config.treat {
            let status =
                status.parse().map_err(|_| D::Error::custom(format_args!("treat: {status:?} is no status")))?;
            target.status_classes.push((status, class));
        }
        target.health_url = config.health_url;
        Ok(match config.success {
            Some(statuses) => target.success(statuses),
            None => target,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TransportConfig {
    #[serde(default)]
    topics: BTreeMap<String, HttpTarget>,
    default_target: Option<HttpTarget>,
    timeout: Option<Serde<Duration>>,
    queue_timeout: Option<Serde<Duration>>,
    connect_timeout: Option<Serde<Duration>>,
    in_flight_per_host_max: Option<usize>,
    queue_max: Option<usize>,
    private_addresses: Option<PrivateAddresses>,
    #[serde(default)]
    root_certificates: Vec<String>,
    user_agent: Option<String>,
    refusal_retries: Option<RefusalsConfig>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum PrivateAddresses {
    Allow,
    Deny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RefusalsConfig {
    max: u32,
    waits: Option<RetryConfig>,
}

/// The fields are the builder's methods: `topics` is a table of targets by topic, `private_addresses` is `"allow"` or `"deny"`, and
/// `root_certificates` a list of PEM texts. Not serializable, because it holds secrets.
impl<'de> Deserialize<'de> for HttpTransportBuilder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let config = TransportConfig::deserialize(deserializer)?;
        let mut builder = HttpTransport::builder();
        builder.topics = config.topics.into_iter().collect();
        builder.default_target = config.default_target;
        builder.timeout = config.timeout.map_or(builder.timeout, Serde::into_inner);
        builder.queue_timeout = config.queue_timeout.map_or(builder.queue_timeout, Serde::into_inner);
        builder.connect_timeout = config.connect_timeout.map_or(builder.connect_timeout, Serde::into_inner);
        builder.in_flight_per_host_max = config.in_flight_per_host_max.unwrap_or(builder.in_flight_per_host_max);
        builder.queue_max = config.queue_max.unwrap_or(builder.queue_max);
        builder.private_addresses = config.private_addresses.map(|of| of == PrivateAddresses::Allow);
        builder.certificates = config.root_certificates.into_iter().map(String::into_bytes).collect();
        builder.user_agent = config.user_agent.unwrap_or(builder.user_agent);
        if let Some(RefusalsConfig { max, waits }) = config.refusal_retries {
            builder.refusal_retries =
                RefusalRetries { max, waits: waits.map_or(builder.refusal_retries.waits, Into::into) };
        }
        Ok(builder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_is_read_and_built() {
        let json = r#"{
            "topics": {"orders": {
                "url": "https://shop.example/hooks", "headers": {"authorization": "Bearer swordfish"}, "success": [200, 202],
                "treat": {"409": "record_refused"}, "idempotency_header": ""
            }},
            "default_target": {"url_header": "url"}, "timeout": "5s", "private_addresses": "deny",
            "refusal_retries": {"max": 3, "waits": {"fixed": ["1s", "5s"]}}
        }"#;
        let read: HttpTransportBuilder = serde_json::from_str(json).expect("settings");
        let shown = format!("{read:?}");
        assert!(shown.contains("409") && shown.contains("timeout: 5s") && !shown.contains("swordfish"), "{shown}");
        assert!(read.topics["orders"].idempotency_header.is_none());
        assert_eq!((read.refusal_retries.max, read.refusal_retries.waits.wait(2).as_secs()), (3, 5));
        read.build().expect("a transport");
    }

    #[test]
    fn impossible_values_are_refused_by_name() {
        for (json, names) in [
            (r#"{"topics": {"orders": {"method": "PUT"}}}"#, "url_header"),
            (r#"{"topics": {"orders": {"url": "https://a", "treat": {"teapot": "record"}}}}"#, "teapot"),
            (r#"{"topics": {"orders": {"url": "https://a", "treat": {"409": "refused"}}}}"#, "record_refused"),
            (r#"{"every": {"url": "https://a"}}"#, "default_target"),
        ] {
            let error = serde_json::from_str::<HttpTransportBuilder>(json).expect_err(json).to_string();
            assert!(error.contains(names), "{json}: {error}");
        }
    }
}
