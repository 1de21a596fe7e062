use diesel::result::QueryResult;

use crate::enqueue::encode::Encoded;
use crate::message::{MessageId, OutboxMessage};
use crate::outbox::Outbox;
use crate::receipts::PendingReceipt;

/// The messages of a transaction that are not written yet.
#[derive(Debug)]
pub(super) struct BufferedMessages {
    outbox: Outbox,
    rows: Vec<Encoded>,
    /// The number of messages when each open savepoint began.
    savepoints: Vec<usize>,
}

impl BufferedMessages {
    pub(super) fn new(outbox: Outbox) -> Self {
        Self { outbox, rows: Vec::new(), savepoints: Vec::new() }
    }

    pub(super) fn push<M: OutboxMessage + ?Sized>(&mut self, event: &M) -> QueryResult<MessageId> {
        let row = self.outbox.encode(event)?;
        let message_id = row.message_id;
        self.rows.push(row);
        Ok(message_id)
    }

    pub(super) fn push_with_receipt<M: OutboxMessage + ?Sized>(&mut self, event: &M) -> QueryResult<PendingReceipt> {
        let mut row = self.outbox.encode(event)?;
        let receipt = row.receipt();
        self.rows.push(row);
        Ok(receipt)
    }

    pub(super) fn push_all<M, I>(&mut self, events: I) -> QueryResult<Vec<MessageId>>
    where
        M: OutboxMessage,
        I: IntoIterator<Item = M>,
    {
        let rows = self.outbox.encode_all(events)?;
        let message_ids = rows.iter().map(|row| row.message_id).collect();
        self.rows.extend(rows);
        Ok(message_ids)
    }

    /// A savepoint began.
    pub(super) fn begin_savepoint(&mut self) {
        self.savepoints.push(self.rows.len());
    }

    /// The innermost savepoint was released; `false` if that failed, and then its messages are dropped.
    pub(super) fn release(&mut self, succeeded: bool) {
        match self.savepoints.pop() {
            Some(mark) if !succeeded => self.rows.truncate(mark),
            _ => {}
        }
    }

    pub(super) fn into_rows(self) -> Vec<Encoded> {
        self.rows
    }
}
