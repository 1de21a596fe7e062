//! Relays of several databases or schemas in one process: shards, tenants, or two services that share a binary.
//!
//! Each database has its own relay, so that one that fails or is slow delays none of the others. They share the transports and
//! the bound on messages in flight.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::routes::Transports;
use crate::limits::SHUTDOWN_GRACE;
use crate::relay::{FlushOutcome, Relay, RelayBuilder, RelayStatus, ShutdownReport, StartError};
use crate::topic::DEFAULT_TRANSPORT;
use crate::transport::Transport;

/// Running relays by name, one for each database. Made by [`Relays::builder`].
///
/// Each database, or schema, needs its own [`Outbox`](crate::Outbox), because an outbox hands messages to its own relay. The
/// outboxes may have the same topics.
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
    /// A builder without relays.
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

    /// The status of each relay.
    pub fn status(&self) -> Vec<(Arc<str>, RelayStatus)> {
        self.all.iter().map(|(name, relay)| (Arc::clone(name), relay.status())).collect()
    }

    /// Calls [`Relay::flush`] on all relays at the same time and returns the worst outcome.
    ///
    /// # Cancel safety
    /// Cancelling stops the waiting only.
    pub async fn flush(&self, within: Duration) -> FlushOutcome {
        let flushed = join_all(self.all.iter().map(|(_, relay)| relay.flush(within))).await;
        flushed.into_iter().fold(FlushOutcome::Settled, FlushOutcome::and)
    }

    /// Runs the relays until `stop` completes, then shuts them down, as [`Relay::run_until`] does.
    ///
    /// # Cancel safety
    /// Cancelling it is like dropping the relays.
    pub async fn run_until<T>(self, stop: impl Future<Output = T>) -> Vec<(Arc<str>, ShutdownReport)> {
        stop.await;
        self.shutdown(SHUTDOWN_GRACE).await
    }

    /// Calls [`Relay::shutdown`] on all relays at the same time and returns their reports.
    ///
    /// # Cancel safety
    /// Cancelling it is like dropping the relays.
    pub async fn shutdown(self, grace: Duration) -> Vec<(Arc<str>, ShutdownReport)> {
        join_all(self.all.into_iter().map(|(name, relay)| async move { (name, relay.shutdown(grace).await) })).await
    }
}

/// Configures and starts [`Relays`].
#[derive(Debug, Default)]
#[must_use = "relays run only after `start`"]
pub struct RelaysBuilder {
    transports: Transports,
    relays: Vec<(Arc<str>, RelayBuilder)>,
}

impl RelaysBuilder {
    /// The broker of every relay, for the topics that name no transport.
    pub fn transport(self, transport: impl Transport) -> Self {
        self.transport_named(DEFAULT_TRANSPORT, transport)
    }

    /// A broker of every relay with topics that name it ([`Topic::via`](crate::Topic::via)). A relay's own transport of the same
    /// name takes precedence.
    pub fn transport_named(mut self, name: impl Into<Arc<str>>, transport: impl Transport) -> Self {
        self.transports.set(name.into(), Arc::new(transport));
        self
    }

    /// A relay with its store. Its limits of messages in flight are divided by the number of relays; its other
    /// [`Limits`](crate::Limits) stay. Its gauges have the name as the label `relay`.
    ///
    /// The name is part of the lane names that brokers know for [fenced](crate::Topic::fenced) topics. Use the same name on every
    /// node that relays from this database.
    pub fn relay(mut self, name: impl Into<Arc<str>>, relay: RelayBuilder) -> Self {
        self.relays.push((name.into(), relay));
        self
    }

    /// Starts them all on the current tokio runtime.
    ///
    /// A database or broker that cannot be reached is no error: its relay tries again.
    ///
    /// # Errors
    /// A problem that does not go away by waiting, with the name of the relay. Then no relay runs.
    ///
    /// # Panics
    /// Outside a tokio runtime with time enabled.
    ///
    /// # Cancel safety
    /// Cancelling it is like dropping the relays that were started.
    pub async fn start(self) -> Result<Relays, RelaysError> {
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
                Err(error) => failed = failed.or(Some(RelaysError::Start { relay: name, error })),
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

    fn check(&self) -> Result<(), RelaysError> {
        if self.relays.is_empty() {
            return Err(RelaysError::None);
        }
        let twice =
            self.relays.iter().enumerate().find(|(at, (name, _))| self.relays[..*at].iter().any(|(of, _)| of == name));
        if let Some((_, (name, _))) = twice {
            return Err(RelaysError::DuplicateName { relay: Arc::clone(name) });
        }
        let has_use = |name: &Arc<str>| self.relays.iter().any(|(_, relay)| relay.uses_transport(name));
        match self.transports.names().into_iter().find(|name| !has_use(name)) {
            Some(transport) => Err(RelaysError::Unused { transport }),
            None => Ok(()),
        }
    }
}

/// Why relays do not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelaysError {
    /// There is none.
    #[error("no relay was given: add one with .relay(\"name\", outbox.relay().store(..))")]
    None,
    /// Two have the same name.
    #[error("two relays have the name {relay:?}: give each database its own name")]
    DuplicateName {
        /// The name.
        relay: Arc<str>,
    },
    /// No topic of any relay goes to a transport.
    #[error(
        "no topic of any relay goes via the transport {transport:?}: name it with Topic::via({transport:?}), or leave the \
         transport out"
    )]
    Unused {
        /// Its name.
        transport: Arc<str>,
    },
    /// One of them does not start.
    #[error("the relay {relay:?} does not start: {error}")]
    Start {
        /// Its name.
        relay: Arc<str>,
        /// Why.
        error: StartError,
    },
}
