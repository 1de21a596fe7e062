use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::HttpTransport;
use super::client;
use super::error::HttpConfigError;
use super::prepared::{PreparedTarget, Targets};
use super::target::HttpTarget;
use super::workers::{RefusalRetries, Settings, WorkerPool};
use crate::limits::{
    HTTP_CONNECT_TIMEOUT, HTTP_IN_FLIGHT_PER_HOST_MAX, HTTP_QUEUE_MAX, HTTP_REFUSAL_WAIT_MAX, HTTP_REFUSAL_WAIT_MIN,
    HTTP_REFUSALS_MAX, HTTP_TIMEOUT, HTTP_WAIT_MAX,
};
use crate::retry::{Exponential, RetryPolicy};

/// Builds an [`HttpTransport`]. Made by [`HttpTransport::builder`].
#[derive(Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct HttpTransportBuilder {
    pub(super) topics: HashMap<String, HttpTarget>,
    pub(super) default_target: Option<HttpTarget>,
    pub(super) timeout: Duration,
    pub(super) queue_timeout: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) in_flight_per_host_max: usize,
    pub(super) queue_max: usize,
    pub(super) private_addresses: Option<bool>,
    pub(super) certificates: Vec<Vec<u8>>,
    pub(super) user_agent: String,
    pub(super) refusal_retries: RefusalRetries,
}

impl HttpTransport {
    /// A builder without targets.
    pub fn builder() -> HttpTransportBuilder {
        HttpTransportBuilder::new()
    }
}

