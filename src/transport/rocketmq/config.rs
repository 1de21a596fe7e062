use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::limits::{
    ROCKETMQ_DELAY_MAX, ROCKETMQ_DELAY_MIN, ROCKETMQ_DELIVERY_TIMEOUT, ROCKETMQ_GROUP_CHARS_MAX,
    ROCKETMQ_IN_FLIGHT_MAX, ROCKETMQ_MESSAGE_BYTES_MAX, ROCKETMQ_REQUEST_TIMEOUT, ROCKETMQ_REQUEST_TIMEOUT_MIN,
};

/// The suffix of the group of half messages. Probes have their own.
pub(super) const HALF_SUFFIX: &str = "-half";
pub(super) const PROBE_SUFFIX: &str = "-probe";

/// Settings of a [`RocketMqTransport`](super::RocketMqTransport).
///
/// ```
/// use std::time::Duration;
/// use diesel_outbox::transport::RocketMqConfig;
///
/// let config = RocketMqConfig::new("10.0.0.1:9876;10.0.0.2:9876")
///     .group("shop-outbox")
///     .credentials("shop", "a secret")
///     .delivery_timeout(Duration::from_secs(15));
/// assert!(!format!("{config:?}").contains("a secret"));
/// ```
#[derive(Clone)]
pub struct RocketMqConfig {
    pub(super) name_servers: String,
    pub(super) group: String,
    pub(super) namespace: Option<String>,
    pub(super) credentials: Option<Credentials>,
    pub(super) request_timeout: Duration,
    pub(super) delivery_timeout: Duration,
    pub(super) message_bytes_max: usize,
    pub(super) in_flight_max: usize,
    pub(super) tag_header: Option<String>,
    pub(super) broker_delays: HashMap<Arc<str>, Duration>,
    pub(super) accepts_unreplicated: bool,
}

#[derive(Clone)]
pub(super) struct Credentials {
    pub(super) access_key: String,
    pub(super) secret_key: String,
}

impl RocketMqConfig {
    /// Settings for the cluster of these name servers, `host:port` each, separated by `;`.
    pub fn new(name_servers: impl Into<String>) -> Self {
        Self {
            name_servers: name_servers.into(),
            group: "diesel-outbox".to_owned(),
            namespace: None,
            credentials: None,
            request_timeout: ROCKETMQ_REQUEST_TIMEOUT,
            delivery_timeout: ROCKETMQ_DELIVERY_TIMEOUT,
            message_bytes_max: ROCKETMQ_MESSAGE_BYTES_MAX,
            in_flight_max: ROCKETMQ_IN_FLIGHT_MAX,
            tag_header: None,
            broker_delays: HashMap::new(),
            accepts_unreplicated: false,
        }
    }

    /// The producer group; `diesel-outbox` by default. The broker's tools list this producer under it.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = group.into();
        self
    }

    /// The namespace: the outbox's topic `orders` becomes `namespace%orders` on the cluster.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Signs every request. The secret appears in no log, no error and no `Debug`.
    #[must_use]
    pub fn credentials(mut self, access_key: impl Into<String>, secret_key: impl Into<String>) -> Self {
        self.credentials = Some(Credentials { access_key: access_key.into(), secret_key: secret_key.into() });
        self
    }

    /// The longest that a broker may take for one request; 3 seconds by default.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// The longest time from hand-over to outcome, including the wait in the send queue; 20 seconds by default. It must
    /// be at least five times [`request_timeout`](Self::request_timeout), and with the lease's safety margin below the
    /// lease.
    #[must_use]
    pub fn delivery_timeout(mut self, timeout: Duration) -> Self {
        self.delivery_timeout = timeout;
        self
    }

    /// The largest payload that is sent; 4 MiB by default, as on brokers (`maxMessageSize`). A larger message is
    /// [`RecordRefused`](crate::transport::FailureClass::RecordRefused) without being sent: a broker closes the
    /// connection on a frame that is far too large, and other messages would fail as well.
    #[must_use]
    pub fn message_bytes_max(mut self, bytes: usize) -> Self {
        self.message_bytes_max = bytes;
        self
    }

    /// How many messages may be in the transport without an outcome; 20,000 by default. Further ones are
    /// [`Busy`](crate::transport::Outcome::Busy).
    #[must_use]
    pub fn in_flight_max(mut self, messages: usize) -> Self {
        self.in_flight_max = messages;
        self
    }

    /// Uses this header of a message as its tag, if the message has it. Otherwise the tag is the kind.
    #[must_use]
    pub fn tag_from_header(mut self, name: impl Into<String>) -> Self {
        self.tag_header = Some(name.into());
        self
    }

    /// Lets the broker hold a topic's messages for this long: from one second to three days, in whole seconds.
    ///
    /// For a topic whose consumers should always receive late. The broker stores each message twice for it, and sends
    /// none in batches. The messages of one key may arrive in another order, so a relay does not start if the topic is
    /// [ordered](crate::Topic::ordered_by_key).
    #[must_use]
    pub fn broker_delay(mut self, topic: impl Into<Arc<str>>, delay: Duration) -> Self {
        self.broker_delays.insert(topic.into(), delay);
        self
    }

    /// Counts a message as delivered if only the master has it and its replicas do not (`SLAVE_NOT_AVAILABLE`,
    /// `FLUSH_SLAVE_TIMEOUT`). By default it is sent again until the replicas have it, and a half message fails.
    #[must_use]
    pub fn accept_unreplicated(mut self) -> Self {
        self.accepts_unreplicated = true;
        self
    }

    pub(super) fn check(&self) -> Result<(), RocketMqConfigError> {
        let malformed = |server: &&str| {
            !server.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        };
        if let Some(server) = self.name_servers.split(';').find(malformed) {
            return Err(RocketMqConfigError::NameServer { given: server.to_owned() });
        }
        let names = [Some(&self.group), self.namespace.as_ref()].into_iter().flatten();
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        for name in names {
            if name.is_empty() || name.len() > ROCKETMQ_GROUP_CHARS_MAX || !name.chars().all(legal) {
                return Err(RocketMqConfigError::Name { given: name.clone() });
            }
        }
        // A broker checks half messages with any producer of their group, so other producers must not share ours.
        if [HALF_SUFFIX, PROBE_SUFFIX].iter().any(|ending| self.group.ends_with(ending)) {
            return Err(RocketMqConfigError::Group { given: self.group.clone() });
        }
        if self.credentials.as_ref().is_some_and(|given| given.access_key.is_empty() || given.secret_key.is_empty()) {
            return Err(RocketMqConfigError::Credentials);
        }
        let (request, delivery) = (self.request_timeout, self.delivery_timeout);
        let is_too_short = request.checked_mul(5).is_none_or(|least| delivery < least);
        if request < ROCKETMQ_REQUEST_TIMEOUT_MIN || is_too_short {
            return Err(RocketMqConfigError::Timeouts { request, delivery });
        }
        if self.message_bytes_max == 0 || self.in_flight_max == 0 {
            return Err(RocketMqConfigError::Nothing);
        }
        let held = ROCKETMQ_DELAY_MIN..=ROCKETMQ_DELAY_MAX;
        if let Some((topic, delay)) = self.broker_delays.iter().find(|(_, delay)| !held.contains(*delay)) {
            return Err(RocketMqConfigError::Delay { topic: Arc::clone(topic), given: *delay });
        }
        Ok(())
    }

    /// The topic's name on the cluster.
    pub(super) fn wire_name(&self, topic: &str) -> String {
        self.namespace.as_ref().map_or_else(|| topic.to_owned(), |namespace| format!("{namespace}%{topic}"))
    }
}

