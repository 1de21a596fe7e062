//! One claim, from its rows to its close: sends the rows, collects outcomes, and leases what is still in flight.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::time::{Instant, timeout_at};

use crate::clock::BootInstant;
use crate::crash_points::crash_point;
use crate::injected_bugs::{InjectedBug, is_injected};
use crate::limits::SEND_BATCH_ROWS_MAX;
use crate::metrics;
use crate::relay::engine::Engine;
use crate::relay::engine::outgoing::{Offer, Offered, Outgoing, SendMode};
use crate::relay::engine::rows::{Holder, Reservation};
use crate::relay::engine::store_call::store_call;
use crate::relay::health::breaker::BreakerState;
use crate::relay::ledger::claim_outcomes::{ClaimOutcomes, Collected};
use crate::relay::ledger::entry::{Lease, Progress};
use crate::relay::path::Path;
use crate::relay::settle::failures::{self, PendingDeadLetter, poisoned_dead_letter};
use crate::relay::topics::{Gate, TopicState};
use crate::store::{ClaimHandle, ClaimMode, Closed, Held, Loaded, Row, RowKey, StoreError};
use crate::transport::{Outcome, TransportError};

pub(crate) struct ClaimRun<'a> {
    engine: &'a Arc<Engine>,
    topic: &'a Arc<TopicState>,
    mode: ClaimMode,
    lease_ends_at: BootInstant,
    outcomes: Arc<ClaimOutcomes>,
    /// Handed to the transport by this claim.
    sent: Vec<RowKey>,
    /// In flight since before this claim: leased together with its rows.
    in_flight: Vec<RowKey>,
    /// Not decodable: leased, then dead-lettered.
    poisoned: HashMap<RowKey, PendingDeadLetter>,
    suspects: Vec<Row>,
    /// How many rows were read too late to be sent.
    late: usize,
    is_closed: bool,
}

impl<'a> ClaimRun<'a> {
    pub(crate) fn new(
        engine: &'a Arc<Engine>,
        topic: &'a Arc<TopicState>,
        mode: ClaimMode,
        lease_ends_at: BootInstant,
    ) -> Self {
        Self {
            engine,
            topic,
            mode,
            lease_ends_at,
            outcomes: ClaimOutcomes::new(),
            sent: Vec::new(),
            in_flight: Vec::new(),
            poisoned: HashMap::new(),
            suspects: Vec::new(),
            late: 0,
            is_closed: false,
        }
    }

    pub(crate) fn sent(&self) -> usize {
        self.sent.len()
    }

    pub(crate) fn late(&self) -> usize {
        self.late
    }

    /// Whether the claim did nothing with its rows: none was sent, leased, dead-lettered or kept as a suspect. This
    /// process already had them, their lease was over, or nothing may be sent now.
    pub(crate) fn had_no_effect(&self) -> bool {
        self.sent.is_empty() && self.in_flight.is_empty() && self.poisoned.is_empty() && self.suspects.is_empty()
    }

    /// Sends the claimed rows, but keeps suspects for later.
    pub(crate) fn send(&mut self, rows: Vec<Loaded>, room: &mut Reservation) {
        let mut outgoing = Outgoing::new(self.engine);
        self.sent.reserve(rows.len());
        let mut may_send = false;
        for (number, row) in rows.into_iter().enumerate() {
            // Once per send batch, because each check takes two locks and a clock read.
            if number % SEND_BATCH_ROWS_MAX == 0 {
                may_send = self.may_send();
            }
            match row {
                Loaded::Poisoned(row) => drop(self.poisoned.insert(row.key, poisoned_dead_letter(&row))),
                Loaded::Row(row) if row.is_suspect => self.suspects.push(row),
                // For each row: whoever closed the gate waits until nothing is in flight, and then sends one row alone.
                Loaded::Row(row) if may_send && !self.topic.is_gated() => self.offer(row, false, &mut outgoing, room),
                // The close gives it back: no row of a claim needs an explicit release.
                Loaded::Row(_) => {}
            }
        }
        outgoing.send();
    }

