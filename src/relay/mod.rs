//! The engine: takes committed rows and makes sure that they are sent.
//!
//! ```text
//! commit hook ─ queue ─ dispatcher ─ confirm ─┐                       ┌─ settler ─ settle, fail, dead-letter
//!                                             ├─ transport ─ outcomes ┤
//! poller ─ (what is due) ─ sweeper ─ claim ───┘                       └─ the claim's own transaction
//! ```
//!
//! Ordered topics take another path, see `lanes`. The lease renewer extends leases. The prober checks the broker while
//! the breaker is open. The engine knows only the store and transport traits, and no adapter. A relay has one engine
//! per transport, and one poller for all of them.

mod api;
mod dead_letter_callbacks;
pub(crate) mod direct;
mod engine;
pub(crate) mod fingerprints;
mod health;
mod lanes;
mod ledger;
mod liveness;
mod notices;
mod path;
mod pruner;
mod settle;
mod settler;
mod sweep;
#[cfg(test)]
mod tests;
mod topics;

pub use api::blocking::BlockingRelay;
pub use api::builder::RelayBuilder;
pub use api::flush::FlushOutcome;
pub use api::handle::{RelayHandle, RelayHealth};
pub use api::panicked::RelayPanicked;
pub use api::relays::{Relays, RelaysBuilder};
pub use api::shutdown::ShutdownReport;
pub use api::start_error::StartError;
pub use dead_letter_callbacks::DeadLetterEvent;
pub use health::backlog::{Backlog, BacklogError};
pub use health::status::{LaneStatus, NamedTransportStatus, RelayState, RelayStatus, StoreStatus, TransportStatus};

pub use crate::store::interface::TopicBacklog;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use self::api::handle::Shared;
use self::direct::queue::{ConnectedRelay as _, Link};
use self::engine::engines::Engines;
use self::engine::stop::Stage;
use crate::events::log_event;
use crate::limits::SHUTDOWN_GRACE;
use crate::store::StoreError;

/// A running relay. Made by [`RelayBuilder::start`].
///
/// Its owner ends it, with [`shutdown`](Self::shutdown) or [`run_until`](Self::run_until). All others use a
/// [`handle`](Self::handle).
///
/// Dropping it without shutdown is like a crash, and is logged. Open claims still finish. A sweeper later finds the
/// messages in flight and may send them a second time.
#[must_use = "a dropped relay sends nothing: keep it, and end it with `shutdown` or `run_until`"]
pub struct Relay {
    engines: Arc<Engines>,
    link: Arc<Link>,
    /// Claim workers end on their own and are never aborted, so no claim is left open.
    sweepers: JoinSet<()>,
    others: JoinSet<()>,
    shared: Arc<Shared>,
    is_shut_down: bool,
}

impl Relay {
    pub(crate) fn new(engines: Arc<Engines>, link: Arc<Link>, sweepers: JoinSet<()>, others: JoinSet<()>) -> Self {
        let shared = Shared::new(&engines);
        Self { engines, link, sweepers, others, shared, is_shut_down: false }
    }

    /// A handle, for everybody who observes the relay and does not end it.
    pub fn handle(&self) -> RelayHandle {
        RelayHandle::new(&self.shared)
    }

    /// Waits until everything handed over so far has been sent and settled, for `within` at most.
    ///
    /// Rows that were handed over and then left to the sweepers, for example in an outage, are looked up in the
    /// database once per poll interval. Only the last [`in_flight_max`](crate::Limits::in_flight_max) and
    /// [`queue_rows_max`](crate::Limits::queue_rows_max) of them are remembered. Rows of a paused topic are ignored:
    /// they wait until it is resumed.
    ///
    /// # Cancel safety
    /// Cancelling stops only the waiting.
    pub async fn flush(&self, within: Duration) -> FlushOutcome {
        self.engines.flush(within).await
    }

    /// The relay's current status.
    pub fn status(&self) -> RelayStatus {
        health::status::snapshot(&self.engines)
    }

