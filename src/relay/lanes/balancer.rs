//! The lane balancer: leases lanes, keeps shares fair, and hands lanes over.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::lane::fence_state::FenceState;
use super::lane::{Lane, validity};
use super::node_health::NodeHealth;
use super::topic::TopicLanes;
use crate::clock::BootInstant;
use crate::crash_points::crash_point;
use crate::events::log_event;
use crate::injected_bugs::{InjectedBug, is_injected};
use crate::metrics;
use crate::relay::engine::Engine;
use crate::relay::engine::stop::Stage;
use crate::repeated::{Repeated, warn_once_a_minute};
use crate::store::{LaneBalanceSpec, LaneState, LaneStore, LaneView, OwnedLane, StoreError};

/// Runs until every lane of the topic is handed over, or the relay ends.
pub(crate) async fn run(engine: Arc<Engine>, lanes: Arc<TopicLanes>) {
    let (mut renew_at, mut node_health, failures) = (engine.clock.now(), NodeHealth::default(), Repeated::default());
    loop {
        let balanced = tick(&engine, &lanes, &mut renew_at, &mut node_health).await;
        node_health.observe(&lanes, balanced.is_err(), engine.clock.now());
        if let Err(error) = &balanced {
            ::metrics::counter!(metrics::LANE_BALANCE_FAILED).increment(1);
            warn_once_a_minute!(LANES_NOT_BALANCED, failures, error, topic = %lanes.name());
        }
        let is_leaving = engine.stop.has_reached(Stage::Draining);
        // If the database cannot be reached and no lane is owned any more, nothing is left to do.
        if is_leaving && balanced.unwrap_or_else(|_| lanes.owned().is_empty()) {
            engine.lanes.note_released();
            return;
        }
        let pause = if is_leaving { engine.limits.extend_interval } else { engine.limits.poll_interval };
        tokio::select! {
            () = sleep(pause) => {}
            () = lanes.balancer_wakeup.notified() => {}
            () = engine.ledger.changed(|| engine.ledger.is_idle()), if is_leaving && !engine.ledger.is_idle() => {}
            () = engine.stop.reached(Stage::Draining), if !is_leaving => {}
            () = engine.stop.reached(Stage::Ending) => return,
        }
    }
}

/// Reads the state of the lanes and writes what has to change. Returns whether this node has left them all.
async fn tick(
    engine: &Engine,
    lanes: &TopicLanes,
    renew_at: &mut BootInstant,
    node_health: &mut NodeHealth,
) -> Result<bool, StoreError> {
    let store = engine.store.lanes();
    if !lanes.is_prepared() {
        store.prepare_lanes(&[lanes.count()]).await?;
        lanes.set_prepared();
    }
    drop_expired(engine, lanes);
    let view = store.read_lanes(&lanes.name()).await?;
    let is_leaving = engine.stop.has_reached(Stage::Draining);
    let joins = !is_leaving && is_awake(engine, lanes, &view, node_health);
    release_surplus(engine, lanes, &view, joins);
    let drained = drained(engine, lanes);
    if needs_update(engine, lanes, &view, &drained, joins, *renew_at) {
        let view = update_lanes(engine, store, lanes, drained, joins).await?;
        *renew_at = engine.clock.now() + engine.limits.lane_lease_duration / 3;
        lanes.set_view(view);
    } else {
        lanes.set_view(view);
    }
    record_gauges(lanes);
    Ok(is_leaving && lanes.owned().is_empty())
}

/// A node whose broker is down for too long, or whose database fails again and again, leaves its lanes to other nodes,
/// sleeps, and tries again. Not if there are no other nodes: then nobody would send, and nothing would recover sooner.
fn is_awake(engine: &Engine, lanes: &TopicLanes, view: &LaneView, node_health: &mut NodeHealth) -> bool {
    let now = engine.clock.now();
    let has_others = view.nodes.iter().any(|node| *node != engine.lanes.node);
    let is_down = node_health.is_down(engine, lanes, now);
    let asleep_until = match lanes.asleep_until() {
        Some(until) if now < until && (has_others || is_down) => Some(until),
        _ if (is_down || node_health.outages(now)) && has_others => {
            log_event!(LANES_LEFT_TO_OTHERS, topic = %lanes.name());
            node_health.forget();
            Some(now + engine.limits.lane_sleep_duration)
        }
        _ => None,
    };
    lanes.sleep_until(asleep_until);
    asleep_until.is_none()
}

/// Forgets the unsent rows of lanes whose lease expired: other nodes may own them.
fn drop_expired(engine: &Engine, lanes: &TopicLanes) {
    let now = engine.clock.now();
    lose(lanes, |lane| now >= lane.valid_until);
}

fn lose(lanes: &TopicLanes, is_lost: impl Fn(&Lane) -> bool) {
    let mut owned = lanes.owned();
    let before = owned.len();
    owned.retain(|_, lane| !is_lost(lane) || is_injected(InjectedBug::LaneNeverLost));
    let lost = before - owned.len();
    drop(owned);
    if lost > 0 {
        log_event!(LANES_LOST, topic = %lanes.name(), lanes = lost);
        lanes.topic.counter(metrics::LANE_LOST).increment(lost as u64);
    }
}

/// Stops sending from lanes beyond this node's share, the highest numbers first. Lanes within the share continue.
fn release_surplus(engine: &Engine, lanes: &TopicLanes, view: &LaneView, joins: bool) {
    let share = if joins { view.share_of(engine.lanes.node) } else { 0 };
    // This node is not counted yet, or no longer: it keeps what it owns until it is.
    let is_counted = !joins || view.nodes.contains(&engine.lanes.node);
    for (place, lane) in lanes.owned().values_mut().enumerate() {
        lane.is_releasing = is_counted && place >= share;
    }
    lanes.reader_wakeup.notify_one();
}