    /// Somebody may have paused the topic while the claim waited for room, or the transport may have gone down.
    fn may_send(&self) -> bool {
        self.topic.may_begin(self.engine.clock.now())
            && !matches!(self.engine.breaker.state(), BreakerState::Open { .. })
    }

    fn offer(&mut self, row: Row, alone: bool, outgoing: &mut Outgoing<'_>, room: &mut Reservation) {
        let key = row.key;
        // On a store that leases, the claim itself raised the epoch once.
        let is_resend = row.failures > 0 || row.epoch > i32::from(self.mode == ClaimMode::Leased);
        let offer = Offer {
            row,
            topic: self.topic,
            holder: Holder::Claim(Arc::clone(&self.outcomes)),
            send_mode: SendMode::Plain,
            lease_ends_at: self.lease_ends_at,
            path: Path::Swept,
            committed_at: None,
            alone,
            is_resend,
        };
        match outgoing.offer(offer, room) {
            Offered::Sent => self.sent.push(key),
            Offered::Late => self.late += 1,
            Offered::Known(Progress::InFlight) => self.in_flight.push(key),
            // The settler has it, and waits for this claim's lock.
            Offered::Known(Progress::Delivered) => {}
            // Its failure is written (otherwise it would not be due), and its entry is about to go: leave it due. A new
            // lease would only block it until its end.
            Offered::Known(Progress::Failed) => {}
        }
    }

    /// Waits until everything sent has its outcome, at most until the end of the claim window.
    pub(crate) async fn wait(&self, deadline: Instant) {
        self.outcomes.wait(deadline).await;
    }

    /// Sends each suspect with nothing else of its topic in flight, so that a refusal is about that record. Suspects
    /// that do not fit into the claim window wait for the next claim.
    pub(crate) async fn send_suspects(&mut self, deadline: Instant, room: &mut Reservation) {
        let suspects = std::mem::take(&mut self.suspects);
        if suspects.is_empty() {
            return;
        }
        let gate = Gate::close(self.topic);
        let alone = match gate {
            Some(_) => timeout_at(deadline, self.topic.wait_until_idle()).await.is_ok(),
            None => false,
        };
        for row in suspects {
            if alone && self.topic.in_flight() == 0 && Instant::now() < deadline && self.may_send() {
                let mut outgoing = Outgoing::new(self.engine);
                self.offer(row, true, &mut outgoing, room);
                outgoing.send();
                self.wait(deadline).await;
            }
        }
    }

    /// Ends the claim: two writes and a COMMIT. Then the ledger is updated to match the database.
    pub(crate) async fn close(mut self, handle: Box<dyn ClaimHandle>) -> Result<(), StoreError> {
        let Collected { delivered, failed, busy, .. } = self.outcomes.take();
        for row in &busy {
            self.engine.ledger.remove(*row);
        }
        let (mut to_write, mut left) = (HashMap::new(), Vec::new());
        for (row, error) in failed {
            if failures::is_left_unwritten(error.class()) {
                left.push(row);
            } else {
                to_write.insert(row, error);
            }
        }
        let is_all_delivered =
            delivered.len() == self.sent.len() && self.in_flight.is_empty() && self.poisoned.is_empty();
        let held = if is_all_delivered { Vec::new() } else { self.rows_to_hold(&delivered, &left, &busy) };
        crash_point!(CLOSING);
        let began_at = self.engine.clock.now();
        let closed = store_call("close", handle.close(&delivered, &held)).await;
        crash_point!(CLOSED);
        for row in left {
            self.engine.ledger.remove(row);
        }
        let result = match closed {
            Ok(closed) => {
                self.after_close(closed, began_at, &delivered, &held, to_write).await;
                Ok(())
            }
            Err(error) => {
                self.after_failed_close(&delivered, &held, to_write);
                Err(error)
            }
        };
        self.forward_late_outcomes();
        self.is_closed = true;
        result
    }

    /// Rows that the client still has, failures to be written under the new epoch, and rows to dead-letter.
    fn rows_to_hold(&self, delivered: &[RowKey], left: &[RowKey], busy: &[RowKey]) -> Vec<RowKey> {
        let done: HashSet<&RowKey> = delivered.iter().chain(left).chain(busy).collect();
        let open = self.sent.iter().filter(|row| !done.contains(row)).chain(&self.in_flight);
        open.filter(|_| !is_injected(InjectedBug::ClaimGivesBack)).chain(self.poisoned.keys()).copied().collect()
    }

