//! The sweeper: claims due rows, sends them, and settles them in the claim's own transaction.

use std::sync::Arc;

use tokio::time::{Instant, sleep};

use super::claim_run::ClaimRun;
use crate::crash_points::crash_point;
use crate::metrics;
use crate::relay::engine::Engine;
use crate::relay::engine::stop::Stage;
use crate::relay::engine::store_call::store_call;
use crate::relay::topics::TopicState;
use crate::repeated::{Repeated, warn_once_a_minute};
use crate::store::{ClaimMode, ClaimSpec, StoreError};

/// One claim worker. It is never cancelled in the middle of a claim: it ends on its own when the relay drains.
pub(crate) async fn run(engine: Arc<Engine>) {
    let (mut turn, failures) = (0, Repeated::default());
    while !engine.stop.has_reached(Stage::Draining) {
        let wakeup = engine.wakeups.sweepers.notified();
        let Some(topic) = engine.topics.next_due(&mut turn, engine.clock.now()) else {
            tokio::select! {
                () = wakeup => {}
                () = engine.stop.reached(Stage::Draining) => {}
            }
            continue;
        };
        if let Err(error) = sweep(&engine, &topic).await {
            ::metrics::counter!(metrics::CLAIM_FAILED).increment(1);
            warn_once_a_minute!(CLAIM_FAILED, failures, error, topic = topic.config.name());
            topic.stop_traversal();
            if matches!(error, StoreError::TimedOut { .. }) {
                topic.read_late(topic.claim_size().rows_of(engine.limits.claim_rows_max));
            }
            engine.wait_after_failed_read().await;
        }
    }
}

/// Sleeps for a poll interval, or until the relay drains.
async fn sleep_poll_interval(engine: &Engine) {
    tokio::select! {
        () = sleep(engine.limits.poll_interval) => {}
        () = engine.stop.reached(Stage::Draining) => {}
    }
}

/// Claims, sends and settles one batch of a topic.
#[tracing::instrument(name = "outbox.sweep", level = "debug", skip_all, fields(topic = topic.config.name()))]
async fn sweep(engine: &Arc<Engine>, topic: &Arc<TopicState>) -> Result<(), StoreError> {
    let limits = &engine.limits;
    let size = topic.claim_size();
    let mut room = tokio::select! {
        room = engine.ledger.reserve(size.rows_of(limits.claim_rows_max), size.of(limits.claim_bytes_max)) => room,
        () = engine.stop.reached(Stage::Draining) => return Ok(()),
    };
    let wanted = if topic.is_on_trial() { 1 } else { room.rows() };
    let admission = engine.breaker.admit(wanted, engine.clock.now());
    if admission.rows() == 0 {
        drop(room);
        wait_for_breaker(engine).await;
        return Ok(());
    }
    let from = topic.claim_from(engine.clock.now(), limits.poll_interval);
    let spec = ClaimSpec {
        topic: topic.name(),
        after: from.start.after,
        rows_max: admission.rows(),
        bytes_max: room.bytes(),
        lock_duration: limits.claim_lease_duration,
        lease_duration: limits.lease_duration,
        watermark_slack_duration: limits.watermark_slack_duration,
        keep: topic.config.keep(),
    };
    let began_at = engine.clock.now();
    let claim = store_call("claim", engine.store.claim(&spec)).await?;
    crash_point!(CLAIMED);
    let read = began_at.until(engine.clock.now());
    let deadline = Instant::now() + limits.claim_window_duration;
    let lease_ends_at = match claim.mode {
        // Counted from before the read: only the database knows when its own count began.
        ClaimMode::Locked => began_at + limits.claim_lease_duration,
        ClaimMode::Leased => began_at + limits.lease_duration - limits.lease_margin_duration,
    };
    topic.note_range(from, spec.rows_max, &claim, engine.clock.now());
    let mut claim_run = ClaimRun::new(engine, topic, claim.mode, lease_ends_at);
    let found = claim.rows.len();
    claim_run.send(claim.rows, &mut room);
    if claim.found_all && !from.start.in_traversal && claim_run.sent() > 0 {
        // The last poll saw only the first due row, and rows become due one after the other; those of one burst of
        // enqueues within milliseconds. Not if nothing was found: rows that another node has locked are due as well.
        engine.wakeups.poller.notify_one();
    }
    claim_run.wait(deadline).await;
    claim_run.send_suspects(deadline, &mut room).await;
    drop(room);
    admission.end(claim_run.sent() > 0);
    let shrank = match claim_run.late() {
        0 => {
            topic.read_in_time(read, limits.claim_lease_duration);
            false
        }
        _ => topic.claimed_late(spec.rows_max),
    };
    let had_no_effect = found > 0 && claim_run.had_no_effect() && !shrank;
    let gave_back = !claim.found_all || claim_run.late() > 0;
    claim_run.close(claim.handle).await?;
    if gave_back {
        // The claim may have held rows locked until now, so that a poll in between found nothing.
        topic.note_due();
        engine.wakeups.sweepers.notify_waiters();
    }
    if had_no_effect {
        // What it found is still due. A claim of a single row, as in a trial, would find the same row again at once,
        // until somebody else settles it.
        sleep_poll_interval(engine).await;
    }
    Ok(())
}

/// Until the breaker changes, or a trial has timed out.
async fn wait_for_breaker(engine: &Engine) {
    let state = engine.breaker.state();
    tokio::select! {
        () = engine.breaker.wait_for(|now| now != state) => {}
        () = sleep_poll_interval(engine) => {}
    }
}
