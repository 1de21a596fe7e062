//! The full scan runs beside the poll: it may be slow, or fail, while the poller goes on.

use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::timeout;

use crate::clock::BootInstant;
use crate::events::log_event;
use crate::limits::{
    FULL_SCAN_DEPTH, FULL_SCAN_DEPTH_MIN, FULL_SCAN_PAUSE_FACTOR, FULL_SCAN_RETRY_INTERVAL, FULL_SCAN_WAIT_MAX,
};
use crate::relay::engine::engines::Engines;
use crate::relay::topics::TopicState;
use crate::store::{PollFrom, PollResult, PollSpec, PollTopic, StoreError};

type RunningScan = Pin<Box<dyn Future<Output = ScanResult> + Send>>;

/// The result of a full scan, when it began and how long it took.
struct ScanResult {
    found: Result<PollResult, StoreError>,
    ended_at: BootInstant,
    took: Duration,
}

/// When the next full scan is, and the one that is running.
///
/// An old snapshot keeps vacuum from removing dead index entries, and a full scan walks over all of them. So it pauses
/// for [`FULL_SCAN_PAUSE_FACTOR`] times its duration, and after a time-out it goes back less far.
#[derive(Default)]
pub(in crate::relay) struct FullScan {
    running: Option<RunningScan>,
    next_at: Option<BootInstant>,
    /// Whether the last one did not finish at once.
    is_slow: bool,
    /// How far back it goes, and until when that holds; `None` for the beginning.
    depth: Option<(Duration, BootInstant)>,
}

impl FullScan {
    /// Starts a full scan if it is time, and waits a moment for the answer: if little is in its way it answers at once,
    /// and no other poll is needed. `None` if there is no answer yet, or if it timed out.
    pub(in crate::relay) async fn try_scan(&mut self, engines: &Engines) -> Option<Result<PollResult, StoreError>> {
        let now = engines.clock.now();
        if self.running.is_some() || self.next_at.is_some_and(|until| now < until) {
            return None;
        }
        if self.depth.is_some_and(|(_, until)| now >= until) {
            self.depth = None;
        }
        let from = self.depth.map_or(PollFrom::Beginning, |(depth, _)| PollFrom::Past(depth));
        self.running = Some(scan_from(engines, from));
        if self.is_slow {
            return None;
        }
        match timeout(FULL_SCAN_WAIT_MAX, self.finished()).await {
            Ok(Err(StoreError::TimedOut { .. })) | Err(_) => None,
            Ok(result) => Some(result),
        }
    }

    /// Waits for the running full scan; forever if none runs. Cancel safe.
    pub(in crate::relay) async fn finished(&mut self) -> Result<PollResult, StoreError> {
        let Some(running) = &mut self.running else { return pending().await };
        let ScanResult { found, ended_at, took } = running.await;
        self.running = None;
        self.is_slow = took > FULL_SCAN_WAIT_MAX;
        self.next_at = Some(ended_at + took.saturating_mul(FULL_SCAN_PAUSE_FACTOR));
        if let Err(error) = &found {
            // Try again at the next poll: the scan is quick, or goes back less far next time.
            self.next_at = None;
            if matches!(error, StoreError::TimedOut { .. }) {
                self.reduce_depth(ended_at, took);
            }
        }
        found
    }

    fn reduce_depth(&mut self, now: BootInstant, took: Duration) {
        let depth = self.depth.map_or(FULL_SCAN_DEPTH, |(depth, _)| (depth / 4).max(FULL_SCAN_DEPTH_MIN));
        if self.depth.is_some_and(|(before, _)| before == depth) {
            self.next_at = Some(now + took.saturating_mul(FULL_SCAN_PAUSE_FACTOR));
        }
        self.depth = Some((depth, now + FULL_SCAN_RETRY_INTERVAL));
        log_event!(FULL_SCAN_TIMED_OUT, ?took, scan_depth = ?depth);
    }
}

fn scan_from(engines: &Engines, from: PollFrom) -> RunningScan {
    let (store, clock) = (engines.store.clone(), engines.clock.clone());
    let spec = poll_spec(engines, |_| from);
    Box::pin(async move {
        let began_at = clock.now();
        let found = store.poll(&spec).await;
        let ended_at = clock.now();
        ScanResult { found, ended_at, took: began_at.until(ended_at) }
    })
}

/// A poll of every topic, no further ahead than the next poll.
pub(in crate::relay) fn poll_spec(engines: &Engines, from: impl Fn(&TopicState) -> PollFrom) -> PollSpec {
    PollSpec {
        topics: engines.topics().map(|topic| PollTopic { topic: topic.name(), from: from(topic) }).collect(),
        ahead: engines.limits.poll_interval,
        watermark_slack_duration: engines.limits.watermark_slack_duration,
    }
}
