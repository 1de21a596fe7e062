//! The prober: checks whether the broker is back while the breaker is open.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::{sleep, timeout};

use super::breaker::BreakerState;
use crate::events::log_event;
use crate::limits::PREPARE_TIMEOUT;
use crate::relay::engine::Engine;
use crate::relay::engine::stop::Stage;
use crate::topic::Topic;
use crate::transport::{FailureClass, TransportError};

/// Runs until the relay drains. `prepared` says whether the topics were created or checked at start.
pub(crate) async fn run(engine: Arc<Engine>, topics: Vec<Topic>, prepared: bool) {
    let prepared = AtomicBool::new(prepared);
    loop {
        tokio::select! {
            () = engine.breaker.wait_for(|state| matches!(state, BreakerState::Open { .. })) => {}
            () = engine.stop.reached(Stage::Draining) => return,
        }
        tokio::select! {
            () = probe_until_up(&engine, &topics, &prepared) => {}
            () = engine.stop.reached(Stage::Draining) => return,
        }
        engine.breaker.note_probe_success(engine.clock.now());
        engine.wakeups.poller.notify_one();
        engine.lanes.wake();
    }
}

async fn probe_until_up(engine: &Engine, topics: &[Topic], prepared: &AtomicBool) {
    let mut pause = engine.limits.probe_interval_min;
    loop {
        sleep(pause).await;
        // A probe that never returns would keep the transport down for good.
        let probed = timeout(PREPARE_TIMEOUT, probe(engine, topics, prepared)).await;
        match probed.unwrap_or_else(|_| Err(TransportError::new(FailureClass::Connection, ProbeTimeout))) {
            Ok(()) => return,
            Err(error) => {
                engine.breaker.note_error(&error);
                tracing::debug!(%error, transport = &*engine.name, "the transport is still down");
            }
        }
        pause = (pause * 2).min(engine.limits.probe_interval_max);
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the transport did not answer a probe within {PREPARE_TIMEOUT:?}")]
struct ProbeTimeout;

async fn probe(engine: &Engine, topics: &[Topic], prepared: &AtomicBool) -> Result<(), TransportError> {
    engine.transport.probe().await?;
    if prepared.load(Ordering::Acquire) {
        return Ok(());
    }
    match engine.transport.prepare(topics).await {
        Err(error) if error.class().is_outage() => return Err(error),
        // The relay already runs and can no longer refuse to start. Topics that do not fit show up as refused sends.
        Err(error) => {
            log_event!(BROKER_MISCONFIGURED, %error, transport = &*engine.name);
        }
        Ok(()) => {}
    }
    prepared.store(true, Ordering::Release);
    Ok(())
}
