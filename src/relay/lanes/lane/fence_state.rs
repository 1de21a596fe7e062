//! How a lane's messages are sent, and when it is fenced.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::BootInstant;
use crate::limits::{LANE_FENCE_WAIT_MAX, LANE_FENCE_WAIT_MIN};
use crate::retry::{Exponential, RetryPolicy as _};
use crate::transport::FencedLane;

/// Waits before a lane is fenced again after a failed attempt, or after a fence under which nothing was delivered.
const FENCE_RETRY: Exponential = Exponential::new(LANE_FENCE_WAIT_MIN, LANE_FENCE_WAIT_MAX);

/// How messages are sent.
#[derive(Debug)]
pub(crate) enum FenceState {
    /// One row per key at a time. Late sends of an earlier owner may come in between.
    Plain,
    /// Nothing is sent until the lane is fenced. The next attempt is at `from`, after so many failed ones.
    Unfenced { from: BootInstant, tries: u32 },
    /// Several rows per key at a time.
    Fenced { by: Arc<dyn FencedLane>, tries: u32 },
}

impl FenceState {
    /// To be fenced.
    pub(crate) fn unfenced(now: BootInstant) -> Self {
        Self::Unfenced { from: now, tries: 0 }
    }

    /// The state in which a fenced lane is fenced again after a while; `None` for other lanes.
    pub(crate) fn retry(&self, now: BootInstant) -> Option<Self> {
        let (Self::Unfenced { tries, .. } | Self::Fenced { tries, .. }) = *self else { return None };
        let wait = if tries == 0 { Duration::ZERO } else { FENCE_RETRY.wait(tries) };
        Some(Self::Unfenced { from: now + wait, tries: tries.saturating_add(1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_that_is_fenced_in_vain_waits_for_longer_each_time_up_to_a_bound() {
        let now = BootInstant::from_boot(Duration::from_secs(9));
        let (mut fence_state, mut waits) = (FenceState::unfenced(now), Vec::new());
        for _ in 0..60 {
            fence_state = fence_state.retry(now).unwrap();
            let FenceState::Unfenced { from, .. } = &fence_state else { panic!("{fence_state:?}") };
            waits.push(now.until(*from));
        }
        // Half of each more or less, by jitter.
        let about = |wait: Duration, is: Duration| wait / 2 <= is && is <= wait * 3 / 2;
        assert_eq!(waits[0], Duration::ZERO, "at once");
        assert!(about(LANE_FENCE_WAIT_MIN, waits[1]) && about(LANE_FENCE_WAIT_MIN * 4, waits[3]), "{waits:?}");
        assert!(waits[10..].iter().all(|wait| about(LANE_FENCE_WAIT_MAX, *wait)), "{waits:?}");
    }
}
