//! The look from the beginning, on an account of its own: it may take as long as it likes, and fail, while the scout goes on.

use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::timeout;

use super::engines::Engines;
use super::topics::TopicState;
use crate::clock::BootInstant;
use crate::limits::{LOOK_BACK_DEPTH, LOOK_BACK_DEPTH_MIN, LOOK_BACK_PATIENCE, LOOK_BACK_REST, LOOK_BACK_RETRY};
use crate::store::{Look, LookAt, LookFrom, LookSpec, StoreError};

type UnderWay = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// What a look from the beginning found, when it was asked and how long it took.
struct Answer {
    found: Result<Look, StoreError>,
    ended_at: BootInstant,
    took: Duration,
}

/// When the next look from the beginning is, and the one that is under way.
///
/// Somebody's old snapshot keeps vacuum from the index entries of what is gone, and this look walks over all of them. So it rests
/// [`LOOK_BACK_REST`] times as long as it took, and once it comes to its deadline it goes back less far.
#[derive(Default)]
pub(super) struct LookBack {
    under_way: Option<UnderWay>,
    rests_until: Option<BootInstant>,
    /// The last one was not there at once.
    is_slow: bool,
    /// How far it goes back, and until when; `None` for the beginning.
    depth: Option<(Duration, BootInstant)>,
}

impl LookBack {
    /// Looks back where it is time, and waits a moment for the answer: where little is in the way it is there at once, and no other
    /// look is needed. `None` where there is no answer yet, or only that it took too long.
    pub(super) async fn at_once(&mut self, engines: &Engines) -> Option<Result<Look, StoreError>> {
        let now = engines.clock.now();
        if self.under_way.is_some() || self.rests_until.is_some_and(|until| now < until) {
            return None;
        }
        if self.depth.is_some_and(|(_, until)| now >= until) {
            self.depth = None;
        }
        let from = self.depth.map_or(LookFrom::Beginning, |(depth, _)| LookFrom::Past(depth));
        self.under_way = Some(look_from(engines, from));
        if self.is_slow {
            return None;
        }
        match timeout(LOOK_BACK_PATIENCE, self.answered()).await {
            Ok(Err(StoreError::TimedOut { .. })) | Err(_) => None,
            Ok(answer) => Some(answer),
        }
    }

    /// Waits for the answer to the look that is under way; for ever where there is none. Cancel safe.
    pub(super) async fn answered(&mut self) -> Result<Look, StoreError> {
        let Some(under_way) = &mut self.under_way else { return pending().await };
        let Answer { found, ended_at, took } = under_way.await;
        self.under_way = None;
        self.is_slow = took > LOOK_BACK_PATIENCE;
        self.rests_until = Some(ended_at + took.saturating_mul(LOOK_BACK_REST));
        if let Err(error) = &found {
            // Again with the next look: it is over soon, or the next goes back less far.
            self.rests_until = None;
            if matches!(error, StoreError::TimedOut { .. }) {
                self.shorten(ended_at, took);
            }
        }
        found
    }

    fn shorten(&mut self, now: BootInstant, took: Duration) {
        let depth = self.depth.map_or(LOOK_BACK_DEPTH, |(depth, _)| (depth / 4).max(LOOK_BACK_DEPTH_MIN));
        if self.depth.is_some_and(|(before, _)| before == depth) {
            self.rests_until = Some(now + took.saturating_mul(LOOK_BACK_REST));
        }
        self.depth = Some((depth, now + LOOK_BACK_RETRY));
        tracing::warn!(
            ?took,
            looks_back = ?depth,
            "a look at all that is due came to its deadline: something old, a transaction, a prepared transaction or a replication slot, \
             keeps vacuum from the index entries of rows that are gone. Until it ends, a row that is committed later than that after it \
             was due is not found"
        );
    }
}

fn look_from(engines: &Engines, from: LookFrom) -> UnderWay {
    let (store, clock) = (engines.store.clone(), engines.clock.clone());
    let spec = spec(engines, |_| from);
    Box::pin(async move {
        let asked_at = clock.now();
        let found = store.look(&spec).await;
        let ended_at = clock.now();
        Answer { found, ended_at, took: asked_at.until(ended_at) }
    })
}

/// A look at every topic, no further ahead than the next look.
pub(super) fn spec(engines: &Engines, from: impl Fn(&TopicState) -> LookFrom) -> LookSpec {
    LookSpec {
        topics: engines.topics().map(|topic| LookAt { topic: topic.name(), from: from(topic) }).collect(),
        ahead: engines.limits.poll_interval,
        watermark_slack_duration: engines.limits.watermark_slack_duration,
    }
}