/// Lanes being released with nothing in flight or unsettled, also from earlier ownerships. A row that timed out may
/// still reach the broker, as a copy of a message that the next owner sends first of its key. That does not break the
/// order.
fn drained(engine: &Engine, lanes: &TopicLanes) -> Vec<OwnedLane> {
    let in_use: HashSet<u16> = engine.ledger.lanes_in_use(|row| row.lane_of(lanes));
    let (owned, fencing) = (lanes.owned(), lanes.fencing());
    let is_free = |lane: &Lane| {
        is_injected(InjectedBug::LaneLeftInFlight)
            || (!lane.has_in_flight() && !in_use.contains(&lane.ownership.held.lane))
    };
    let idle =
        owned.values().filter(|lane| lane.is_releasing && !fencing.contains(&lane.ownership.lane()) && is_free(lane));
    idle.map(|lane| lane.ownership.held).collect()
}

fn needs_update(
    engine: &Engine,
    lanes: &TopicLanes,
    view: &LaneView,
    drained: &[OwnedLane],
    joins: bool,
    renew_at: BootInstant,
) -> bool {
    let node = engine.lanes.node;
    let is_counted = view.nodes.contains(&node);
    let owned = lanes.owned().len();
    let can_take = view.lanes.iter().any(|lane| match lane.owner {
        Some(owner) => lane.expires_in.is_zero() || (owner == node && !lanes.owned().contains_key(&lane.lane)),
        None => true,
    });
    let wants = joins && owned < view.share_of(node) && can_take;
    let is_due = engine.clock.now() >= renew_at && (joins || owned > 0);
    is_due || !drained.is_empty() || wants || joins != is_counted
}

async fn update_lanes(
    engine: &Engine,
    store: &dyn LaneStore,
    lanes: &TopicLanes,
    release: Vec<OwnedLane>,
    joins: bool,
) -> Result<LaneView, StoreError> {
    let limits = &engine.limits;
    let held: Vec<OwnedLane> = lanes.owned().values().map(|lane| lane.ownership.held).collect();
    let keep = LaneBalanceSpec {
        topic: lanes.name(),
        node: engine.lanes.node,
        renew: held.into_iter().filter(|held| !release.contains(held)).collect(),
        release,
        joins,
        lease_duration: limits.lane_lease_duration,
        // The broker refuses late sends of a fenced lane, so nobody has to wait for them.
        quiet_duration: match lanes.topic.config.is_fenced() {
            true => Duration::ZERO,
            false => engine.transport.delivery_timeout() + limits.lease_margin_duration,
        },
    };
    // Before the database releases them: if its answer is lost, this node must not go on sending.
    lanes.owned().retain(|_, lane| !keep.release.contains(&lane.ownership.held));
    let began_at = engine.clock.now();
    let is_handing_over = !keep.release.is_empty();
    if is_handing_over {
        crash_point!(LANE_RELEASING);
    }
    let view = store.balance_lanes(&keep).await?;
    if is_handing_over {
        crash_point!(LANE_RELEASED);
    } else {
        crash_point!(LANE_RENEWED);
    }
    reconcile(engine, lanes, &view, began_at);
    Ok(view)
}

/// Updates what this process believes to own to what the database says.
fn reconcile(engine: &Engine, lanes: &TopicLanes, view: &LaneView, began_at: BootInstant) {
    let limits = &engine.limits;
    let valid_until = |of: &LaneState| match is_injected(InjectedBug::LaneNeverLost) {
        true => began_at + 1_000 * limits.lane_lease_duration,
        // As in the database: a lease that was not renewed keeps the rest of its time.
        false => validity(began_at, of.expires_in.min(limits.lane_lease_duration), limits.lease_margin_duration),
    };
    let (now, is_fenced) = (engine.clock.now(), lanes.topic.config.is_fenced());
    let ours = |lane: u16| view.lanes.iter().find(|of| of.lane == lane && of.owner == Some(engine.lanes.node));
    lose(lanes, |lane| ours(lane.ownership.held.lane).is_none_or(|of| of.fence != lane.ownership.held.fence));
    let mut owned = lanes.owned();
    for of in view.lanes.iter().filter(|of| of.owner == Some(engine.lanes.node)) {
        let held = OwnedLane { lane: of.lane, fence: of.fence };
        let lane = owned.entry(of.lane).or_insert_with(|| {
            log_event!(LANE_TAKEN_OVER, topic = %lanes.name(), lane = of.lane, fence = of.fence, quiet = ?of.quiet_for);
            let fence_state = if is_fenced { lanes.fence_state_for(of.lane, now) } else { FenceState::Plain };
            Lane::new(held, fence_state, valid_until(of), now + of.quiet_for, now)
        });
        lane.valid_until = valid_until(of);
    }
    drop(owned);
    lanes.reader_wakeup.notify_one();
    lanes.fencer_wakeup.notify_one();
}

fn record_gauges(lanes: &TopicLanes) {
    lanes.note_oldest();
    let owned = lanes.owned();
    lanes.topic.gauge(metrics::LANES).set(f64::from(lanes.count().lanes));
    lanes.topic.gauge(metrics::LANES_OWNED).set(owned.len() as f64);
    lanes.topic.gauge(metrics::LANES_ASLEEP).set(f64::from(u8::from(lanes.asleep_until().is_some())));
    let blocked: usize = owned.values().map(Lane::blocked_keys).sum();
    lanes.topic.gauge(metrics::BLOCKED_KEYS).set(blocked as f64);
}