impl fmt::Debug for RocketMqConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access_key = self.credentials.as_ref().map(|credentials| credentials.access_key.as_str());
        f.debug_struct("RocketMqConfig")
            .field("name_servers", &self.name_servers)
            .field("group", &self.group)
            .field("namespace", &self.namespace)
            .field("access_key", &access_key)
            .field("request_timeout", &self.request_timeout)
            .field("delivery_timeout", &self.delivery_timeout)
            .finish_non_exhaustive()
    }
}

/// Why a [`RocketMqTransport`](super::RocketMqTransport) cannot be built from a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RocketMqConfigError {
    /// The address of a name server is missing or invalid.
    #[error("{given:?} is not the address of a name server; use host:port, several separated by ;")]
    NameServer {
        /// The given text.
        given: String,
    },
    /// A name that brokers refuse.
    #[error("{given:?} is not a valid group or namespace; use 1 to 120 of a-z, A-Z, 0-9, _ and -")]
    Name {
        /// The given name.
        given: String,
    },
    /// A group that would clash with the outbox's groups for half messages or probes.
    #[error(
        "the group {given:?} ends in {HALF_SUFFIX} or {PROBE_SUFFIX}, which the outbox adds itself; choose another name"
    )]
    Group {
        /// The given group.
        given: String,
    },
    /// Credentials with an empty access key or secret key.
    #[error("the access key or the secret key is empty")]
    Credentials,
    /// Time-outs that are too short.
    #[error("request_timeout {request:?} is below 100 ms, or delivery_timeout {delivery:?} below five times it")]
    Timeouts {
        /// The time-out of one request.
        request: Duration,
        /// The time-out from hand-over to outcome.
        delivery: Duration,
    },
    /// A limit of 0 would block every message.
    #[error("message_bytes_max or in_flight_max is 0, so nothing would ever be sent")]
    Nothing,
    /// A delay that the broker would ignore, or whose messages it would refuse.
    #[error("broker_delay {given:?} of topic {topic:?} is below one second or above three days")]
    Delay {
        /// The topic.
        topic: Arc<str>,
        /// The given delay.
        given: Duration,
    },
    /// The client library cannot start on this machine.
    #[error("the client cannot be set up: {problem}")]
    Client {
        /// The system's error.
        problem: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_configs_are_refused() {
        let wrong = [
            RocketMqConfig::new(""),
            RocketMqConfig::new("localhost"),
            RocketMqConfig::new("a:1;b"),
            RocketMqConfig::new("a:1").group("my group"),
            RocketMqConfig::new("a:1").group("shop-half"),
            RocketMqConfig::new("a:1").group("shop-probe"),
            RocketMqConfig::new("a:1").namespace(""),
            RocketMqConfig::new("a:1").credentials("me", ""),
            RocketMqConfig::new("a:1").delivery_timeout(Duration::from_secs(14)),
            RocketMqConfig::new("a:1").request_timeout(Duration::from_millis(1)),
            RocketMqConfig::new("a:1").request_timeout(Duration::MAX).delivery_timeout(Duration::MAX),
            RocketMqConfig::new("a:1").in_flight_max(0),
            RocketMqConfig::new("a:1").broker_delay("orders", Duration::from_millis(999)),
            RocketMqConfig::new("a:1").broker_delay("orders", ROCKETMQ_DELAY_MAX + Duration::from_millis(1)),
        ];
        for config in wrong {
            assert!(config.check().is_err(), "{config:?}");
        }
        let good = RocketMqConfig::new("a:1;b:2").namespace("shop").credentials("me", "x");
        let delayed = good.broker_delay("orders", ROCKETMQ_DELAY_MIN).broker_delay("bills", ROCKETMQ_DELAY_MAX);
        delayed.check().expect("a good one");
    }
}
