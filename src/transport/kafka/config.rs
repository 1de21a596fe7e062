use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::config::{NativeClientConfig, RDKafkaLogLevel};
use rdkafka::error::KafkaError;

use super::secrets::{REDACTED, Secrets, is_secret};
use crate::limits::KAFKA_TIMEOUT_SLACK;

/// Our values for settings that the user leaves out, each with its reason.
const DEFAULTS: &[(&str, &str)] = &[
    ("acks", "all"), // a message that only the leader has is lost with the leader
    ("client.id", "diesel-outbox"),
    ("enable.idempotence", "true"), // a retry inside the client neither duplicates nor reorders
    ("linger.ms", "0"),             // immediate; under load batches form by themselves
    ("message.max.bytes", "1048588"), // the brokers' limit; the client's default counts its framing
    ("message.timeout.ms", "25000"), // below the lease of 30 s
    ("partitioner", "murmur2_random"), // as in Java: every producer sends a key to the same partition
    ("reconnect.backoff.max.ms", "1000"), // a recovered broker is used within a second, not ten
    ("request.timeout.ms", "500"),  // a broker that waits for a replica delays other topics for as long
    ("topic.metadata.propagation.max.ms", "5000"), // an unknown topic is reported before the lease ends
];

/// Aliases of settings, with the name that we use. A user's `delivery.timeout.ms` must replace our
/// `message.timeout.ms`: which of two names wins in the client is chance.
const ALIASES: &[(&str, &str)] = &[
    ("compression.codec", "compression.type"),
    ("delivery.timeout.ms", "message.timeout.ms"),
    ("max.in.flight", "max.in.flight.requests.per.connection"),
    ("message.send.max.retries", "retries"),
    ("metadata.broker.list", "bootstrap.servers"),
    ("queue.buffering.max.ms", "linger.ms"),
    ("request.required.acks", "acks"),
    ("sasl.mechanism", "sasl.mechanisms"),
];

const IN_FLIGHT: &str = "max.in.flight.requests.per.connection";

/// Settings of the Kafka client: all that librdkafka knows, under the names of [librdkafka's
/// list](https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md).
///
/// Defaults, which can be changed: `acks=all`, `client.id=diesel-outbox`, `enable.idempotence=true`, `linger.ms=0`,
/// `message.max.bytes=1048588` (the brokers' default: raise it with
/// [`Topic::message_bytes_max`](crate::Topic::message_bytes_max)), `message.timeout.ms=25000`,
/// `partitioner=murmur2_random` (as in Java, so that a key is in one partition whoever wrote it),
/// `reconnect.backoff.max.ms=1000`, `request.timeout.ms=500` (a longer one delays other topics if a replica is
/// missing), `topic.metadata.propagation.max.ms=5000`.
///
/// [`KafkaTransport::new`](super::KafkaTransport::new) refuses settings that would break a guarantee of the outbox. TLS
/// and SASL need the feature `kafka-ssl`.
///
/// ```
/// use diesel_outbox::transport::KafkaConfig;
/// let config = KafkaConfig::new("kafka-1:9093,kafka-2:9093")
///     .set("security.protocol", "SASL_SSL")
///     .set("sasl.mechanisms", "SCRAM-SHA-512")
///     .set("sasl.username", "shop")
///     .set("sasl.password", "swordfish");
/// assert!(!format!("{config:?}").contains("swordfish"));
/// ```
#[derive(Clone)]
pub struct KafkaConfig {
    settings: BTreeMap<String, String>,
}

impl KafkaConfig {
    /// The defaults, for the cluster at `host:port`, or several of these separated by commas.
    pub fn new(bootstrap_servers: impl Into<String>) -> Self {
        let settings = DEFAULTS.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { settings }.set("bootstrap.servers", bootstrap_servers)
    }

