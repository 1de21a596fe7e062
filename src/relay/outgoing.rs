//! The way out, common to all paths: rows are offered, and those that may be sent go to the transport in groups.

use std::sync::Arc;

use super::engine::Engine;
use super::entry::{Entry, Holder, Progress};
use super::ledger::Reservation;
use super::path::Path;
use super::topics::TopicState;
use crate::clock::BootInstant;
use crate::crash_points::crash_point;
use crate::guarded::guarded;
use crate::limits::SEND_GROUP_ROWS_MAX;
use crate::message::Envelope;
use crate::metrics;
use crate::planted::{Mistake, planted};
use crate::store::{Row, RowKey};
use crate::transport::{FencedLane, FencedMessage, Outcome, Receipt, ReceiptSink, Run};

/// A row to send, with everything that decides whether it may be.
#[derive(Debug)]
pub(crate) struct Offer<'a> {
    pub(crate) row: Row,
    pub(crate) topic: &'a Arc<TopicState>,
    pub(crate) holder: Holder,
    pub(crate) way: Way,
    pub(crate) term_ends_at: BootInstant,
    pub(crate) path: Path,
    pub(crate) committed_at: Option<BootInstant>,
    pub(crate) alone: bool,
    /// Whether it failed or was held before, so that an earlier copy may have been stored.
    pub(crate) again: bool,
}

/// How a row leaves.
#[derive(Debug)]
pub(crate) enum Way {
    Plain,
    /// Through its fenced lane, as one of these.
    Fenced(Arc<dyn FencedLane>, Run),
}

/// What became of an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offered {
    Sent,
    /// Its term is over: another holder may have it.
    Late,
    /// This process knows the row already.
    Known(Progress),
}

/// Rows on their way to the transport, a group at a time.
///
/// One by one, with the books of each in between, the client would send the first of a group alone and the rest in small
/// requests. What is in it when it is dropped, by a panic, is reported as a temporary failure.
#[must_use = "the last group goes with `send`"]
pub(crate) struct Outgoing<'a> {
    engine: &'a Arc<Engine>,
    group: Vec<(Envelope, Receipt)>,
    fenced: Vec<(Arc<dyn FencedLane>, Vec<FencedMessage>)>,
    /// How many are in both.
    rows: usize,
    /// When the group was begun.
    begun_at: Option<BootInstant>,
}

impl<'a> Outgoing<'a> {
    pub(crate) fn new(engine: &'a Arc<Engine>) -> Self {
        Self { engine, group: Vec::new(), fenced: Vec::new(), rows: 0, begun_at: None }
    }

    /// Takes a row to be sent, if its term still runs and the row is not known here.
    pub(crate) fn offer(&mut self, offer: Offer<'_>, room: &mut Reservation) -> Offered {
        let engine = self.engine;
        let Offer { row, topic, holder, way, term_ends_at, path, committed_at, alone, again } = offer;
        // Checked here, a group before the client has it, and not when the row was read; by the clock once for the group.
        let now = *self.begun_at.get_or_insert_with(|| engine.clock.now());
        if now >= term_ends_at {
            ::metrics::counter!(metrics::TERM_MISSED, "path" => path.as_str()).increment(1);
            return Offered::Late;
        }
        let batch = match &holder {
            Holder::Batch(batch) => Some(Arc::clone(batch)),
            Holder::Lease(_) | Holder::Lane(_) | Holder::Lost => None,
        };
        let entry = Entry {
            topic: Arc::clone(topic),
            holder,
            progress: Progress::InFlight,
            path,
            failures: row.failures,
            attempt: row.envelope.attempt,
            kind: engine.teller.has_listeners().then(|| row.envelope.kind.as_str().into()),
            bytes: row.envelope.size_bytes().max(1),
            committed_at,
            sent_at: now,
            overdue_since: None,
            alone: alone || engine.transport.sends_one_by_one(),
        };
        if let Err(known) = engine.ledger.enter(row.key, entry, room) {
            return Offered::Known(known);
        }
        // At once: dropped by a panic it reports that the row was not sent, and without it nobody would.
        let receipt = Receipt::new(row.key, Arc::clone(engine) as Arc<dyn ReceiptSink>);
        if let Some(batch) = batch {
            batch.expect();
        }
        if again {
            topic.meters.resent.increment(1);
        }
        topic.meters.sent(path).increment(1);
        self.push(way, row.envelope, receipt, now);
        Offered::Sent
    }

    fn push(&mut self, way: Way, envelope: Envelope, receipt: Receipt, now: BootInstant) {
        match way {
            Way::Plain => self.group.push((envelope, receipt)),
            Way::Fenced(by, run) => {
                let message = FencedMessage { envelope, receipt, run };
                match self.fenced.iter_mut().find(|(lane, _)| Arc::ptr_eq(lane, &by)) {
                    Some((_, messages)) => messages.push(message),
                    None => self.fenced.push((by, vec![message])),
                }
            }
        }
        self.rows += 1;
        if self.rows >= SEND_GROUP_ROWS_MAX || self.engine.caution.is_on(now) {
            self.send_group();
        }
    }

    /// Hands the last group over.
    pub(crate) fn send(mut self) {
        self.send_group();
    }

    /// Calls the transport. What it has not taken when it panics is dropped with its receipt, and so reported.
    fn hand_over(&self, send: impl FnOnce()) {
        if guarded("transport", &self.engine.name, send).is_none() {
            self.engine.caution.begin(self.engine.clock.now());
        }
    }

    fn send_group(&mut self) {
        self.begun_at = None;
        if std::mem::take(&mut self.rows) == 0 {
            return;
        }
        let (group, fenced) = (std::mem::take(&mut self.group), std::mem::take(&mut self.fenced));
        let too_early: Vec<RowKey> = match planted(Mistake::SettleOnSend) {
            true => group.iter().map(|(_, receipt)| receipt.row()).collect(),
            false => Vec::new(),
        };
        if !group.is_empty() {
            self.hand_over(|| self.engine.transport.send_all(group));
        }
        for (lane, messages) in fenced {
            self.hand_over(|| lane.send_all(messages));
        }
        too_early.into_iter().for_each(|row| self.engine.settle(row, Outcome::Delivered));
        crash_point!(SENT);
    }
}
