//! Scenarios that drive each counter of ordered topics, with its labels.

use std::time::Duration;

use super::Relay;
use super::counted::{conflict, counted};
use super::lanes::{TOPIC, world, world_with};
use crate::lane::lane_of;
use crate::limits::LANES;
use crate::metrics;
use crate::relay::TransportStatus;
use crate::store::{Call, Fault};
use crate::topic::{OnFailedKey, Topic};
use crate::transport::{FailureClass, LaneName, ScriptedResponse, Transport as _};

/// How many lanes a relay considers its own.
fn held(relay: &Relay) -> usize {
    relay.engines.lanes_of(TOPIC).map_or(0, |lanes| lanes.owned().len())
}

/// A node that cannot reach its database.
#[test]
fn lanes_whose_leases_end_unrenewed_are_counted_as_lost() {
    let counts = counted(async || {
        let world = world();
        let relay = world.start().await;
        world.until("every lane is owned", || held(&relay) == usize::from(LANES)).await;
        world.store.set_down(true);
        world.until("none is", || held(&relay) == 0).await;
        world.store.set_down(false);
        world.commit_keyed("a");
        world.drained().await;
    });
    assert_eq!(counts.of(metrics::LANE_LOST), [("topic=payments transport=default", u64::from(LANES))]);
}

#[test]
fn lanes_that_could_not_be_read_or_taken_are_counted_once_each_time() {
    let counts = counted(async || {
        let world = world();
        world.store.inject(Call::ReadLanes, conflict());
        world.store.inject(Call::BalanceLanes, conflict());
        let relay = world.start().await;
        world.until("every lane is owned", || held(&relay) == usize::from(LANES)).await;
    });
    assert_eq!(counts.of(metrics::LANE_BALANCE_FAILED), [("", 2)]);
    assert!(counts.of(metrics::LANE_LOST).is_empty());
}

#[test]
fn reads_of_lanes_and_of_their_rows_that_failed_are_counted() {
    let counts = counted(async || {
        let world = world();
        world.store.inject(Call::LaneEntries, conflict());
        world.store.inject(Call::LaneRows, conflict());
        world.commit_keyed("a");
        let _relay = world.start().await;
        world.drained().await;
        assert_eq!(world.broker.sends(), 1);
    });
    assert_eq!(counts.of(metrics::LANE_READ_FAILED), [("", 2)]);
}

/// During the read the lane is renewed, so it is not lost.
#[test]
fn a_row_of_a_lane_that_was_read_too_late_misses_its_term() {
    let counts = counted(async || {
        let mut world = world();
        world.limits.lane_lease_duration = Duration::from_secs(3);
        world.store.inject(Call::LaneRows, Fault::Slow(world.limits.lane_lease_duration));
        world.commit_keyed("a");
        let _relay = world.start().await;
        world.drained().await;
        assert_eq!(world.broker.sends(), 1);
    });
    assert_eq!(counts.of(metrics::LEASE_EXPIRED), [("path=lane", 1)]);
    assert!(counts.of(metrics::LANE_LOST).is_empty());
}

#[test]
fn a_failure_that_cannot_be_noted_in_its_lane_is_a_lost_lease() {
    let counts = counted(async || {
        let world = world();
        world.broker.respond_next(1, ScriptedResponse::Fail(FailureClass::Record));
        world.store.inject(Call::FailInLanes, conflict());
        world.commit_keyed("a");
        let _relay = world.start().await;
        world.drained().await;
        assert_eq!(world.broker.sends(), 2);
    });
    assert_eq!(counts.of(metrics::LEASE_LOST), [("", 1)]);
}

#[test]
fn an_ordered_message_whose_acknowledgement_was_lost_is_counted_as_sent_again() {
    let counts = counted(async || {
        let world = world();
        world.broker.respond_next(1, ScriptedResponse::StoreThenFail(FailureClass::Temporary));
        for _ in 0..2 {
            world.commit_keyed("a");
        }
        let _relay = world.start().await;
        world.drained().await;
        assert_eq!(world.broker.delivered().len(), 3);
    });
    assert_eq!(counts.of(metrics::RETRIED), [("topic=payments transport=default", 1)]);
}

#[test]
fn dead_lettered_ordered_messages_are_counted_by_topic_and_reason() {
    let counts = counted(async || {
        let world = world_with(Topic::new(TOPIC).ordered_by_key().on_failed_key(OnFailedKey::DeadLetter));
        for (key, class) in [("refused", FailureClass::RecordRefused), ("failing", FailureClass::Record)] {
            world.commit_keyed(key);
            world.broker.respond_when(ScriptedResponse::Fail(class), move |sent| sent.key.as_deref() == Some(key));
        }
        let poisoned = world.commit_keyed("poisoned");
        assert!(world.store.poison(poisoned));
        let _relay = world.start().await;
        world.drained().await;
        assert_eq!(world.store.dead_letter_rows().len(), 3);
    });
    let expected =
        ["attempts", "poisoned", "refused"].map(|reason| format!("reason={reason} topic=payments transport=default"));
    let expected: Vec<_> = expected.iter().map(|labels| (labels.as_str(), 1)).collect();
    assert_eq!(counts.of(metrics::DEAD_LETTERED), expected);
}

#[test]
fn lanes_that_could_not_be_fenced_are_counted_and_those_that_were() {
    let counts = counted(async || {
        let world = world_with(Topic::new(TOPIC).ordered_by_key().fenced().lanes(4));
        let relay = world.start().await;
        // Nothing has run yet: nobody knows of the outage before all four lanes are to be fenced at once.
        world.broker.go_down();
        world.until("it is noticed", || relay.status().transport != TransportStatus::Up).await;
        world.broker.go_up();
        let is_fenced = || relay.engines.lanes_of(TOPIC).is_some_and(|lanes| !lanes.has_unfenced());
        world.until("each is fenced", || held(&relay) == 4 && is_fenced()).await;
    });
    assert_eq!(counts.of(metrics::LANE_FENCE_FAILED), [("topic=payments transport=default", 4)]);
    assert_eq!(counts.of(metrics::LANE_FENCE_ACQUIRED), [("topic=payments transport=default", 4)]);
}

#[test]
fn a_lane_that_somebody_else_fenced_is_counted() {
    let counts = counted(async || {
        let world = world_with(Topic::new(TOPIC).ordered_by_key().fenced());
        let _relay = world.start().await;
        world.commit_keyed("a");
        world.drained().await;
        let lane = LaneName { outbox: "outbox_messages".into(), topic: TOPIC.into(), lane: lane_of("a", LANES) };
        world.broker.fence(lane).await.unwrap();
        world.commit_keyed("a");
        world.drained().await;
    });
    assert_eq!(counts.of(metrics::LANE_FENCE_LOST), [("topic=payments transport=default", 1)]);
}
