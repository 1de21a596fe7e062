//! The end of a relay: takes nothing new, sends and settles what is in hand, reports the rest.

use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::events::log_event;
use crate::limits::SHUTDOWN_GRACE_MAX;
use crate::relay::engine::engines::Engines;
use crate::relay::engine::stop::Stage;

/// What a relay left undone when it ended. A sweeper of this or another process sends the messages later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Rows that were handed over and not yet sent.
    pub queued: usize,
    /// Messages that were sent and not yet settled. Each may be sent again.
    pub in_flight: usize,
    /// Dead-letter callbacks that were not called, because the grace was over. No other process calls them: list the
    /// [dead letters](crate::admin::Admin::dead_letters) instead.
    pub dead_letter_callbacks: usize,
    /// Whether all tasks ended within the grace.
    pub in_time: bool,
}

impl ShutdownReport {
    /// Whether nothing was left and everything ended in time: then the shutdown causes no duplicates.
    pub fn is_clean(&self) -> bool {
        self.in_time && self.queued == 0 && self.in_flight == 0 && self.dead_letter_callbacks == 0
    }
}

/// Drains in order: claims end, the queue empties, the client flushes, outcomes are settled.
pub(in crate::relay) async fn drain(
    engines: &Engines,
    sweepers: &mut JoinSet<()>,
    others: &mut JoinSet<()>,
    grace: Duration,
) -> ShutdownReport {
    let grace = grace.max(engines.limits.claim_window_duration + engines.limits.lease_margin_duration);
    let deadline = Instant::now() + grace.min(SHUTDOWN_GRACE_MAX);
    engines.stop.advance(Stage::Draining);
    let drained = async {
        while sweepers.join_next().await.is_some() {}
        // Concurrently: a transport that is down waits for its time-outs, and must not delay the others.
        join_all(engines.all.iter().map(|engine| async move {
            let flushed = engine.transport.flush(deadline.saturating_duration_since(Instant::now()));
            tokio::join!(flushed, engine.ledger.changed(|| engine.is_drained()));
            engine.lanes.all_released().await;
        }))
        .await;
    };
    let in_time = timeout_at(deadline, drained).await.is_ok();
    // What is not called by then is counted below.
    let _ = timeout_at(deadline, engines.dead_letter_callbacks.all_notified()).await;
    engines.stop.advance(Stage::Ending);
    let (queued, in_flight) = (engines.queued(), engines.in_flight());
    // These tasks may be aborted: a sweeper finds the rows that they did not write.
    others.shutdown().await;
    let dead_letter_callbacks = engines.dead_letter_callbacks.end();
    let report = ShutdownReport { queued, in_flight, dead_letter_callbacks, in_time };
    if report.is_clean() {
        log_event!(RELAY_ENDED);
    } else {
        log_event!(RELAY_ENDED_EARLY, ?report);
    }
    report
}
