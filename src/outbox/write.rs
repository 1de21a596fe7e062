//! What every way of enqueueing shares: the checks before the INSERT, and what becomes of the rows behind it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use diesel::result::{Error, QueryResult};

use super::Outbox;
use crate::clock::{BootInstant, system_now};
use crate::enqueue::encode::{EncodeRules, Encoded};
use crate::enqueue::{Dialect, EnqueueError, Inserted, Insertion, next_statement_rows};
use crate::hook::{Conn, Depth, Pending, RecordedMessage, has_begun, is_deadlocked, statements};
use crate::injected_bugs::{InjectedBug, is_injected};
use crate::limits::{CLOCK_SLACK, INLINE_BYTES_MAX};
use crate::message::{Delivery, MessageId, OutboxMessage};
use crate::metrics;
use crate::receipts::Ticket;
use crate::relay::direct::queue::{HandedOver, InlineRow};
use crate::store::{Row, RowKey, RowRef};

/// Where and how rows are about to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct WriteContext {
    pub(super) at: Depth,
    /// The relay's clock before the INSERT, where a relay of this process takes the rows: they are born leased to it.
    pub(super) leased_at: Option<BootInstant>,
    /// Whether they are the last rows of a transaction of the outbox's own.
    pub(super) last: bool,
}

impl Outbox {
    pub(super) fn encode<M: OutboxMessage + ?Sized>(&self, event: &M) -> QueryResult<Encoded> {
        Ok(self.encode_checked(event)?)
    }

    pub(crate) fn encode_checked<M: OutboxMessage + ?Sized>(&self, event: &M) -> Result<Encoded, EnqueueError> {
        let rules = EncodeRules {
            topics: &self.inner.topics,
            interceptors: &self.inner.interceptors,
            has_fingerprints: self.inner.has_fingerprints,
        };
        Encoded::new(&rules, event)
    }

    pub(super) fn encode_all<M, I>(&self, events: I) -> QueryResult<Vec<Encoded>>
    where
        M: OutboxMessage,
        I: IntoIterator<Item = M>,
    {
        events.into_iter().map(|event| self.encode(&event)).collect()
    }

    /// Looks whether `rows` may be written through `conn` now.
    pub(super) fn check_write<B: Dialect>(&self, conn: &mut impl Conn, rows: &[Encoded]) -> QueryResult<WriteContext> {
        let at = Depth::of(conn)?;
        // Diesel counts a transaction as over that SQLite has ended with an error; its closure has not.
        if B::PROBE.is_some() && at.depth == 0 && has_begun(conn) {
            return Err(transaction_lost(rows));
        }
        if !self.inner.outside_transaction && at.depth <= at.committed_depth() {
            let topic = rows.first().map_or_else(String::new, |row| row.topic.to_string());
            return Err(EnqueueError::NotInTransaction { topic }.into());
        }
        if B::DEADLOCK_ENDS_TRANSACTION && at.depth > 0 && is_deadlocked(conn) {
            return Err(transaction_lost(rows));
        }
        Ok(WriteContext { at, leased_at: self.inner.link.now(), last: false })
    }

    /// As [`check_write`](Self::check_write), for the last rows of a transaction of the outbox's own, which was `begun` there.
    pub(super) fn check_final_write<B: Dialect>(
        &self,
        conn: &mut impl Conn,
        rows: &[Encoded],
        begun: Depth,
    ) -> QueryResult<WriteContext> {
        if Depth::of(conn)? != begun {
            return Err(transaction_lost(rows));
        }
        Ok(WriteContext { last: true, ..self.check_write::<B>(conn, rows)? })
    }

