//! The checks before a relay starts: of its limits, tables and topics.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::routes::Route;
use super::start_error::StartError;
use crate::events::log_event;
use crate::limits::{
    CONFIRMS_AT_ONCE, CONNECTIONS_BESIDE_CLAIMS_MIN, CONNECTIONS_LEFT_FREE, LANE_CALLS_AT_ONCE, Limits, POLLS_AT_ONCE,
    PREPARE_TIMEOUT,
};
use crate::relay::dead_letter_callbacks::Callbacks;
use crate::relay::engine::Engine;
use crate::relay::engine::engines::Engines;
use crate::relay::pruner;
use crate::relay::sweep::orphaned_rows;
use crate::store::{Store, StoreError, StoreWarning, TooFewConnections};
use crate::transport::{FailureClass, TransportError};

/// Decides from the result of a check whether the relay may start.
pub(super) fn accept(found: Result<Vec<StoreWarning>, StoreError>) -> Result<(), StartError> {
    match found {
        Ok(warnings) => {
            for warning in warnings {
                log_event!(DATABASE_SETTING, problem = %warning);
            }
            Ok(())
        }
        Err(StoreError::Schema(problem)) => Err(StartError::Schema(problem)),
        // It may go away by itself, for example while a password is being changed. At a start that is rare.
        Err(error @ StoreError::Refused(_)) => Err(StartError::Refused(error)),
        Err(error) if error.is_retriable() => {
            log_event!(STARTED_WITHOUT_DATABASE, %error);
            Ok(())
        }
        Err(error) => Err(StartError::Store(error)),
    }
}

/// Refuses a pool that is so small that the relay would wait for itself, and tells the store how many connections the relay can use.
/// A pool between the two is allowed, because a pool's default size is often a multiple of the processors: statements then wait for
/// each other.
pub(super) fn reserve_connections(store: &dyn Store, limits: &Limits, routes: &[Route]) -> Result<(), StartError> {
    let claims = routes.len() * limits.claim_workers;
    let needed = claims + CONNECTIONS_BESIDE_CLAIMS_MIN + CONNECTIONS_LEFT_FREE;
    let short = routes.len() * (limits.settle_workers + CONFIRMS_AT_ONCE);
    let ordered = routes.iter().flat_map(|route| &route.topics).filter(|topic| topic.lane_count().is_some()).count();
    let most = POLLS_AT_ONCE + claims + short + ordered * LANE_CALLS_AT_ONCE;
    match store.reserve_connections(needed, most) {
        Ok(()) => Ok(()),
        Err(TooFewConnections { has, needs }) => Err(StartError::PoolTooSmall { has, needs }),
    }
}

/// Creates or compares the lanes of ordered topics, and checks that no other topic has rows in lanes. If the database does not
/// respond, the lane balancers and the poller do it later.
pub(in crate::relay) async fn prepare_lanes(engines: &Engines, has_database: bool) -> Result<(), StartError> {
    if has_database {
        refuse_orphaned_rows(engines).await?;
    }
    let lanes: Vec<_> = engines.all.iter().flat_map(|engine| engine.lanes.iter()).collect();
    if lanes.is_empty() || !has_database {
        return Ok(());
    }
    let counts: Vec<_> = lanes.iter().map(|lanes| lanes.count()).collect();
    let prepared = engines.store.lanes().prepare_lanes(&counts).await;
    if prepared.is_ok() {
        lanes.iter().for_each(|lanes| lanes.set_prepared());
    }
    accept(prepared.map(|()| Vec::new()))
}

/// Refuses topics that are no longer ordered and still have rows in lanes.
async fn refuse_orphaned_rows(engines: &Engines) -> Result<(), StartError> {
    let orphaned = orphaned_rows::find(engines).await;
    accept(
        orphaned
            .and_then(|orphaned| orphaned.into_iter().next().map_or(Ok(Vec::new()), |of| Err(StoreError::Schema(of)))),
    )
}

/// Checks the tables of the history and creates the first partitions. If the database does not respond, the pruner creates them
/// later.
pub(super) async fn prepare_history(engines: &Engines, has_database: bool) -> Result<(), StartError> {
    let (store, days) = (engines.store.history(), pruner::days(engines));
    if days.is_empty() || !has_database {
        return Ok(());
    }
    accept(store.check_history().await.map(|()| Vec::new()))?;
    if let Err(error) = store.ensure_partitions(&days).await {
        log_event!(PARTITIONS_NOT_CREATED, %error);
    }
    Ok(())
}

