//! Whether a node is fit to own lanes, or should leave them to others for a while.

use std::collections::VecDeque;

use super::lane::fence_state::FenceState;
use super::topic::TopicLanes;
use crate::clock::BootInstant;
use crate::limits::{LANE_FENCE_TRIES_MAX, LANE_OUTAGE_WINDOW, LANE_OUTAGES_MAX};
use crate::relay::engine::Engine;
use crate::relay::health::breaker::BreakerState;

/// What the lane balancer of a topic has observed of its node.
#[derive(Debug, Default)]
pub(crate) struct NodeHealth {
    was_failing: bool,
    /// When the last database outages began.
    outages: VecDeque<BootInstant>,
    /// Since when fencing some lane has failed again and again.
    unfenced_since: Option<BootInstant>,
}

impl NodeHealth {
    /// Observes the current state. `has_failed` says whether the lane balancer itself failed.
    pub(crate) fn observe(&mut self, lanes: &TopicLanes, has_failed: bool, now: BootInstant) {
        let fails_repeatedly =
            |state: &FenceState| matches!(state, FenceState::Unfenced { tries, .. } if *tries >= LANE_FENCE_TRIES_MAX);
        let is_unfenced = lanes.owned().values().any(|lane| fails_repeatedly(&lane.fence_state));
        self.note(has_failed || lanes.failing_since().is_some(), is_unfenced, now);
    }

    fn note(&mut self, is_failing: bool, is_unfenced: bool, now: BootInstant) {
        if is_failing && !self.was_failing {
            self.outages.push_back(now);
            let over = self.outages.len().saturating_sub(LANE_OUTAGES_MAX);
            self.outages.drain(..over);
        }
        self.was_failing = is_failing;
        self.unfenced_since = is_unfenced.then(|| self.unfenced_since.unwrap_or(now));
    }

    /// Whether this node has been unable to work for too long: its broker is down, or its requests to broker or
    /// database keep failing.
    pub(crate) fn is_down(&self, engine: &Engine, lanes: &TopicLanes, now: BootInstant) -> bool {
        let down_since = match engine.breaker.state() {
            BreakerState::Open { since, .. } => Some(since),
            _ => None,
        };
        let unhealthy_since = down_since.into_iter().chain(lanes.failing_since()).chain(self.unfenced_since).min();
        unhealthy_since.is_some_and(|since| since.until(now) >= engine.limits.lane_yield_duration)
    }

    /// Whether its database failed again and again, with recoveries in between.
    pub(crate) fn outages(&self, now: BootInstant) -> bool {
        let first = self.outages.front().filter(|_| self.outages.len() == LANE_OUTAGES_MAX);
        first.is_some_and(|first| first.until(now) < LANE_OUTAGE_WINDOW)
    }

    /// Forgets the past when a sleep begins or ends: it is no reason for another sleep.
    pub(crate) fn forget(&mut self) {
        self.outages.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::relay::lanes::topic::tests::lanes_of;

    fn at(seconds: u64) -> BootInstant {
        BootInstant::from_boot(Duration::from_secs(seconds))
    }

    /// Observes once a second, with a failure where `is_failing` says so. Returns when the node was first unfit.
    fn unhealthy_at(is_failing: impl Fn(u64) -> bool) -> Option<u64> {
        let mut node_health = NodeHealth::default();
        (0..600).find(|second| {
            node_health.note(is_failing(*second), false, at(*second));
            node_health.outages(at(*second))
        })
    }

    #[test]
    fn a_database_that_fails_again_and_again_makes_the_node_unhealthy() {
        assert_eq!(unhealthy_at(|second| second % 2 == 0), Some(4), "every other observation fails");
        assert_eq!(unhealthy_at(|second| second % 20 == 0), Some(40));
        assert_eq!(unhealthy_at(|second| second % 20 < 19), Some(40), "one good observation is no recovery");
    }

    #[test]
    fn a_database_that_fails_now_and_then_does_not() {
        assert_eq!(unhealthy_at(|second| second % 31 == 0), None);
        assert_eq!(
            unhealthy_at(|second| (100..400).contains(&second)),
            None,
            "one long outage is no reason to sleep after it"
        );
    }

    #[test]
    fn failures_before_a_sleep_are_forgotten() {
        let mut node_health = NodeHealth::default();
        for second in 0..6 {
            node_health.note(second % 2 == 0, false, at(second));
        }
        assert!(node_health.outages(at(6)));
        node_health.forget();
        node_health.note(true, false, at(7));
        assert!(!node_health.outages(at(7)));
    }

    /// The first time may be an election.
    #[test]
    fn a_lane_that_is_fenced_in_vain_again_and_again_is_a_failure_of_the_broker() {
        let (lanes, mut node_health) = (lanes_of(1), NodeHealth::default());
        for tries in 0..=LANE_FENCE_TRIES_MAX + 1 {
            let fence_state = FenceState::Unfenced { from: at(1), tries };
            lanes.owned().get_mut(&0).unwrap().fence_state = fence_state;
            node_health.observe(&lanes, false, at(1));
            assert_eq!(node_health.unfenced_since.is_some(), tries >= LANE_FENCE_TRIES_MAX, "{tries}");
        }
    }

    #[test]
    fn a_lane_that_is_fenced_in_the_end_no_longer_counts_as_a_failure() {
        let mut node_health = NodeHealth::default();
        node_health.note(false, true, at(1));
        node_health.note(false, true, at(5));
        assert_eq!(node_health.unfenced_since, Some(at(1)));
        node_health.note(false, false, at(6));
        assert_eq!(node_health.unfenced_since, None);
    }
}