    /// Of `rows`, in a statement that first locks the keys of the messages in `locked`.
    pub(super) fn insertion<'a>(
        &'a self,
        rows: &'a [Encoded],
        locked: &'a [Encoded],
        context: WriteContext,
    ) -> Insertion<'a> {
        let WriteContext { at, leased_at, last } = context;
        Insertion {
            table: &self.inner.messages,
            rows,
            locked,
            leased: leased_at.is_some(),
            in_transaction: at.depth > 0,
            flagged: last.then_some(at.depth),
        }
    }

    /// How many statements the connection's hook saw begin, where rows will wait in it.
    pub(super) fn statements(&self, conn: &mut impl Conn, context: WriteContext) -> Option<u64> {
        let is_awaited = self.leased_at(context).is_some() || self.inner.recorder.get().is_some();
        if is_awaited && context.at.depth > context.at.committed_depth() { statements(conn) } else { None }
    }

    /// A test transaction never commits, so its rows never go to a relay.
    fn leased_at(&self, context: WriteContext) -> Option<BootInstant> {
        context.leased_at.filter(|_| !context.at.in_test_transaction)
    }

    /// Whether rows that were written here are committed for sure where COMMIT follows at once. The hook sees whether it does.
    pub(super) fn may_verify<B: Dialect>(rows: &[Encoded], context: WriteContext) -> bool {
        B::COMMIT_VERIFIES_INSERT && context.at.is_outermost() && next_statement_rows::<B>(rows) == rows.len()
    }

    /// The rows as they wait for the end of their transaction; none where nobody waits for them. With `inline` the small
    /// ones go to the relay themselves, if their COMMIT is verified.
    pub(super) fn pending(
        &self,
        rows: Vec<Encoded>,
        inserted: &[Inserted],
        context: WriteContext,
        inline: bool,
    ) -> Vec<Pending> {
        count_enqueued(&rows);
        let recorder = self.inner.recorder.get();
        let leased_at = self.leased_at(context);
        if leased_at.is_none() && recorder.is_none() {
            // A test transaction is never committed.
            let is_sent = !context.at.in_test_transaction;
            rows.into_iter().filter_map(|row| row.ticket.filter(|_| is_sent)).for_each(Ticket::leave);
            return Vec::new();
        }
        let inline_at = leased_at.filter(|_| inline || is_injected(InjectedBug::CommitBelieved));
        let pending = rows.into_iter().zip(inserted).map(|(mut row, inserted)| {
            let ticket = row.ticket.take();
            if let Some(ticket) = ticket.as_ref().filter(|_| leased_at.is_some()) {
                ticket.register(self.inner.link.waiters());
            }
            let mut handed = HandedOver {
                row: RowRef { id: inserted.id, message_id: row.message_id },
                topic: Arc::clone(&row.topic),
                staleness: row.staleness,
                bytes: row.bytes,
                lane: row.lane,
                due_at: leased_at.and_then(|at| due_at(at, row.delivery)),
                inline: None,
            };
            let created_at = inserted.created_at.unwrap_or_else(|| id_timestamp(row.message_id));
            let delivery = row.delivery;
            let envelope = row.into_envelope(created_at);
            let record = recorder
                .map(|to| Box::new(RecordedMessage { to: Arc::clone(to), envelope: envelope.clone(), delivery }));
            if let (Some(inserted_at), Some(id)) =
                (inline_at.filter(|_| handed.bytes <= INLINE_BYTES_MAX && handed.due_at.is_none()), inserted.id)
            {
                let key = RowKey { id, message_id: handed.row.message_id };
                handed.inline = Some(Box::new(InlineRow {
                    row: Row { key, epoch: 0, failures: 0, is_suspect: false, envelope },
                    inserted_at,
                    announced_at: None,
                }));
            }
            Pending { row: handed, link: leased_at.map(|_| Arc::clone(&self.inner.link)), record, ticket }
        });
        pending.collect()
    }
}

/// A refusal by the database itself as our own error; every other error as it is.
pub(super) fn map_refusal<B: Dialect>(error: Error, rows: &[Encoded]) -> Error {
    match rows.first() {
        Some(_) if B::is_transaction_lost_error(&error) => transaction_lost(rows),
        Some(row) if B::is_row_removed_error(&error) => {
            EnqueueError::RowRemoved { topic: row.topic.to_string() }.into()
        }
        _ => error,
    }
}

/// The error that a caller gets after a rollback: `error`, unless the rollback failed. A broken connection has nothing left
/// to roll back.
pub(crate) fn error_after_rollback<E: From<Error>>(error: E, rolled_back: QueryResult<()>) -> E {
    match rolled_back {
        Ok(()) | Err(Error::BrokenTransactionManager) => error,
        Err(rollback_error) => rollback_error.into(),
    }
}

pub(super) fn transaction_lost(rows: &[Encoded]) -> Error {
    let topic = rows.first().map_or_else(String::new, |row| row.topic.to_string());
    EnqueueError::TransactionLost { topic }.into()
}

/// Whether the rows need a transaction of their own to be written all or none.
pub(super) fn needs_transaction<B: Dialect>(rows: &[Encoded], context: WriteContext) -> bool {
    let one_does = next_statement_rows::<B>(rows) == rows.len() && !(B::INSERT_MAY_BE_PARTIAL && rows.len() > 1);
    context.at.depth == 0 && !one_does
}

fn count_enqueued(rows: &[Encoded]) {
    for run in rows.chunk_by(|one, next| one.topic == next.topic) {
        let topic = run[0].topic.to_string();
        ::metrics::counter!(metrics::ENQUEUED, "topic" => topic).increment(run.len() as u64);
    }
}

/// When a delayed message is due by the relay's clock, at the earliest: the INSERT comes after `inserted_at`.
fn due_at(inserted_at: BootInstant, delivery: Delivery) -> Option<BootInstant> {
    match delivery {
        Delivery::Now => None,
        Delivery::After(delay) => Some(inserted_at + delay),
        Delivery::At(at) => {
            let ahead = at.duration_since(system_now()).unwrap_or_default();
            Some(inserted_at + ahead.saturating_sub(CLOCK_SLACK))
        }
    }
}

/// When a message id was made: close enough to its row's `created_at` if the database did not return that.
fn id_timestamp(message_id: MessageId) -> SystemTime {
    let (seconds, nanos) = message_id.as_uuid().get_timestamp().map_or((0, 0), |timestamp| timestamp.to_unix());
    SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_delay_is_due_a_little_early() {
        let (inserted_at, ahead) = (BootInstant::from_boot(Duration::from_secs(100)), Duration::from_secs(3_600));
        assert_eq!(due_at(inserted_at, Delivery::After(ahead)), Some(inserted_at + ahead));
        let due = due_at(inserted_at, Delivery::At(system_now() + ahead)).expect("it is delayed");
        let early = (inserted_at.until(due), ahead - CLOCK_SLACK);
        assert!(early.0 <= early.1 && early.0 + Duration::from_secs(60) > early.1, "{early:?}");
        assert_eq!(due_at(inserted_at, Delivery::At(system_now() + CLOCK_SLACK / 2)), Some(inserted_at));
    }
}