/// Creates or checks the topics of a transport. Returns `false` if the broker cannot be reached.
pub(in crate::relay) async fn prepare(engine: &Engine, route: &Route) -> Result<bool, StartError> {
    let prepared = timeout(PREPARE_TIMEOUT, engine.transport.prepare(&route.topics)).await;
    match prepared.unwrap_or_else(|_| Err(TransportError::new(FailureClass::Connection, PrepareTimeout))) {
        Ok(()) => Ok(true),
        Err(error) if error.class().is_outage() => {
            log_event!(STARTED_WITHOUT_BROKER, %error, transport = &*engine.name);
            engine.breaker.open(error.class(), &error, engine.clock.now());
            Ok(false)
        }
        Err(error) => Err(StartError::Transport { transport: Arc::clone(&engine.name), error }),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the topics were not created or checked within {PREPARE_TIMEOUT:?}")]
struct PrepareTimeout;

pub(super) fn check_delivery_timeout(limits: &Limits, route: &Route) -> Result<(), StartError> {
    let delivery_timeout = route.transport.delivery_timeout();
    let (margin, lease) = (limits.lease_margin_duration, limits.lease_duration);
    if delivery_timeout.saturating_add(margin) < lease {
        return Ok(());
    }
    Err(StartError::DeliveryTimeout { transport: Arc::clone(&route.name), delivery_timeout, margin, lease })
}

pub(super) fn check_fences(route: &Route) -> Result<(), StartError> {
    let (fences, once) = (route.transport.supports_fencing(), route.transport.supports_exactly_once());
    let transport = || Arc::clone(&route.name);
    for topic in &route.topics {
        if topic.is_fenced() && !fences {
            return Err(StartError::CannotFence { topic: topic.shared_name(), transport: transport() });
        }
        if topic.is_exactly_once() && !once {
            return Err(StartError::CannotSendOnce { topic: topic.shared_name(), transport: transport() });
        }
    }
    Ok(())
}

pub(super) fn check_limits(limits: &Limits, callbacks: &Callbacks) -> Result<(), StartError> {
    let counts = [
        ("claim_rows_max", limits.claim_rows_max),
        ("claim_bytes_max", limits.claim_bytes_max),
        ("claim_workers", limits.claim_workers),
        ("queue_rows_max", limits.queue_rows_max),
        ("confirm_rows_max", limits.confirm_rows_max),
        ("in_flight_max", limits.in_flight_max),
        ("in_flight_bytes_max", limits.in_flight_bytes_max),
        ("settle_rows_max", limits.settle_rows_max),
        ("settle_workers", limits.settle_workers),
        ("backlog_count_max", limits.backlog_count_max),
    ];
    let durations = [
        ("claim_window_duration", limits.claim_window_duration),
        ("claim_lease_duration", limits.claim_lease_duration),
        ("poll_interval", limits.poll_interval),
        ("extend_interval", limits.extend_interval),
        ("probe_interval_min", limits.probe_interval_min),
        ("lane_lease_duration", limits.lane_lease_duration),
        ("prune_interval", limits.prune_interval),
        (
            "window_duration of the dead letter alert",
            callbacks.alert.as_ref().map_or(Duration::MAX, |of| of.window_duration),
        ),
    ];
    let zero_count = counts.iter().find(|(_, count)| *count == 0).map(|(name, _)| *name);
    let zero_duration = durations.iter().find(|(_, duration)| duration.is_zero()).map(|(name, _)| *name);
    if let Some(name) = zero_count.or(zero_duration) {
        let problem = "is 0, so nothing would ever be done: give at least 1".into();
        return Err(StartError::Limit { name, problem });
    }
    check_order(limits)
}

/// Checks the durations that must be longer than others.
fn check_order(limits: &Limits) -> Result<(), StartError> {
    let rules = [
        (
            ("claim_lease_duration", limits.claim_lease_duration),
            ("claim_window_duration", limits.claim_window_duration),
            "the database would end a claim that waits for its outcomes, and the next claim would send the same messages",
        ),
        (
            ("lane_lease_duration", limits.lane_lease_duration),
            ("lease_margin_duration", limits.lease_margin_duration),
            "no lane would ever be owned for long enough to send from it",
        ),
    ];
    match rules.into_iter().find(|((_, longer), (_, shorter), _)| longer <= shorter) {
        Some(((name, longer), (than, shorter), why)) => {
            let problem =
                format!("is {longer:?} and must be longer than {than}, which is {shorter:?}: otherwise {why}");
            Err(StartError::Limit { name, problem: problem.into() })
        }
        None => Ok(()),
    }
}

/// A lease is extended when less than a third of it is left, so a check must fall into that third. The first lease of a row is as
/// long as the staleness of its topic.
pub(super) fn check_leases(limits: &Limits, route: &Route) -> Result<(), StartError> {
    let needed = limits.lease_margin_duration + limits.extend_interval * 3;
    let of_topics = route.topics.iter().map(|topic| (topic.name(), "staleness", topic.staleness_duration()));
    let mut leases = of_topics.chain([("", "lease_duration", limits.lease_duration)]);
    let Some((topic, what, lease)) = leases.find(|(_, _, lease)| *lease <= needed) else { return Ok(()) };
    let of = if topic.is_empty() { String::new() } else { format!(" of the topic {topic:?}") };
    let problem = format!(
        "is {:?}, and three times that plus lease_margin_duration ({:?}) must be below the {what}{of}, which is {lease:?}: \
         otherwise a lease ends before the relay checks whether to extend it",
        limits.extend_interval, limits.lease_margin_duration
    );
    Err(StartError::Limit { name: "extend_interval", problem: problem.into() })
}