    /// Sets the client library's setting `name`; the last value counts.
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let name = name.into();
        let known = ALIASES.iter().find(|(alias, _)| *alias == name).map(|&(_, known)| known.to_owned());
        self.settings.insert(known.unwrap_or(name), value.into());
        self
    }

    /// Every setting, the defaults and secrets included: for another client of the same cluster.
    pub fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    /// Whether the client hashes keys as we do, so that we know a message's partition before it is sent.
    pub(super) fn hashes_by_murmur2(&self) -> bool {
        matches!(self.get("partitioner"), Some("murmur2" | "murmur2_random"))
    }

    pub(super) fn secrets(&self) -> Secrets {
        Secrets::of(self.settings())
    }

    pub(super) fn check(&self) -> Result<CheckedConfig, KafkaConfigError> {
        let mut client = ClientConfig::new();
        client.extend(self.settings.clone());
        // The subscriber filters the lines. The client logs nothing at level debug unless `debug` is set.
        client.set_log_level(RDKafkaLogLevel::Debug);
        self.refuse_settings_without_their_feature(cfg!(feature = "kafka-ssl"))?;
        let invalid = |error| KafkaConfigError::from_client(error, &self.secrets());
        let native = client.create_native_config().map_err(invalid)?;
        self.check_guarantees(&native)?;
        let timeout_ms = native.get("message.timeout.ms").map_err(invalid)?;
        let timeout_ms = timeout_ms.parse().unwrap_or_else(|_| unreachable!("the client checked that it is a number"));
        Ok(CheckedConfig { client, delivery_timeout: Duration::from_millis(timeout_ms) + KAFKA_TIMEOUT_SLACK })
    }

    /// Names the missing feature. The client's own error would only say how librdkafka was compiled.
    pub(crate) fn refuse_settings_without_their_feature(&self, has_ssl: bool) -> Result<(), KafkaConfigError> {
        let needs_ssl = |(name, value): &(&String, &String)| {
            let value = value.to_ascii_uppercase();
            match name.as_str() {
                "security.protocol" => value.contains("SSL"),
                // The client always has PLAIN, and no feature of this crate has Kerberos.
                "sasl.mechanisms" => value.contains("SCRAM") || value.contains("OAUTHBEARER"),
                name => name.starts_with("ssl.") || name.starts_with("sasl.oauthbearer."),
            }
        };
        match self.settings.iter().find(|setting| !has_ssl && needs_ssl(setting)) {
            None => Ok(()),
            Some((name, value)) => Err(KafkaConfigError::NeedsFeature {
                name: name.clone(),
                value: if is_secret(name) { REDACTED.to_owned() } else { value.clone() },
                feature: "kafka-ssl",
            }),
        }
    }

    /// Checks the client's parsed values: `f`, `0` and `FALSE` are all `false` to it, and `00` is zero.
    fn check_guarantees(&self, native: &NativeClientConfig) -> Result<(), KafkaConfigError> {
        let understood = |name| self.get(name).and_then(|_| native.get(name).ok());
        let is = |name, value: &str| understood(name).is_some_and(|of| of == value);
        let refused = |name: &'static str, reason| {
            let value = self.get(name).unwrap_or_default().to_owned();
            Err(KafkaConfigError::Refused { name, value, reason })
        };
        let cluster = self.get("bootstrap.servers").unwrap_or_default();
        if cluster.trim().is_empty() && self.get("test.mock.num.brokers").is_none() {
            refused("bootstrap.servers", "without an address nothing is ever sent; give host:port of a broker")
        } else if cluster.contains("://") {
            let reason = "an address of a broker has no scheme; give host:port, several with commas between, and say by \
                          security.protocol whether there is TLS or SASL";
            refused("bootstrap.servers", reason)
        } else if !is("acks", "-1") {
            refused("acks", "a message that some in-sync replica lacks is lost with its leader; use acks=all")
        } else if is("enable.idempotence", "false") && !is(IN_FLIGHT, "1") {
            let reason = "a retried request overtakes later ones, so messages of a key change their order; leave it \
                          at true, or set max.in.flight.requests.per.connection=1 as well";
            refused("enable.idempotence", reason)
        } else if is("message.timeout.ms", "0") {
            refused(
                "message.timeout.ms",
                "a message without a time-out outlives its lease and is sent twice; set a time-out",
            )
        } else if is("delivery.report.only.error", "true") {
            refused("delivery.report.only.error", "without the report of a success no row is ever removed")
        } else if is("queuing.strategy", "lifo") {
            refused("queuing.strategy", "messages of a key would change their order")
        } else if is("enable.gapless.guarantee", "true") {
            refused(
                "enable.gapless.guarantee",
                "every refused message would end the client, and all other messages with it",
            )
        } else if self.get("transactional.id").is_some() {
            refused("transactional.id", "such a client refuses messages outside a Kafka transaction")
        } else {
            Ok(())
        }
    }
}