    async fn after_close(
        &mut self,
        closed: Closed,
        began_at: BootInstant,
        delivered: &[RowKey],
        held: &[RowKey],
        mut failed: HashMap<RowKey, TransportError>,
    ) {
        let engine = self.engine;
        engine.ledger.remove_all(&closed.settled);
        self.topic.kept(closed.settled.len());
        ::metrics::histogram!(metrics::SETTLE_ROWS).record(closed.settled.len() as f64);
        if closed.settled.len() < delivered.len() {
            let settled: HashSet<RowKey> = closed.settled.into_iter().collect();
            for row in delivered.iter().filter(|row| !settled.contains(row)) {
                engine.ledger.set_holder(*row, Holder::Lost);
                engine.outcome_queue.push(*row, Outcome::Delivered);
            }
        }
        let ends_at = began_at + engine.limits.lease_duration - engine.limits.lease_margin_duration;
        let leased: HashMap<RowKey, i32> = closed.held.iter().map(|held| (held.key, held.epoch)).collect();
        let mut dead = Vec::new();
        for row in held {
            let Some(&epoch) = leased.get(row) else {
                self.lose(*row, failed.remove(row).is_some());
                continue;
            };
            engine.ledger.set_holder(*row, Holder::Lease(Lease { epoch, began_at, ends_at }));
            if let Some(error) = failed.remove(row) {
                engine.outcome_queue.push(*row, Outcome::Failed(error));
            }
            dead.extend(self.poisoned.remove(row).map(|mut pending| {
                pending.dead.held = Held { key: *row, epoch };
                pending
            }));
        }
        failures::dead_letter(engine, dead).await;
    }

    /// Another holder has the row: only a success can still be settled.
    fn lose(&self, row: RowKey, failed: bool) {
        ::metrics::counter!(metrics::LEASE_LOST).increment(1);
        if failed {
            self.engine.ledger.remove(row);
        } else {
            self.engine.ledger.set_holder(row, Holder::Lost);
        }
    }

    /// Nothing is known of any row, except that acknowledged ones must not be sent again.
    fn after_failed_close(
        &mut self,
        delivered: &[RowKey],
        held: &[RowKey],
        mut failed: HashMap<RowKey, TransportError>,
    ) {
        for row in delivered {
            self.engine.ledger.set_holder(*row, Holder::Lost);
            self.engine.outcome_queue.push(*row, Outcome::Delivered);
        }
        for row in held {
            self.lose(*row, failed.remove(row).is_some());
        }
    }

    /// Forwards outcomes that came between the end of the window and the change of holder.
    fn forward_late_outcomes(&self) {
        let Collected { delivered, failed, busy, .. } = self.outcomes.close();
        self.engine.outcome_queue.extend(delivered.into_iter().map(|row| (row, Outcome::Delivered)));
        self.engine.outcome_queue.extend(failed.into_iter().map(|(row, error)| (row, Outcome::Failed(error))));
        self.engine.outcome_queue.extend(busy.into_iter().map(|row| (row, Outcome::Busy)));
    }
}

/// Cleans up a claim run that panicked. Its claim was dropped; rows that name it as their holder would stay in the
/// ledger forever and never be sent.
impl Drop for ClaimRun<'_> {
    fn drop(&mut self) {
        if self.is_closed {
            return;
        }
        // The ledger has every outcome until now, whether a close had taken it or not; later ones go to the outcome
        // queue. Use the ledger, not `sent`: the panic may have come before a row was noted there.
        self.outcomes.close();
        let ledger = &self.engine.ledger;
        for (row, progress) in ledger.rows_of_claim(&self.outcomes) {
            match progress {
                Progress::Failed => drop(ledger.remove(row)),
                Progress::InFlight => self.lose(row, false),
                Progress::Delivered => {
                    ledger.set_holder(row, Holder::Lost);
                    self.engine.outcome_queue.push(row, Outcome::Delivered);
                }
            }
        }
        for row in &self.in_flight {
            self.lose(*row, false);
        }
    }
}
