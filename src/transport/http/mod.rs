//! HTTP: each message is a request, each topic has a target.
//!
//! A message becomes a job of its host. Each host has a few workers. A worker sends one job after the other, and the
//! jobs of one key stay in order. The host's health (down, or paused at its own request) is checked before a job is
//! sent. The class of a failure depends on how much else it would affect (`failure`).

mod address_filter;
mod client;
mod config;
#[cfg(feature = "serde")]
mod configured;
mod error;
mod failure;
mod health;
mod host;
mod hosts;
mod keyed_queue;
mod prepared;
mod response;
mod retry_after;
mod signature;
mod target;
mod url;
mod workers;

pub use config::HttpTransportBuilder;
pub use error::HttpConfigError;
pub use response::HttpResponse;
pub use target::HttpTarget;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use self::failure::{FailureKind, HttpFailure, Scope};
use self::host::{Job, report_failure};
use self::prepared::Targets;
use self::workers::WorkerPool;
use super::{FailureClass, InFlightCounter, Outcome, OutcomeSender, Transport, TransportError};
use crate::limits::{HTTP_FOREIGN_HOSTS, HTTP_QUEUED_PER_REQUEST, HTTP_TIMEOUT_SLACK};
use crate::message::Envelope;
use crate::topic::Topic;

/// A transport that sends messages as HTTP requests, to services and webhooks.
///
/// If you can, give each receiver its own transport under its own name
/// ([`transport_named`](crate::relay::RelayBuilder::transport_named)). An outage of the receiver then opens its own breaker, and
/// nothing is written meanwhile. If one transport has several hosts, each host has its own breaker and its own share of the
/// transport's in-flight limit. The [HTTP guide](crate::guide::http) lists what each answer does.
///
/// ```
/// use diesel_outbox::transport::{HttpTarget, HttpTransport};
///
/// let shop = HttpTransport::builder()
///     .topic("order-webhooks", HttpTarget::new("https://shop.example/hooks/orders").sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
///     .build();
/// # // Where the machine trusts no certificates at all, an https target is refused.
/// # let _ = shop;
/// // Messages that bring their URL in a header, sent to public addresses only.
/// let customers = HttpTransport::builder()
///     .default_target(HttpTarget::from_header("webhook-url"))
///     .deny_private_addresses();
/// # let _ = customers;
/// ```
pub struct HttpTransport {
    pool: Arc<WorkerPool>,
    targets: Targets,
    in_flight: InFlightCounter,
}

impl HttpTransport {
    fn new(pool: Arc<WorkerPool>, targets: Targets) -> Self {
        Self { pool, targets, in_flight: InFlightCounter::new() }
    }

    /// The most that one host may hold: its requests in flight and those that wait.
    fn messages_per_host(&self) -> usize {
        self.pool.settings.per_host_max.saturating_mul(HTTP_QUEUED_PER_REQUEST)
    }

    /// The capacity of one host; a single host gets the capacity of the whole transport.
    fn host_capacity(&self) -> usize {
        if self.targets.single_host().is_some() { usize::MAX } else { self.messages_per_host() }
    }

    fn take(&self, envelope: Envelope, sender: OutcomeSender) {
        let target = match self.targets.of(&envelope.topic) {
            Ok(target) => target,
            Err(failure) => return report_failure(sender, failure.into_error(FailureClass::Topic, None)),
        };
        let (url, origin) = match target.url_of(&envelope) {
            Ok(found) => found,
            Err(failure) => return report_failure(sender, failure.into_error(FailureClass::RecordRefused, None)),
        };
        let scope = self.targets.scope(target);
        let settings = &self.pool.settings;
        if !settings.allows_private && url::address(&url).is_some_and(|address| !address_filter::is_public(address)) {
            // An IP address stays denied the next time. A name may resolve to another address.
            let class = match scope {
                Scope::Message => FailureClass::RecordRefused,
                Scope::Topic | Scope::Transport => FailureKind::AddressDenied.class(scope),
            };
            return report_failure(sender, HttpFailure::PrivateAddress { origin }.into_error(class, None));
        }
        let target = Arc::clone(target);
        let queue_deadline = Instant::now().checked_add(settings.queue_timeout);
        self.pool.take(&origin, Job { envelope, sender, target, url, scope, queue_deadline }, self.host_capacity());
    }
}

#[async_trait]
impl Transport for HttpTransport {
    fn system(&self) -> &'static str {
        "http"
    }

    fn delivery_timeout(&self) -> Duration {
        let settings = &self.pool.settings;
        settings.queue_timeout.saturating_add(settings.timeout).saturating_add(HTTP_TIMEOUT_SLACK)
    }

    /// Checks that each topic has a target. It creates nothing at the receiver and sends nothing.
    async fn prepare(&self, topics: &[Topic]) -> Result<(), TransportError> {
        for topic in topics {
            self.targets.of(&topic.shared_name()).map_err(|failure| failure.into_error(FailureClass::Topic, None))?;
        }
        Ok(())
    }

    fn sends_individually(&self) -> bool {
        true
    }

    /// # Panics
    /// Panics outside a tokio runtime with time and I/O enabled; a relay has one.
    fn send(&self, envelope: Envelope, sender: OutcomeSender) {
        let sender = sender.tracked_by(&self.in_flight);
        if self.in_flight.count() > self.pool.settings.queue_max {
            return sender.complete(Outcome::Busy);
        }
        self.take(envelope, sender);
    }

    /// Sends HEAD to the host if there is only one. With several hosts, none of them is an outage of the transport. A
    /// host that is down and asked for a pause is not probed before the pause ends.
    async fn probe(&self) -> Result<(), TransportError> {
        let Some(origin) = self.targets.single_host() else { return Ok(()) };
        if let Some(refused) = self.pool.host(origin).probe_refusal(Instant::now()) {
            return Err(refused);
        }
        for probe in self.targets.probes() {
            self.pool.probe(origin, probe).await?;
        }
        self.pool.host(origin).probed();
        Ok(())
    }

    fn outage(&self) -> Option<FailureClass> {
        self.pool.host(self.targets.single_host()?).outage()
    }

    fn in_flight_max(&self) -> usize {
        let foreign = if self.targets.has_message_urls() { HTTP_FOREIGN_HOSTS } else { 0 };
        let hosts = self.targets.hosts().saturating_add(foreign);
        self.messages_per_host().saturating_mul(hosts).min(self.pool.settings.queue_max)
    }

    async fn flush(&self, within: Duration) -> usize {
        self.in_flight.wait_until_none(within).await
    }
}

impl fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTransport")
            .field("targets", &self.targets)
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}
