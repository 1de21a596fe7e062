//! The fencer of one fenced topic: makes the broker refuse what earlier owners of this node's lanes still send.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::sleep;

use super::lane::ownership::LaneOwnership;
use super::topic::TopicLanes;
use crate::crash_points::crash_point;
use crate::limits::{LANE_FENCE_WAIT_MIN, LANE_FENCES_AT_ONCE_MAX};
use crate::metrics;
use crate::relay::engine::Engine;
use crate::relay::engine::stop::Stage;
use crate::relay::engine::store_call::store_call;
use crate::relay::health::breaker::BreakerState;
use crate::repeated::{Repeated, warn_once_a_minute};
use crate::store::{RowKey, RowRef, StoreError};
use crate::transport::{FailureClass, FencedLane, LaneName, OutboxRow, RowLookup, TransportError, row_of};

type Fenced = Result<Arc<dyn FencedLane>, TransportError>;

/// Fence requests to the broker.
struct PendingFences {
    engine: Arc<Engine>,
    lanes: Arc<TopicLanes>,
    fencing: JoinSet<Fenced>,
    ownerships: HashMap<Id, LaneOwnership>,
    failures: Repeated,
}

/// Runs until the relay drains and the running fence requests have ended.
pub(crate) async fn run(engine: Arc<Engine>, lanes: Arc<TopicLanes>) {
    // After a panic, nobody waits for the old requests any more.
    lanes.forget_fencing(engine.clock.now());
    let (fencing, ownerships, failures) = (JoinSet::new(), HashMap::new(), Repeated::default());
    let mut pending = PendingFences { engine, lanes, fencing, ownerships, failures };
    let (engine, lanes) = (Arc::clone(&pending.engine), Arc::clone(&pending.lanes));
    while !engine.stop.has_reached(Stage::Draining) {
        let notified = lanes.fencer_wakeup.notified();
        pending.begin();
        tokio::select! {
            Some(fenced) = pending.fencing.join_next_with_id() => pending.finish(fenced),
            () = notified => {}
            () = sleep(pause(&engine, &lanes)) => {}
            () = engine.stop.reached(Stage::Draining) => {}
        }
    }
    while !pending.ownerships.is_empty() {
        tokio::select! {
            Some(fenced) = pending.fencing.join_next_with_id() => pending.finish(fenced),
            () = engine.stop.reached(Stage::Ending) => return,
        }
        lanes.balancer_wakeup.notify_one();
    }
}

/// A lane that waits for its next try is checked soon; otherwise a wake-up comes.
fn pause(engine: &Engine, lanes: &TopicLanes) -> Duration {
    if lanes.has_unfenced() { LANE_FENCE_WAIT_MIN } else { engine.limits.poll_interval }
}

/// Tells a transport which of the rows it delivered are still in the table.
fn look_up(engine: &Arc<Engine>) -> RowLookup {
    let engine = Arc::clone(engine);
    RowLookup::of_rows(move |rows| {
        let engine = Arc::clone(&engine);
        let rows: Vec<RowKey> = rows.into_iter().map(row_of).collect();
        Box::pin(async move {
            existing(&engine, rows).await.map_err(|error| TransportError::new(FailureClass::Temporary, error))
        })
    })
}

async fn existing(engine: &Engine, rows: Vec<RowKey>) -> Result<Vec<OutboxRow>, StoreError> {
    // Taken first: this process may settle them before the answer, and nobody would say so of a new handle.
    let handle = |row: &RowKey| Some((*row, engine.ledger.lane(*row)?.0.row?));
    let mut known: HashMap<RowKey, OutboxRow> = rows.iter().filter_map(handle).collect();
    let refs: Vec<RowRef> = rows.into_iter().map(RowRef::from).collect();
    let found = store_call("remaining", engine.store.remaining(&refs)).await?;
    // A row that is gone must not come back by a crash of the database.
    store_call("flush_settled", engine.store.flush_settled()).await?;
    Ok(found.into_iter().map(|row| known.remove(&row).unwrap_or_else(|| OutboxRow::new(row))).collect())
}

impl PendingFences {
    fn begin(&mut self) {
        let (engine, lanes) = (&self.engine, &self.lanes);
        let now = engine.clock.now();
        let is_down = matches!(engine.breaker.state(), BreakerState::Open { .. });
        if is_down || !lanes.topic.may_begin(now) {
            return;
        }
        // Started while the lane is ours. Later, it would fence the next owner.
        let room = LANE_FENCES_AT_ONCE_MAX.saturating_sub(self.ownerships.len());
        for ownership in lanes.to_fence(room, now) {
            let transport = Arc::clone(&engine.transport);
            let name = LaneName { outbox: Arc::clone(&engine.outbox), topic: lanes.name(), lane: ownership.lane() };
            let rows = lanes.topic.config.is_exactly_once().then(|| look_up(engine));
            let task = self.fencing.spawn(async move {
                match rows {
                    Some(rows) => transport.fence_exactly_once(name, rows).await,
                    None => transport.fence(name).await,
                }
            });
            self.ownerships.insert(task.id(), ownership);
        }
    }

    fn finish(&mut self, fenced: Result<(Id, Fenced), JoinError>) {
        let id = fenced.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some(ownership) = self.ownerships.remove(&id) else { return };
        self.lanes.note_fence_ended(ownership);
        match fenced {
            Ok((_, fenced)) => self.apply(ownership, fenced),
            Err(_panicked) => self.lanes.with_lane(ownership, |lane| lane.unfence(self.engine.clock.now())),
        }
    }

    fn apply(&self, ownership: LaneOwnership, fenced: Fenced) {
        let (engine, lanes) = (&self.engine, &self.lanes);
        let now = engine.clock.now();
        match fenced {
            Ok(by) => {
                crash_point!(LANE_FENCED);
                lanes.topic.counter(metrics::LANE_FENCE_ACQUIRED).increment(1);
                lanes.with_lane(ownership, |lane| lane.fence(by));
            }
            Err(error) => {
                lanes.topic.counter(metrics::LANE_FENCE_FAILED).increment(1);
                let (topic, lane) = (lanes.name(), ownership.lane());
                warn_once_a_minute!(LANE_NOT_FENCED, self.failures, error, %topic, lane);
                match error.class() {
                    class if class.is_outage() => engine.breaker.open(class, &error, now),
                    FailureClass::Topic => lanes.topic.back_off(now + engine.limits.topic_back_off_duration, &error),
                    _ => {}
                }
                lanes.with_lane(ownership, |lane| lane.unfence(now));
            }
        }
    }
}
