//! Relays of several databases or schemas in one process, for shards, tenants, or two services that share a binary.
//!
//! Each database has its own relay, so that one that fails or is slow does not delay the others. They share the transport, and
//! the limit of messages in flight.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::routes::Transports;
use crate::limits::SHUTDOWN_GRACE;
use crate::relay::{FlushOutcome, Relay, RelayBuilder, RelayStatus, ShutdownReport, StartError};
use crate::transport::Transport;

/// Running relays by name, each for its own database. From [`Relays::builder`].
///
/// Each database or schema needs its own [`Outbox`](crate::Outbox), even if their configurations are equal. Enqueue with the
/// outbox of the connection's database.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::Duration;
/// use diesel_outbox::relay::Relays;
/// use diesel_outbox::store::MemoryStore;
/// use diesel_outbox::transport::MemoryTransport;
/// use diesel_outbox::{Outbox, Topic};
///
/// let outbox = || Outbox::builder().topic(Topic::new("orders")).build();
/// let (north, south) = (outbox()?, outbox()?);
/// let relays = Relays::builder()
///     .transport(MemoryTransport::new())
///     .relay("north", north.relay().store(MemoryStore::new()))
///     .relay("south", south.relay().store(MemoryStore::new()))
///     .start()
///     .await?;
/// assert_eq!(relays.get("north").map(|relay| relay.status().in_flight), Some(0));
/// let reports = relays.shutdown(Duration::from_secs(10)).await;
/// assert!(reports.iter().all(|(_, report)| report.is_clean()));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "dropped relays send nothing: keep them, and end them with `shutdown` or `run_until`"]
pub struct Relays {
    all: Vec<(Arc<str>, Relay)>,
}

impl Relays {
    /// Starts to configure relays.
    pub fn builder() -> RelaysBuilder {
        RelaysBuilder::default()
    }

    /// The relay of this name.
    pub fn get(&self, name: &str) -> Option<&Relay> {
        self.iter().find(|(known, _)| *known == name).map(|(_, relay)| relay)
    }

    /// Each relay with its name, in the order in which they were given.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Relay)> {
        self.all.iter().map(|(name, relay)| (&**name, relay))
    }

    /// The status of each relay, with its name.
    pub fn status(&self) -> Vec<(Arc<str>, RelayStatus)> {
        self.all.iter().map(|(name, relay)| (Arc::clone(name), relay.status())).collect()
    }

    /// Calls [`Relay::flush`] on all relays at the same time. Returns the worst outcome.
    ///
    /// # Cancel safety
    /// Cancelling stops only the waiting.
    pub async fn flush(&self, within: Duration) -> FlushOutcome {
        let flushed = join_all(self.all.iter().map(|(_, relay)| relay.flush(within))).await;
        flushed.into_iter().fold(FlushOutcome::Settled, FlushOutcome::and)
    }

    /// Runs until `stop` ends, then shuts down all relays, as [`Relay::run_until`] does. Returns each relay's report with its
    /// name.
    ///
    /// # Cancel safety
    /// Cancelling it is like dropping the relays.
    pub async fn run_until<T>(self, stop: impl Future<Output = T>) -> Vec<(Arc<str>, ShutdownReport)> {
        stop.await;
        self.shutdown(SHUTDOWN_GRACE).await
    }

    /// Calls [`Relay::shutdown`] on all relays at the same time. Returns each relay's report with its name.
    ///
    /// # Cancel safety
    /// Cancelling it is like dropping the relays.
    pub async fn shutdown(self, grace: Duration) -> Vec<(Arc<str>, ShutdownReport)> {
        join_all(self.all.into_iter().map(|(name, relay)| async move { (name, relay.shutdown(grace).await) })).await
    }
}

/// Configures and starts [`Relays`]. From [`Relays::builder`].
#[derive(Debug, Default)]
#[must_use = "relays run only after `start`"]
pub struct RelaysBuilder {
    transports: Transports,
    relays: Vec<(Arc<str>, RelayBuilder)>,
}

impl RelaysBuilder {
    /// Sets the transport of every relay, for topics without [`Topic::via`](crate::Topic::via).
    pub fn transport(mut self, transport: impl Transport) -> Self {
        self.transports.set_default(Arc::new(transport));
        self
    }

    /// Adds a transport under a name to every relay with topics that name it ([`Topic::via`](crate::Topic::via)). If a relay has
    /// its own under this name, that one is used.
    pub fn transport_named(mut self, name: impl Into<Arc<str>>, transport: impl Transport) -> Self {
        self.transports.add(name.into(), Arc::new(transport));
        self
    }

    /// Adds a relay, which needs its store. Each relay gets an equal share of its in-flight [`Limits`](crate::Limits), and all of
    /// its other limits. Its gauges have the name as the label `relay`.
    ///
    /// The name is a part of the transactional ids of [fenced](crate::Topic::fenced) topics: it must be the same on every node
    /// that relays from this database.
    pub fn relay(mut self, name: impl Into<Arc<str>>, relay: RelayBuilder) -> Self {
        self.relays.push((name.into(), relay));
        self
    }

    /// Starts all relays on the current tokio runtime.
    ///
    /// As with one relay, a database or broker that cannot be reached is no error: its relay tries again.
    ///
    /// # Errors
    /// Returns what a retry cannot correct, with the name of the relay. Then none of them runs.
    ///
    /// # Panics
    /// Panics outside a tokio runtime with time enabled.
    ///
    /// # Cancel safety
    /// Cancelling it is like dropping the relays that already run.
    pub async fn start(self) -> Result<Relays, StartError> {
        self.check()?;
        let (transports, count) = (&self.transports, self.relays.len());
        let start = |(name, relay): (Arc<str>, RelayBuilder)| async move {
            let started = relay.with_shared(&name, count, transports).start().await;
            (name, started)
        };
        let (mut all, mut failed) = (Vec::new(), None);
        for (name, started) in join_all(self.relays.into_iter().map(start)).await {
            match started {
                Ok(relay) => all.push((name, relay)),
                Err(error) => failed = failed.or(Some(StartError::Relay { relay: name, error: Box::new(error) })),
            }
        }
        let relays = Relays { all };
        match failed {
            None => Ok(relays),
            Some(error) => {
                // They have taken little or nothing, and committed rows stay in their tables.
                relays.shutdown(Duration::ZERO).await;
                Err(error)
            }
        }
    }

    fn check(&self) -> Result<(), StartError> {
        if self.relays.is_empty() {
            return Err(StartError::NoRelays);
        }
        let twice =
            self.relays.iter().enumerate().find(|(at, (name, _))| self.relays[..*at].iter().any(|(of, _)| of == name));
        if let Some((_, (name, _))) = twice {
            return Err(StartError::DuplicateRelay { relay: Arc::clone(name) });
        }
        let has_use = |name: &Arc<str>| self.relays.iter().any(|(_, relay)| relay.uses_transport(name));
        match self.transports.names().into_iter().find(|name| !has_use(name)) {
            Some(transport) => Err(StartError::UnusedTransport { transport }),
            None => Ok(()),
        }
    }
}