impl HttpTransportBuilder {
    fn new() -> Self {
        Self {
            topics: HashMap::new(),
            default_target: None,
            timeout: HTTP_TIMEOUT,
            queue_timeout: HTTP_WAIT_MAX,
            connect_timeout: HTTP_CONNECT_TIMEOUT,
            in_flight_per_host_max: HTTP_IN_FLIGHT_PER_HOST_MAX,
            queue_max: HTTP_QUEUE_MAX,
            private_addresses: None,
            certificates: Vec::new(),
            refusal_retries: RefusalRetries {
                max: HTTP_REFUSALS_MAX,
                waits: Arc::new(Exponential::new(HTTP_REFUSAL_WAIT_MIN, HTTP_REFUSAL_WAIT_MAX)),
            },
            user_agent: concat!("diesel-outbox/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }

    /// Where the messages of a topic go.
    pub fn topic(mut self, topic: impl Into<String>, target: HttpTarget) -> Self {
        self.topics.insert(topic.into(), target);
        self
    }

    /// Where the messages of all other topics go.
    pub fn default_target(mut self, target: HttpTarget) -> Self {
        self.default_target = Some(target);
        self
    }

    /// The longest that a request may take; 10 s by default. It covers the time from connecting to the answer's status,
    /// or to the end of the body if the success rule needs it. Together with `queue_timeout` it must stay below the
    /// lease.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The longest that a message waits at a host before it is sent; 10 s by default. Then it is returned unsent, and
    /// no attempt is spent.
    pub fn queue_timeout(mut self, wait: Duration) -> Self {
        self.queue_timeout = wait;
        self
    }

    /// The longest that connecting may take; 3 s by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How many requests may be in flight to one host at once; 64 by default.
    pub fn in_flight_per_host_max(mut self, requests: usize) -> Self {
        self.in_flight_per_host_max = requests;
        self
    }

    /// How many messages may be in the transport at once, in flight and waiting; 20,000 by default. Further ones are
    /// [`Busy`](crate::transport::Outcome::Busy). The relay hands over far fewer: see
    /// [`in_flight_max`](crate::transport::Transport::in_flight_max).
    pub fn queue_max(mut self, messages: usize) -> Self {
        self.queue_max = messages;
        self
    }

    /// How often a receiver may refuse a message (400, 422 and the like: the table in the guide) before it becomes a
    /// dead letter, and how long the message waits after each refusal; 20 times by default, with waits from 1 s to 10
    /// min, an hour and three quarters in all. This replaces the topic's `attempts_max` and retry policy, which still
    /// apply to a status that is [classified](HttpTarget::classify_status) as
    /// [`Record`](crate::transport::FailureClass::Record).
    ///
    /// The waits should outlast a broken deployment at the receiver, which refuses everything. On an ordered topic the
    /// key waits meanwhile.
    ///
    /// ```
    /// use std::time::Duration;
    /// use diesel_outbox::retry::Fixed;
    /// use diesel_outbox::transport::{HttpTarget, HttpTransport};
    ///
    /// // The schedule of Svix, for receivers of other companies: eight attempts within 28 hours.
    /// let waits = Fixed::seconds(&[5, 300, 1_800, 7_200, 18_000, 36_000, 36_000]);
    /// let webhooks = HttpTransport::builder().default_target(HttpTarget::from_header("url")).refusal_retries(8, waits);
    /// # let _ = webhooks;
    /// ```
    pub fn refusal_retries(mut self, max: u32, waits: impl RetryPolicy) -> Self {
        self.refusal_retries = RefusalRetries { max, waits: Arc::new(waits) };
        self
    }

    /// Connects to public addresses only: not to this machine, its network, link-local addresses (such as cloud
    /// metadata), nor to any address that stands for one of these. The check is on the address that the connection
    /// uses, so a name that changes its address in between gains nothing.
    pub fn deny_private_addresses(mut self) -> Self {
        self.private_addresses = Some(false);
        self
    }

    /// Connects to every address. The default if each topic has a fixed URL. Required to be explicit if messages bring
    /// their own URLs, because whoever writes those can then reach your network.
    pub fn allow_private_addresses(mut self) -> Self {
        self.private_addresses = Some(true);
        self
    }

    /// Trusts the certificates of this authority too, next to those of the system. PEM, or one DER certificate.
    pub fn root_certificate(mut self, certificate: impl Into<Vec<u8>>) -> Self {
        self.certificates.push(certificate.into());
        self
    }

    /// The header `user-agent`; `diesel-outbox/` and the version by default.
    pub fn user_agent(mut self, user_agent: impl Into<String>) -> Self {
        self.user_agent = user_agent.into();
        self
    }

    /// Makes the transport. It connects when there is something to send.
    ///
    /// # Errors
    /// Returns [`HttpConfigError`] for a configuration that cannot work; the error names the setting.
    pub fn build(self) -> Result<HttpTransport, HttpConfigError> {
        for (name, is_zero) in [
            ("timeout", self.timeout.is_zero()),
            ("queue_timeout", self.queue_timeout.is_zero()),
            ("connect_timeout", self.connect_timeout.is_zero()),
            ("in_flight_per_host_max", self.in_flight_per_host_max == 0),
            ("queue_max", self.queue_max == 0),
            ("refusal_retries", self.refusal_retries.max == 0),
        ] {
            if is_zero {
                return Err(HttpConfigError::Zero { name });
            }
        }
        let allows_private = self.private_addresses.unwrap_or(true);
        let named = self.topics.into_iter().map(|(topic, target)| {
            let prepared = PreparedTarget::new(&format!("topic {topic:?}"), target, allows_private)?;
            Ok((Arc::from(topic), prepared))
        });
        let named: HashMap<Arc<str>, PreparedTarget> = named.collect::<Result<_, HttpConfigError>>()?;
        let every =
            self.default_target.map(|target| PreparedTarget::new("every topic", target, allows_private)).transpose()?;
        let targets = Targets::new(named, every).ok_or(HttpConfigError::NoTarget)?;
        if self.private_addresses.is_none() && targets.has_message_urls() {
            return Err(HttpConfigError::PrivateAddressesUndecided);
        }
        let client = client::new(&client::ClientConfig {
            allows_private,
            needs_roots: targets.needs_tls(),
            certificates: &self.certificates,
            user_agent: &self.user_agent,
            connect_timeout: self.connect_timeout,
            idle_max: self.in_flight_per_host_max,
        })?;
        let settings = Settings {
            timeout: self.timeout,
            queue_timeout: self.queue_timeout,
            per_host_max: self.in_flight_per_host_max,
            queue_max: self.queue_max,
            allows_private,
            refusal_retries: self.refusal_retries,
        };
        Ok(HttpTransport::new(WorkerPool::new(client, settings), targets))
    }
}

impl fmt::Debug for HttpTransportBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTransportBuilder")
            .field("topics", &self.topics)
            .field("default_target", &self.default_target)
            .field("timeout", &self.timeout)
            .field("in_flight_per_host_max", &self.in_flight_per_host_max)
            .finish_non_exhaustive()
    }
}
