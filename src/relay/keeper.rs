//! The keeper: prolongs leases near their end, and notices what the client knows of an outage by itself.

use std::sync::Arc;

use tokio::time::sleep;

use super::engine::Engine;
use super::stop::Stage;
use crate::crash_points::crash_point;
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
        if let Some(class) = engine.transport.outage() {
            engine.breaker.open(class, engine.clock.now());
        }
        if let Err(error) = extend(&engine).await {
            tracing::warn!(%error, "leases could not be prolonged: trying again until they end");
        }
        let lost = engine.ledger.lose_ended_leases(engine.clock.now());
        ::metrics::counter!(metrics::LEASE_LOST).increment(lost as u64);
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
        let extended = engine.store.extend(held, engine.limits.lease_duration).await?;
        crash_point!(EXTENDED);
        engine.ledger.prolong(&extended, held, began_at, ends_at);
    }
    Ok(())
}
