//! The poller: one cheap statement for all transports finds which topics have due rows, and when the next row is due.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::full_scan::{FullScan, poll_spec};
use super::orphaned_rows;
use crate::clock::BootInstant;
use crate::events::log_event;
use crate::injected_bugs::{InjectedBug, is_injected};
use crate::limits::{FULL_SCAN_DEPTH_MIN, POLL_INTERVAL_MIN, READ_RETRY_MAX};
use crate::metrics;
use crate::relay::engine::engines::Engines;
use crate::relay::engine::stop::Stage;
use crate::relay::topics::TopicState;
use crate::repeated::{Repeated, warn_once_a_minute};
use crate::store::{PollFrom, PollResult, StoreError, overdue};

/// Runs until the relay drains.
pub(crate) async fn run(engines: Arc<Engines>) {
    let (mut full_scan, failures, orphaned_failures) = (FullScan::default(), Repeated::default(), Repeated::default());
    loop {
        engines.wakeups.begin_poll();
        engines.task_health.note_poll(engines.clock.now());
        let pause = match poll(&engines, &mut full_scan).await {
            Ok(pause) => {
                if failures.is_over() {
                    log_event!(POLL_BACK);
                }
                orphaned_rows::report(&engines, &orphaned_failures).await;
                pause
            }
            Err(error) => {
                warn_once_a_minute!(POLL_FAILED, failures, error);
                engines.limits.poll_interval.min(READ_RETRY_MAX)
            }
        };
        engines.wakeups.set_next_poll(engines.clock.now() + pause);
        tokio::select! {
            () = sleep(pause) => {}
            found = full_scan.finished() => note_full_scan(&engines, found),
            () = engines.wakeups.poller.notified() => sleep(POLL_INTERVAL_MIN).await,
            () = engines.stop.reached(Stage::Draining) => return,
        }
    }
}

/// Polls once, marks the topics with due rows, and returns how long to sleep.
async fn poll(engines: &Engines, full_scan: &mut FullScan) -> Result<Duration, StoreError> {
    let asked_at = engines.clock.now();
    let (asked_at, found) = match full_scan.try_scan(engines).await {
        Some(found) => (asked_at, found),
        None => (engines.clock.now(), poll_from_watermark(engines).await),
    };
    note_database(engines, &found, asked_at);
    Ok(note(engines, &found?))
}

/// Notes whether the database answers, and what time it is there.
fn note_database(engines: &Engines, found: &Result<PollResult, StoreError>, asked_at: BootInstant) {
    let now = engines.clock.now();
    engines.store_health.note(found, now);
    if let Ok(PollResult { read_at: Some(read_at), .. }) = found {
        engines.database_clock.note(*read_at, asked_at, now);
    }
}

/// Learns at start what is paused and what is due. Only a short way back: the poller's own first poll follows and goes
/// further.
pub(crate) async fn first_poll(engines: &Engines) -> Result<(), StoreError> {
    let asked_at = engines.clock.now();
    let found = poll_from_watermark(engines).await;
    note_database(engines, &found, asked_at);
    note(engines, &found?);
    Ok(())
}

async fn poll_from_watermark(engines: &Engines) -> Result<PollResult, StoreError> {
    let from = |topic: &TopicState| match is_injected(InjectedBug::PollReadsDeadRows) {
        true => PollFrom::Beginning,
        false => topic.watermark().map_or(PollFrom::Past(FULL_SCAN_DEPTH_MIN), PollFrom::After),
    };
    engines.store.poll(&poll_spec(engines, from)).await
}

/// Notes the result of a full scan that did not finish at once. Only its watermark is used: the next poll starts there
/// and follows now. Its failure says nothing about the database; the other polls check that.
fn note_full_scan(engines: &Engines, found: Result<PollResult, StoreError>) {
    match found {
        Ok(found) => note_ranges(engines, &found),
        Err(error) => tracing::debug!(%error, "a full scan failed: trying again"),
    }
}

fn note_ranges(engines: &Engines, found: &PollResult) {
    for topic in engines.topics() {
        let name = topic.name();
        found.ranges.iter().filter(|range| range.topic == name).for_each(|range| topic.note_poll(range));
    }
}

/// Marks the topics with due rows, and returns how long to sleep.
fn note(engines: &Engines, found: &PollResult) -> Duration {
    note_ranges(engines, found);
    let mut pause = engines.limits.poll_interval;
    let (mut any_due, mut any_resumed) = (false, false);
    for topic in engines.topics() {
        let name = topic.name();
        if topic.set_paused(found.paused.contains(&name)) {
            any_resumed = true;
            if let Some(lanes) = engines.lanes_of(&name) {
                lanes.retry_blocked();
            }
        }
        let next = found.due.iter().find(|next| next.topic == name);
        if next.is_some() && topic.config.lane_count().is_some() {
            topic.warn_of_unordered();
        }
        let in_lanes = engines.lanes_of(&name).map_or(Duration::ZERO, |lanes| lanes.overdue_by(engines.clock.now()));
        let overdue_by = next.map_or(Duration::ZERO, |next| overdue(next.overdue_by)).max(in_lanes);
        topic.gauge(metrics::OLDEST_DUE).set(overdue_by.as_secs_f64());
        if topic.is_paused() {
            // Due rows of a paused topic do not matter until it is resumed.
            continue;
        }
        if next.is_some_and(|next| next.due_in.is_zero()) {
            topic.note_due();
            any_due = true;
        }
        // Also behind a row that is already due: another node may be in the middle of claiming it.
        if let Some(later_in) = next.and_then(|next| next.later_in) {
            pause = pause.min(later_in.max(POLL_INTERVAL_MIN));
        }
    }
    if any_resumed {
        engines.all.iter().for_each(|engine| engine.lanes.wake());
    }
    if any_due {
        engines.wakeups.sweepers.notify_waiters();
    }
    pause
}
