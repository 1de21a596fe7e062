//! The lease renewer: extends leases near their end, and checks whether the client itself reports an outage.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::entry::Progress;
use crate::crash_points::crash_point;
use crate::events::log_event;
use crate::injected_bugs::{InjectedBug, is_injected};
use crate::metrics;
use crate::panic_guard::catch_panic;
use crate::relay::engine::Engine;
use crate::relay::engine::rows::Holder;
use crate::relay::engine::stop::Stage;
use crate::relay::engine::store_call::store_call;
use crate::repeated::{Repeated, warn_once_a_minute};
use crate::store::StoreError;

/// Runs until the relay ends, also while it drains: rows in flight still need their lease.
pub(crate) async fn run(engine: Arc<Engine>) {
    let failures = Repeated::default();
    loop {
        tokio::select! {
            () = sleep(engine.limits.extend_interval) => {}
            () = engine.stop.reached(Stage::Ending) => return,
        }
        if let Some(class) = catch_panic("outage", &engine.name, || engine.transport.outage()).flatten() {
            // The prober probes next and learns more.
            engine.breaker.open(class, &"the client has lost its brokers", engine.clock.now());
        }
        if let Err(error) = extend(&engine).await {
            warn_once_a_minute!(LEASES_NOT_EXTENDED, failures, error);
        }
        let lost = engine.ledger.drop_expired_leases(engine.clock.now());
        ::metrics::counter!(metrics::LEASE_LOST).increment(lost as u64);
        abandon_overdue(&engine);
        let now = engine.clock.now();
        let oldest = engine.ledger.oldest().map_or(Duration::ZERO, |sent_at| sent_at.until(now));
        engine.oldest_in_flight.set(oldest.as_secs_f64());
    }
}

/// Removes the rows from the ledger that nobody will report on any more. Leased rows are due when their lease ends. A
/// row in a lane is again the next of its key.
fn abandon_overdue(engine: &Engine) {
    let now = engine.clock.now();
    let mut unwritten = 0;
    for (row, entry) in engine.ledger.abandon_overdue(now - engine.transport.delivery_timeout(), now) {
        let (sent_for, topic) = (entry.sent_at.until(now), entry.topic.name());
        if entry.progress == Progress::Failed {
            unwritten += 1;
            continue;
        }
        log_event!(OUTCOME_MISSING, ?row, %topic, ?sent_for);
        if let Holder::Lane(in_flight) = entry.holder {
            in_flight.failed(None, now);
            in_flight.requeue(row);
        }
    }
    if unwritten > 0 {
        log_event!(FAILURES_NOT_WRITTEN, rows = unwritten);
    }
}

/// Extends each lease of which less than a third is left. A failed extension is retried until the lease ends; then the
/// row is left to the sweeper.
async fn extend(engine: &Engine) -> Result<(), StoreError> {
    if is_injected(InjectedBug::LeaseNotExtended) {
        return Ok(());
    }
    let near = engine.ledger.leases_to_extend(engine.clock.now());
    for held in near.chunks(engine.limits.settle_rows_max.max(1)) {
        let began_at = engine.clock.now();
        let ends_at = began_at + engine.limits.lease_duration - engine.limits.lease_margin_duration;
        let extended = store_call("extend", engine.store.extend(held, engine.limits.lease_duration)).await?;
        crash_point!(EXTENDED);
        engine.ledger.note_extended(&extended, held, began_at, ends_at);
    }
    Ok(())
}
