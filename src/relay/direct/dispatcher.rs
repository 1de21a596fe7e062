//! The dispatcher: takes rows from the commit hook, makes sure that they were committed, and sends them at once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::time::{Instant, timeout};

use super::confirm_batching::ConfirmBatching;
use super::queue::{HandedOver, InlineRow, Queued, count_left_to_sweeper};
use super::run_queue::run_queue_wait;
use crate::clock::BootInstant;
use crate::crash_points::crash_point;
use crate::message::MessageId;
use crate::metrics;
use crate::relay::engine::Engine;
use crate::relay::engine::outgoing::{Offer, Offered, Outgoing, SendMode};
use crate::relay::engine::rows::{Holder, Reservation};
use crate::relay::engine::stop::Stage;
use crate::relay::engine::store_call::store_call;
use crate::relay::health::breaker::{Admission, BreakerState};
use crate::relay::ledger::entry::Lease;
use crate::relay::path::Path;
use crate::relay::settle::failures::{self, PendingDeadLetter, poisoned_dead_letter};
use crate::repeated::warn_once_a_minute;
use crate::store::{Confirmed, Loaded, Row, RowRef};

/// Runs until the relay ends. While the relay drains, it runs until the queue is empty.
pub(crate) async fn run(engine: Arc<Engine>) {
    let limits = &engine.limits;
    let mut batching = ConfirmBatching::new(limits.confirm_linger_max, Instant::now());
    while !engine.stop.has_reached(Stage::Draining) || engine.queue.len() > 0 {
        let arrived = async {
            engine.queue.wait_for_rows().await;
            if engine.queue.len() < limits.confirm_rows_max {
                batching.next().await;
            }
            engine.ledger.reserve(limits.confirm_rows_max, limits.claim_bytes_max).await
        };
        let draining = engine.stop.has_reached(Stage::Draining);
        let room = tokio::select! {
            room = arrived => room,
            () = engine.stop.reached(Stage::Draining), if !draining => continue,
            () = engine.stop.reached(Stage::Ending) => return,
        };
        let (taken, admission) = take(&engine, &room).await;
        let (took_at, arrived) = (Instant::now(), engine.queue.arrivals());
        admission.end(send(&engine, taken, room).await);
        // Measured after sending, because the measurement takes as long as to send one row.
        batching.note_batch(took_at, arrived, run_queue_wait);
    }
}

/// Takes the rows that may be sent. While the breaker is open, rows are dropped unread: their born leases expire, and
/// the sweeper takes them when the broker is back.
async fn take<'a>(engine: &'a Engine, room: &Reservation) -> (Vec<Queued>, Admission<'a>) {
    let admission = engine.breaker.admit(room.rows(), engine.clock.now());
    if admission.rows() > 0 {
        let mut taken = engine.queue.try_take(admission.rows(), room.bytes());
        drop_paused(engine, &mut taken);
        return (taken, admission);
    }
    if matches!(engine.breaker.state(), BreakerState::Open { .. }) {
        leave(engine, engine.queue.try_take(usize::MAX, usize::MAX), "outage");
    } else {
        // A trial is running: wait for its outcome or its time-out.
        let decided = engine.breaker.wait_for(|state| !matches!(state, BreakerState::Trial { .. }));
        let _ = timeout(engine.limits.probe_interval_max, decided).await;
    }
    (Vec::new(), admission)
}

/// Drops rows of paused topics unread, as in an outage.
fn drop_paused(engine: &Engine, taken: &mut Vec<Queued>) {
    if engine.topics.iter().any(|topic| topic.may_be_paused()) {
        let is_paused = |row: &mut Queued| engine.topics.get(&row.handed.topic).is_some_and(|of| of.may_be_paused());
        leave(engine, taken.extract_if(.., is_paused), "paused");
    }
}

/// Leaves rows to the sweepers.
fn leave(engine: &Engine, rows: impl IntoIterator<Item = Queued>, reason: &'static str) {
    let rows: Vec<_> = rows.into_iter().map(|row| (row.handed.topic, row.handed.row)).collect();
    count_left_to_sweeper(rows.len(), reason);
    engine.queue.deferred.add(rows);
}

/// Sends the taken rows. Returns whether any was sent.
async fn send(engine: &Arc<Engine>, mut taken: Vec<Queued>, mut room: Reservation) -> bool {
    if taken.is_empty() {
        return false;
    }
    // Rows behind one that has to be read wait for it. So rows leave in commit order, and within a transaction in
    // enqueue order.
    let at_once = taken.iter().take_while(|row| row.handed.inline.is_some()).count();
    let later = taken.split_off(at_once);
    let mut confirmed = HashMap::new();
    let mut sent = send_part(engine, taken, &mut confirmed, &mut room);
    if !later.is_empty() {
        let poisoned;
        (confirmed, poisoned) = confirm(engine, &later).await;
        sent += send_part(engine, later, &mut confirmed, &mut room);
        failures::dead_letter(engine, poisoned).await;
    }
    sent > 0
}

