//! The keeper: prolongs leases near their end, and notices what the client knows of an outage by itself.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::engine::Engine;
use super::entry::{Holder, Progress};
use super::stop::Stage;
use super::store_call::store_call;
use crate::crash_points::crash_point;
use crate::guarded::guarded;
use crate::metrics;
use crate::planted::{Mistake, planted};
use crate::store::StoreError;

/// Runs until the relay ends; also while it drains, because what is in flight still needs its lease.
pub(crate) async fn run(engine: Arc<Engine>) {
    loop {
        tokio::select! {
            () = sleep(engine.limits.extend_interval) => {}
            () = engine.stop.reached(Stage::Ending) => return,
        }
        if let Some(class) = guarded("outage", &engine.name, || engine.transport.outage()).flatten() {
            engine.breaker.open(class, engine.clock.now());
        }
        if let Err(error) = extend(&engine).await {
            tracing::warn!(%error, "leases could not be prolonged: trying again until they end");
        }
        let lost = engine.ledger.lose_ended_leases(engine.clock.now());
        ::metrics::counter!(metrics::LEASE_LOST).increment(lost as u64);
        give_up_unanswered(&engine);
        let now = engine.clock.now();
        let oldest = engine.ledger.oldest().map_or(Duration::ZERO, |sent_at| sent_at.until(now));
        engine.oldest_in_flight.set(oldest.as_secs_f64());
    }
}

/// Takes the rows out of the books that nobody answers for. Leased ones come back when their lease ends, or have; in a lane the row is
/// the next of its key again.
fn give_up_unanswered(engine: &Engine) {
    let now = engine.clock.now();
    for (row, entry) in engine.ledger.give_up_unanswered(now - engine.transport.delivery_timeout(), now) {
        let (sent_for, topic) = (entry.sent_at.until(now), entry.topic.name());
        if entry.progress == Progress::Failed {
            tracing::warn!(?row, %topic, ?sent_for, "a failure was not written while its lease ran: the row is the sweeper's");
            continue;
        }
        tracing::error!(?row, %topic, ?sent_for, "nobody says what became of a message: it is sent again");
        if let Holder::Lane(hold) = entry.holder {
            hold.failed(None, now);
            hold.put_back(row);
        }
    }
}

/// Prolongs each lease of which less than a third is left. One that cannot be prolonged is tried again each time until
/// it ends; then the row is the sweeper's.
async fn extend(engine: &Engine) -> Result<(), StoreError> {
    if planted(Mistake::LeaseNotExtended) {
        return Ok(());
    }
    let near = engine.ledger.leases_to_extend(engine.clock.now());
    for held in near.chunks(engine.limits.settle_rows_max.max(1)) {
        let began_at = engine.clock.now();
        let ends_at = began_at + engine.limits.lease_duration - engine.limits.term_margin_duration;
        let extended = store_call("extend", engine.store.extend(held, engine.limits.lease_duration)).await?;
        crash_point!(EXTENDED);
        engine.ledger.prolong(&extended, held, began_at, ends_at);
    }
    Ok(())
}
