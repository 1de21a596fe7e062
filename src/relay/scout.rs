//! The scout: one cheap statement, for all transports, that says which topics have due rows, and when the next one is due.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::engines::Engines;
use super::left_in_lanes;
use super::look_back::{LookBack, spec};
use super::stop::Stage;
use super::topics::TopicState;
use crate::limits::{LOOK_BACK_DEPTH_MIN, LOOK_INTERVAL_MIN};
use crate::metrics;
use crate::planted::{Mistake, planted};
use crate::store::{Look, LookFrom, StoreError, overdue};

/// Runs until the relay drains.
pub(crate) async fn run(engines: Arc<Engines>) {
    let mut back = LookBack::default();
    loop {
        engines.wakes.looking();
        let pause = match look(&engines, &mut back).await {
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
            found = back.answered() => note_back(&engines, found),
            () = engines.wakes.scout.notified() => sleep(LOOK_INTERVAL_MIN).await,
            () = engines.stop.reached(Stage::Draining) => return,
        }
    }
}

/// Looks once, marks the topics with due rows, and returns how long to sleep.
async fn look(engines: &Engines, back: &mut LookBack) -> Result<Duration, StoreError> {
    let found = match back.at_once(engines).await {
        Some(found) => found,
        None => look_from_watermark(engines).await,
    };
    engines.store_health.note(&found, engines.clock.now());
    Ok(note(engines, &found?))
}

/// Learns at the start what is paused and what is due. Further back looks the scout, whose first look follows.
pub(crate) async fn first_look(engines: &Engines) -> Result<(), StoreError> {
    let found = look_from_watermark(engines).await;
    engines.store_health.note(&found, engines.clock.now());
    note(engines, &found?);
    Ok(())
}

async fn look_from_watermark(engines: &Engines) -> Result<Look, StoreError> {
    let from = |topic: &TopicState| match planted(Mistake::LookReadsTheDead) {
        true => LookFrom::Beginning,
        false => topic.watermark().map_or(LookFrom::Past(LOOK_BACK_DEPTH_MIN), LookFrom::After),
    };
    engines.store.look(&spec(engines, from)).await
}

/// Notes what a look from the beginning found that was not there at once; what it says of the watermark is all that is of use: the next
/// look begins there, and follows now. How it failed says nothing of the database, which other looks ask.
fn note_back(engines: &Engines, found: Result<Look, StoreError>) {
    match found {
        Ok(found) => note_ranges(engines, &found),
        Err(error) => tracing::debug!(%error, "a look at all that is due failed: looking again"),
    }
}

fn note_ranges(engines: &Engines, found: &Look) {
    for topic in engines.topics() {
        let name = topic.name();
        found.ranges.iter().filter(|range| range.topic == name).for_each(|range| topic.note_look(range));
    }
}

/// Marks the topics with due rows, and returns how long to sleep.
fn note(engines: &Engines, found: &Look) -> Duration {
    note_ranges(engines, found);
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
        if next.is_some() && topic.topic.lane_count().is_some() {
            topic.warn_of_unordered();
        }
        let in_lanes = engines.lanes_of(&name).map_or(Duration::ZERO, |lanes| lanes.overdue_by(engines.clock.now()));
        let overdue_by = next.map_or(Duration::ZERO, |next| overdue(next.overdue_by)).max(in_lanes);
        topic.gauge(metrics::OLDEST_DUE).set(overdue_by.as_secs_f64());
        if topic.is_paused() {
            // What falls due of it is nobody's until it is resumed.
            continue;
        }
        if next.is_some_and(|next| next.due_in.is_zero()) {
            topic.note_due();
            any_due = true;
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
    pause
}