/// Rows that confirm read, by message id.
type Read = HashMap<MessageId, (Row, Lease)>;

/// Sends rows that are inline or were read. Returns how many.
fn send_part(engine: &Arc<Engine>, part: Vec<Queued>, confirmed: &mut Read, room: &mut Reservation) -> usize {
    let mut outgoing = Outgoing::new(engine);
    let mut sent = 0;
    for Queued { handed, committed_at } in part {
        let (row, lease, path) = match handed.inline {
            Some(inline) => {
                let InlineRow { row, inserted_at, .. } = *inline;
                let ends_at = inserted_at + handed.staleness - engine.limits.lease_margin_duration;
                let lease = Lease { epoch: row.epoch, began_at: inserted_at, ends_at };
                (row, lease, Path::Inline)
            }
            None => match confirmed.remove(&handed.row.message_id) {
                Some((row, lease)) => (row, lease, Path::Confirmed),
                None => continue,
            },
        };
        sent += usize::from(offer(engine, row, lease, path, committed_at, &mut outgoing, room));
    }
    outgoing.send();
    sent
}

/// Reads the rows of `queued` that are not inline. Returns undecodable rows separately.
#[tracing::instrument(name = "outbox.confirm", level = "debug", skip_all, fields(rows))]
async fn confirm(engine: &Engine, queued: &[Queued]) -> (Read, Vec<PendingDeadLetter>) {
    let unverified = || queued.iter().filter(|row| row.handed.inline.is_none()).map(|row| &row.handed);
    let refs: Vec<RowRef> = unverified().map(|handed| handed.row).collect();
    tracing::Span::current().record("rows", refs.len());
    let left = |handed: &HandedOver| (Arc::clone(&handed.topic), handed.row);
    let began_at = engine.clock.now();
    let confirmed = match store_call("confirm", engine.store.confirm(&refs)).await {
        Ok(confirmed) => confirmed,
        Err(error) => {
            warn_once_a_minute!(CONFIRM_FAILED, engine.failure_log.confirm, error, rows = refs.len());
            engine.queue.deferred.add(unverified().map(left));
            count_left_to_sweeper(refs.len(), "confirm_failed");
            return Default::default();
        }
    };
    crash_point!(CONFIRMED);
    ::metrics::histogram!(metrics::CONFIRM_ROWS).record(confirmed.len() as f64);
    ::metrics::counter!(metrics::CONFIRM_MISSED).increment(refs.len().saturating_sub(confirmed.len()) as u64);
    if confirmed.len() < refs.len() {
        // Usually rolled back. Or another process has them by now, or a replica that lags was read.
        let found: HashSet<_> = confirmed.iter().map(|confirmed| confirmed.row.key().message_id).collect();
        let missed = || unverified().filter(|handed| !found.contains(&handed.row.message_id));
        missed().for_each(|handed| engine.waiters.elsewhere(handed.row.message_id));
        engine.queue.deferred.add(missed().map(left));
    }
    let (mut read, mut poisoned) = (Read::with_capacity(confirmed.len()), Vec::new());
    for Confirmed { row, lease_left } in confirmed {
        match row {
            Loaded::Row(row) => {
                let ends_at = began_at + lease_left - engine.limits.lease_margin_duration;
                let lease = Lease { epoch: row.epoch, began_at, ends_at };
                read.insert(row.key.message_id, (row, lease));
            }
            Loaded::Poisoned(row) => poisoned.push(poisoned_dead_letter(&row)),
        }
    }
    (read, poisoned)
}

/// Offers one row. Returns whether it was sent. A row is left to the sweeper if its topic is refused or has a suspect
/// in flight.
fn offer(
    engine: &Arc<Engine>,
    row: Row,
    lease: Lease,
    path: Path,
    committed_at: BootInstant,
    outgoing: &mut Outgoing<'_>,
    room: &mut Reservation,
) -> bool {
    let left = (Arc::clone(&row.envelope.topic), RowRef::from(row.key));
    let leave = |reason| {
        count_left_to_sweeper(1, reason);
        engine.queue.deferred.add([left.clone()]);
        false
    };
    let Some(topic) = engine.topics.get(&row.envelope.topic).map(Arc::clone) else { return leave("unknown_topic") };
    if topic.is_gated() || topic.is_on_trial() {
        return leave("topic_waits");
    }
    if topic.may_be_paused() {
        return leave("paused");
    }
    let holder = Holder::Lease(lease);
    let offer = Offer {
        row,
        topic: &topic,
        holder,
        send_mode: SendMode::Plain,
        lease_ends_at: lease.ends_at,
        path,
        committed_at: Some(committed_at),
        alone: false,
        is_resend: false,
    };
    let offered = outgoing.offer(offer, room);
    if offered == Offered::Late {
        engine.queue.deferred.add([left]);
    }
    offered == Offered::Sent
}
