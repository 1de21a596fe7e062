//! The scout: one cheap statement that says which topics have due rows, and when the next one is due.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::engine::Engine;
use super::stop::Stage;
use crate::metrics;
use crate::store::StoreError;

/// The shortest sleep between two looks, so that rows due one after the other cost no statement each: what falls due
/// within it is found by one look.
const LOOK_INTERVAL_MIN: Duration = Duration::from_millis(5);

/// Runs until the relay drains.
pub(crate) async fn run(engine: Arc<Engine>) {
    loop {
        let pause = match look(&engine).await {
            Ok(pause) => pause,
            Err(error) => {
                tracing::warn!(%error, "the outbox could not be read: looking again");
                engine.limits.poll_interval
            }
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = engine.wakes.scout.notified() => sleep(LOOK_INTERVAL_MIN).await,
            () = engine.stop.reached(Stage::Draining) => return,
        }
    }
}

/// Looks once, marks the topics with due rows, and returns how long to sleep.
pub(crate) async fn look(engine: &Engine) -> Result<Duration, StoreError> {
    let found = engine.store.next_due(&engine.topics.names()).await;
    engine.store_health.note(&found, engine.clock.now());
    let found = found?;
    let mut pause = engine.limits.poll_interval;
    let mut any_due = false;
    for topic in engine.topics.iter() {
        let next = found.iter().find(|next| next.topic == topic.name());
        let overdue_by = next.map_or(Duration::ZERO, |next| next.overdue_by);
        ::metrics::gauge!(metrics::OLDEST_DUE, "topic" => topic.name()).set(overdue_by.as_secs_f64());
        match next {
            Some(next) if next.due_in.is_zero() => {
                topic.set_due(true);
                any_due = true;
            }
            Some(next) => pause = pause.min(next.due_in.max(LOOK_INTERVAL_MIN)),
            None => {}
        }
    }
    if any_due {
        engine.wakes.sweepers.notify_waiters();
    }
    Ok(pause)
}
