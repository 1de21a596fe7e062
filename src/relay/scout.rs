//! The scout: one cheap statement, for all transports, that says which topics have due rows, and when the next one is due.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::engines::Engines;
use super::left_in_lanes;
use super::stop::Stage;
use crate::limits::LOOK_INTERVAL_MIN;
use crate::metrics;
use crate::store::{StoreError, overdue};

/// Runs until the relay drains.
pub(crate) async fn run(engines: Arc<Engines>) {
    loop {
        engines.wakes.looking();
        let pause = match look(&engines).await {
            Ok(pause) => {
                left_in_lanes::tell(&engines).await;
                pause
            }
            Err(error) => {
                tracing::warn!(%error, "the outbox could not be read: looking again");
                engines.limits.poll_interval
            }
        };
        engines.wakes.looks_at(engines.clock.now() + pause);
        tokio::select! {
            () = sleep(pause) => {}
            () = engines.wakes.scout.notified() => sleep(LOOK_INTERVAL_MIN).await,
            () = engines.stop.reached(Stage::Draining) => return,
        }
    }
}

/// Looks once, marks the topics with due rows, and returns how long to sleep.
pub(crate) async fn look(engines: &Engines) -> Result<Duration, StoreError> {
    let found = engines.store.look(&engines.topic_names()).await;
    engines.store_health.note(&found, engines.clock.now());
    let found = found?;
    let mut pause = engines.limits.poll_interval;
    let (mut any_due, mut any_resumed) = (false, false);
    for topic in engines.topics() {
        let name = topic.name();
        if topic.set_paused(found.paused.contains(&name)) {
            any_resumed = true;
            if let Some(lanes) = engines.lanes_of(&name) {
                lanes.retry_held();
            }
        }
        let next = found.due.iter().find(|next| next.topic == name);
        let in_lanes = engines.lanes_of(&name).map_or(Duration::ZERO, |lanes| lanes.overdue_by(engines.clock.now()));
        let overdue_by = next.map_or(Duration::ZERO, |next| overdue(next.overdue_by)).max(in_lanes);
        topic.gauge(metrics::OLDEST_DUE).set(overdue_by.as_secs_f64());
        if topic.is_paused() {
            // What falls due of it is nobody's until it is resumed.
            continue;
        }
        match next {
            Some(next) if next.due_in.is_zero() => {
                topic.note_overdue(next.overdue_by, engines.limits.watermark_slack_duration, engines.clock.now());
                topic.note_due();
                any_due = true;
            }
            _ => {}
        }
        // Also behind a row that is due: that one may be another node's, in the middle of its claim.
        if let Some(later_in) = next.and_then(|next| next.later_in) {
            pause = pause.min(later_in.max(LOOK_INTERVAL_MIN));
        }
    }
    if any_resumed {
        engines.all.iter().for_each(|engine| engine.lanes.wake());
    }
    if any_due {
        engines.wakes.sweepers.notify_waiters();
    }
    Ok(pause)
}
