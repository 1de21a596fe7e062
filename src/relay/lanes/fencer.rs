//! The fencer of one fenced topic: makes the broker refuse what earlier owners of this node's lanes still send.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::topic::TopicLanes;
use crate::limits::{LANE_FENCE_WAIT_MIN, LANE_FENCES_AT_ONCE_MAX};
use crate::metrics;
use crate::relay::breaker::BreakerState;
use crate::relay::engine::Engine;
use crate::relay::stop::Stage;
use crate::store::HeldLane;
use crate::transport::{FailureClass, FencedLane, LaneName, TransportError};

type Fenced = (HeldLane, Result<Arc<dyn FencedLane>, TransportError>);

/// Runs until the relay drains.
pub(crate) async fn run(engine: Arc<Engine>, lanes: Arc<TopicLanes>) {
    let (mut asked, mut fencing) = (HashSet::new(), JoinSet::new());
    while !engine.stop.has_reached(Stage::Draining) {
        let told = lanes.fence.notified();
        ask(&engine, &lanes, &mut asked, &mut fencing);
        tokio::select! {
            Some(fenced) = fencing.join_next() => match fenced {
                Ok((held, fenced)) => {
                    asked.remove(&held);
                    book(&engine, &lanes, held, fenced);
                }
                // It panicked: its lane is asked for again, with all the others.
                Err(_) => {
                    fencing.abort_all();
                    asked.clear();
                }
            },
            () = told => {}
            () = sleep(pause(&engine, &lanes)) => {}
            () = engine.stop.reached(Stage::Draining) => {}
        }
    }
}

/// A lane that waits for its next try is looked at soon, and otherwise somebody tells.
fn pause(engine: &Engine, lanes: &TopicLanes) -> Duration {
    if lanes.has_unfenced() { LANE_FENCE_WAIT_MIN } else { engine.limits.poll_interval }
}

fn ask(engine: &Arc<Engine>, lanes: &TopicLanes, asked: &mut HashSet<HeldLane>, fencing: &mut JoinSet<Fenced>) {
    let now = engine.clock.now();
    let is_down = matches!(engine.breaker.state(), BreakerState::Open { .. });
    if is_down || !lanes.topic.may_begin(now) {
        return;
    }
    // Begun while the lane is ours: later, it would fence the next owner.
    for held in lanes.to_fence(now) {
        if fencing.len() >= LANE_FENCES_AT_ONCE_MAX || !asked.insert(held) {
            continue;
        }
        let transport = Arc::clone(&engine.transport);
        let name = LaneName { outbox: Arc::clone(&engine.outbox), topic: lanes.name(), lane: held.lane };
        fencing.spawn(async move { (held, transport.fence(name).await) });
    }
}

fn book(engine: &Engine, lanes: &TopicLanes, held: HeldLane, fenced: Result<Arc<dyn FencedLane>, TransportError>) {
    let now = engine.clock.now();
    match fenced {
        Ok(by) => {
            ::metrics::counter!(metrics::LANE_FENCED, "topic" => lanes.name()).increment(1);
            lanes.with_lane(held, |lane| lane.fence(by));
        }
        Err(error) => {
            ::metrics::counter!(metrics::LANE_FENCE_FAILED, "topic" => lanes.name()).increment(1);
            tracing::warn!(%error, topic = %lanes.name(), lane = held.lane, "a lane could not be fenced: trying again");
            match error.class() {
                class if class.is_outage() => engine.breaker.open(class, now),
                FailureClass::Topic => lanes.topic.park(now + engine.limits.topic_park_duration, &error),
                _ => {}
            }
            lanes.with_lane(held, |lane| lane.unfence(now));
        }
    }
}
