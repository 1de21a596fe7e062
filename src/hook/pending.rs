//! Rows whose transaction is still open, and their hand-over to the relay.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::crash_points::crash_point;
use crate::message::{Delivery, Envelope};
use crate::metrics;
use crate::receipts::Ticket;
use crate::relay::direct::queue::{HandedOver, Link};

/// A row that waits for the end of its transaction.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) row: HandedOver,
    /// The relay to hand it to. Each row has its own, because several outboxes may write through one connection.
    pub(crate) link: Option<Arc<Link>>,
    /// Where an application's test records it.
    pub(crate) record: Option<Box<RecordedMessage>>,
    /// Whether somebody waits for its delivery.
    pub(crate) ticket: Option<Ticket>,
}

/// A message recorded for an application's test.
#[derive(Debug)]
pub(crate) struct RecordedMessage {
    pub(crate) to: Arc<TestRecorder>,
    pub(crate) envelope: Envelope,
    pub(crate) delivery: Delivery,
}

/// Records messages for an application's test.
#[derive(Debug, Default)]
pub(crate) struct TestRecorder {
    committed: Mutex<Vec<(Envelope, Delivery)>>,
    /// Messages whose commit could not be observed.
    unseen: AtomicUsize,
}

impl TestRecorder {
    pub(crate) fn committed(&self) -> MutexGuard<'_, Vec<(Envelope, Delivery)>> {
        self.committed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn unseen(&self) -> usize {
        self.unseen.load(Ordering::Relaxed)
    }

    pub(super) fn count_unseen(&self) {
        self.unseen.fetch_add(1, Ordering::Relaxed);
    }
}

/// Hands over rows whose transaction ended, perhaps with success. Never waits, never panics.
pub(crate) fn deliver(rows: Vec<Pending>) {
    if rows.is_empty() {
        return;
    }
    crash_point!(COMMITTED);
    let mut batch: Option<(Arc<Link>, Vec<HandedOver>)> = None;
    for Pending { row, link, record, ticket } in rows {
        if let Some(record) = record {
            record.to.committed().push((record.envelope, record.delivery));
        }
        match (ticket, &link) {
            (Some(ticket), Some(_)) => ticket.commit(),
            (Some(ticket), None) => ticket.leave(),
            (None, _) => {}
        }
        let Some(link) = link else { continue };
        match &mut batch {
            Some((known, rows)) if Arc::ptr_eq(known, &link) => rows.push(row),
            _ => {
                if let Some((known, rows)) = batch.replace((link, vec![row])) {
                    hand_over(&known, rows);
                }
            }
        }
    }
    if let Some((link, rows)) = batch {
        hand_over(&link, rows);
    }
    crash_point!(HANDED_OVER);
}

fn hand_over(link: &Link, rows: Vec<HandedOver>) {
    // One increment for each run of rows of a topic: a transaction seldom has more than one or two.
    for run in rows.chunk_by(|one, next| one.topic == next.topic) {
        let topic = run[0].topic.to_string();
        ::metrics::counter!(metrics::HANDED_OVER, "topic" => topic).increment(run.len() as u64);
    }
    link.hand_over(rows);
}