// Settings without their secrets, so that a configuration can be logged.
impl fmt::Debug for KafkaConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.settings.iter().map(|(name, value)| (name, if is_secret(name) { REDACTED } else { value }));
        f.debug_map().entries(shown).finish()
    }
}

pub(super) struct CheckedConfig {
    pub(super) client: ClientConfig,
    pub(super) delivery_timeout: Duration,
}

/// Why a configuration of the Kafka client is invalid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KafkaConfigError {
    /// The setting would break a guarantee of the outbox.
    #[error("the Kafka setting {name}={value} is refused: {reason}")]
    Refused {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it would break, and what to use instead.
        reason: &'static str,
    },
    /// The client library does not know the setting, or refuses the value.
    #[error("the Kafka setting {name} is not valid: {problem}")]
    Invalid {
        /// The setting.
        name: String,
        /// What the client library says about it.
        problem: String,
    },
    /// The setting needs a part of the client library that was not compiled.
    #[error(
        "the Kafka setting {name}={value} needs the feature `{feature}` of diesel-outbox: add it to the dependency in Cargo.toml; \
         it needs OpenSSL's headers to build"
    )]
    NeedsFeature {
        /// The setting.
        name: String,
        /// The value it has.
        value: String,
        /// The feature.
        feature: &'static str,
    },
    /// A prefix of transactional ids with which two outboxes could have the same id.
    #[error("the fence prefix {given:?} contains a slash or a NUL; use one without, such as diesel-outbox-shop")]
    FencePrefix {
        /// The given prefix.
        given: Arc<str>,
    },
    /// The client library refuses the settings as a whole.
    #[error("the Kafka client cannot be created: {problem}")]
    Client {
        /// What the client library says about it.
        problem: String,
    },
}

impl KafkaConfigError {
    pub(crate) fn from_client(error: KafkaError, secrets: &Secrets) -> Self {
        let scrub = |text: &str| secrets.scrub(text).into_owned();
        match error {
            KafkaError::ClientConfig(_, problem, name, _) => Self::Invalid { problem: scrub(&problem), name },
            KafkaError::ClientCreation(problem) => Self::Client { problem: scrub(&problem) },
            other => Self::Client { problem: scrub(&other.to_string()) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_without_its_feature_is_refused_with_the_feature() {
        let config = || KafkaConfig::new("kafka:9093");
        for (name, value) in [
            ("security.protocol", "SASL_SSL"),
            ("security.protocol", "ssl"),
            ("sasl.mechanism", "SCRAM-SHA-512"),
            ("ssl.ca.location", "/etc/ca.pem"),
            ("ssl.key.password", "swordfish"),
        ] {
            let config = config().set(name, value);
            let error = config.refuse_settings_without_their_feature(false).expect_err("not built in").to_string();
            assert!(error.contains("`kafka-ssl`") && !error.contains("swordfish"), "{error}");
            assert!(config.refuse_settings_without_their_feature(true).is_ok());
        }
        let plain = config().set("security.protocol", "SASL_PLAINTEXT").set("sasl.mechanisms", "PLAIN");
        assert!(plain.refuse_settings_without_their_feature(false).is_ok(), "the client has it by itself");
    }
}
