//! The last step of all paths: rows are offered, and those that may be sent go to the transport in batches.

use std::sync::Arc;

use super::Engine;
use super::rows::{Entry, Holder, Reservation};
use crate::clock::BootInstant;
use crate::crash_points::crash_point;
use crate::injected_bugs::{InjectedBug, is_injected};
use crate::limits::SEND_BATCH_ROWS_MAX;
use crate::message::Envelope;
use crate::metrics;
use crate::panic_guard::catch_panic;
use crate::relay::ledger::entry::Progress;
use crate::relay::path::Path;
use crate::relay::topics::TopicState;
use crate::store::{Row, RowKey};
use crate::transport::{FencedLane, FencedMessage, KeySequence, OutboxRow, Outcome, Receipt, ReceiptSink};

/// A row to send, with everything that decides whether it may be.
#[derive(Debug)]
pub(crate) struct Offer<'a> {
    pub(crate) row: Row,
    pub(crate) topic: &'a Arc<TopicState>,
    pub(crate) holder: Holder,
    pub(crate) send_mode: SendMode,
    pub(crate) lease_ends_at: BootInstant,
    pub(crate) path: Path,
    pub(crate) committed_at: Option<BootInstant>,
    pub(crate) alone: bool,
    /// Whether it failed or was leased before, so the broker may already have a copy.
    pub(crate) is_resend: bool,
}

/// How a row is sent.
#[derive(Debug)]
pub(crate) enum SendMode {
    Plain,
    /// Through its fenced lane, as part of this key sequence. The row is for exactly-once lanes.
    Fenced(Arc<dyn FencedLane>, KeySequence, Option<OutboxRow>),
}

/// The result of an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offered {
    Sent,
    /// Its lease is over: another holder may have it.
    Late,
    /// This process already has the row.
    Known(Progress),
}

/// Rows on their way to the transport, one batch at a time.
///
/// Sent one by one, with bookkeeping in between, the client would send the first row alone and the rest in small
/// requests. If this is dropped by a panic, its rows are reported as temporary failures.
#[must_use = "the last batch goes with `send`"]
pub(crate) struct Outgoing<'a> {
    engine: &'a Arc<Engine>,
    batch: Vec<(Envelope, Receipt)>,
    fenced: Vec<(Arc<dyn FencedLane>, Vec<FencedMessage>)>,
    /// How many rows both hold.
    rows: usize,
    /// When the batch was begun.
    begun_at: Option<BootInstant>,
}

impl<'a> Outgoing<'a> {
    pub(crate) fn new(engine: &'a Arc<Engine>) -> Self {
        Self { engine, batch: Vec::new(), fenced: Vec::new(), rows: 0, begun_at: None }
    }

    /// Takes a row to send, if its lease is still valid and this process does not already have it.
    pub(crate) fn offer(&mut self, offer: Offer<'_>, room: &mut Reservation) -> Offered {
        let engine = self.engine;
        let Offer { mut row, topic, holder, send_mode, lease_ends_at, path, committed_at, alone, is_resend } = offer;
        // Checked just before the batch goes to the client, not when the row was read. One clock read per batch.
        let now = *self.begun_at.get_or_insert_with(|| engine.clock.now());
        if now >= lease_ends_at {
            ::metrics::counter!(metrics::LEASE_EXPIRED, "path" => path.as_str()).increment(1);
            return Offered::Late;
        }
        let claim_outcomes = match &holder {
            Holder::Claim(claim_outcomes) => Some(Arc::clone(claim_outcomes)),
            Holder::Lease(_) | Holder::Lane(_) | Holder::Lost => None,
        };
        row.envelope.path = Some(path.as_str());
        row.envelope.lane = match &holder {
            Holder::Lane(row) => Some(row.ownership.lane()),
            Holder::Claim(_) | Holder::Lease(_) | Holder::Lost => None,
        };
        let entry = Entry {
            topic: Arc::clone(topic),
            holder,
            progress: Progress::InFlight,
            path,
            failures: row.failures,
            attempt: row.envelope.attempt,
            kind: engine.dead_letter_callbacks.has_callbacks().then(|| row.envelope.kind.as_str().into()),
            bytes: row.envelope.size_bytes().max(1),
            committed_at,
            waited: engine.database_clock.since(row.envelope.due_from(), now),
            sent_at: now,
            overdue_since: None,
            alone: alone || engine.transport.sends_individually(),
        };
        if let Err(known) = engine.ledger.enter(row.key, entry, room) {
            return Offered::Known(known);
        }
        // Made at once: if a panic drops it, it reports the row as not sent. Otherwise nobody would.
        let receipt = Receipt::of_row(row.key, Arc::clone(engine) as Arc<dyn ReceiptSink>);
        if let Some(claim_outcomes) = claim_outcomes {
            claim_outcomes.expect();
        }
        if !engine.fingerprints.check(&row.envelope) {
            topic.counters.fingerprint_unknown.increment(1);
        }
        if is_resend {
            topic.counters.resent.increment(1);
        }
        topic.counters.sent(path).increment(1);
        self.push(send_mode, row.envelope, receipt, now);
        Offered::Sent
    }

    fn push(&mut self, send_mode: SendMode, envelope: Envelope, receipt: Receipt, now: BootInstant) {
        match send_mode {
            SendMode::Plain => self.batch.push((envelope, receipt)),
            SendMode::Fenced(by, sequence, row) => {
                let message = FencedMessage { envelope, receipt, sequence, row };
                match self.fenced.iter_mut().find(|(lane, _)| Arc::ptr_eq(lane, &by)) {
                    Some((_, messages)) => messages.push(message),
                    None => self.fenced.push((by, vec![message])),
                }
            }
        }
        self.rows += 1;
        if self.rows >= SEND_BATCH_ROWS_MAX || self.engine.one_by_one.is_on(now) {
            self.send_batch();
        }
    }

    /// Hands over the last batch.
    pub(crate) fn send(mut self) {
        self.send_batch();
    }

    /// Calls the transport. If it panics, the rows it has not taken are dropped with their receipts, and so are
    /// reported.
    fn hand_over(&self, send: impl FnOnce()) {
        if catch_panic("transport", &self.engine.name, send).is_none() {
            self.engine.one_by_one.begin(self.engine.clock.now());
        }
    }

    fn send_batch(&mut self) {
        self.begun_at = None;
        if std::mem::take(&mut self.rows) == 0 {
            return;
        }
        let (batch, fenced) = (std::mem::take(&mut self.batch), std::mem::take(&mut self.fenced));
        let too_early: Vec<RowKey> = match is_injected(InjectedBug::SettleOnSend) {
            true => batch.iter().filter_map(|(_, receipt)| receipt.row()).collect(),
            false => Vec::new(),
        };
        if !batch.is_empty() {
            self.hand_over(|| self.engine.transport.send_all(batch));
        }
        for (lane, messages) in fenced {
            self.hand_over(|| lane.send_all(messages));
        }
        too_early.into_iter().for_each(|row| self.engine.complete(row, Outcome::Delivered));
        crash_point!(SENT);
    }
}