    /// Whether the process should be restarted, whether the relay does its work, and whether something is down: for the probes of an
    /// orchestrator.
    pub fn health(&self) -> RelayHealth {
        RelayHealth::of(&self.status())
    }

    /// Counts the live rows, the due rows and the dead letters in the tables. [`status`](Self::status) reports on this
    /// process and the configured topics only.
    ///
    /// Every relay on the same tables reports the same counts. Each call sets the gauges `outbox_live_rows`, `outbox_due_rows` and
    /// `outbox_dead_letters`; the relay itself does so each [`Limits::backlog_interval`](crate::Limits::backlog_interval).
    ///
    /// # Cost
    /// It reads index entries and no payloads: at most
    /// [`Limits::backlog_count_max`](crate::Limits::backlog_count_max) live rows and as many dead letters of each topic. That
    /// takes microseconds if little waits. Call it for a health endpoint or a scrape, not for every request.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # use diesel_outbox::store::MemoryStore;
    /// # use diesel_outbox::transport::MemoryTransport;
    /// # use diesel_outbox::{Envelope, MessageId, Outbox, Topic};
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// # let store = MemoryStore::new();
    /// # let envelope = Envelope::new(MessageId::new(), "order".into(), std::time::SystemTime::UNIX_EPOCH);
    /// # store.commit(envelope);
    /// # let relay = outbox.relay().store(store).transport(MemoryTransport::new()).start().await?;
    /// let backlog = relay.backlog().await?;
    /// assert_eq!((backlog.due(), backlog.dead_letters()), (1, 0));
    /// // No relay is configured for the topic "order".
    /// assert_eq!(backlog.topic("order").map(|topic| topic.due), Some(1));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// The database could not be reached, or did not answer in time.
    ///
    /// # Cancel safety
    /// Cancelling it changes nothing.
    pub async fn backlog(&self) -> Result<Backlog, StoreError> {
        health::backlog::count(&self.engines).await
    }

    /// Shuts down: takes no new messages, sends and settles those it has taken, and reports what is left. This takes at
    /// most `grace`, which is raised to the claim window with the lease margin, and cut to a day. A sweeper finds the rest later.
    ///
    /// # Cancel safety
    /// Cancelling it is like dropping the relay.
    pub async fn shutdown(mut self, grace: Duration) -> ShutdownReport {
        self.link.disconnect();
        let report = api::shutdown::drain(&self.engines, &mut self.sweepers, &mut self.others, grace).await;
        self.is_shut_down = true;
        report
    }

    /// Runs until `stop` completes, then [shuts down](Self::shutdown) with a grace of 20 s. For services whose main
    /// function only waits for the signal to stop.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # use diesel_outbox::store::MemoryStore;
    /// # use diesel_outbox::transport::MemoryTransport;
    /// # use diesel_outbox::{Outbox, Topic};
    /// # let outbox = Outbox::builder().topic(Topic::new("orders")).build()?;
    /// # let relay = outbox.relay().store(MemoryStore::new()).transport(MemoryTransport::new()).start().await?;
    /// # let ctrl_c = || async {};
    /// let report = relay.run_until(ctrl_c()).await; // tokio::signal::ctrl_c, say
    /// assert!(report.is_clean());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    /// Cancelling it is like dropping the relay.
    pub async fn run_until<T>(self, stop: impl Future<Output = T>) -> ShutdownReport {
        stop.await;
        self.shutdown(SHUTDOWN_GRACE).await
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if !self.is_shut_down {
            log_event!(RELAY_DROPPED, queued = self.engines.queued(), in_flight = self.engines.in_flight());
            // After a shutdown, another relay of the outbox may have been connected since.
            self.link.disconnect();
        }
        self.engines.stop.advance(Stage::Ending);
        self.shared.keep(self.status());
        self.sweepers.detach_all();
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("status", &self.status()).finish_non_exhaustive()
    }
}
