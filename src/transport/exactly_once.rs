//! The interface of a transport whose lanes deliver each row once.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;

use super::TransportError;
use crate::message::MessageId;
use crate::store::RowKey;

/// What identifies a row: a message that is redriven, or sent again from the history, has another one.
pub(crate) type OutboxRowId = [u8; 24];

/// A row of an exactly-once lane on its way to the broker. A cheap handle.
#[derive(Debug, Clone)]
pub struct OutboxRow {
    id: OutboxRowId,
    settled: Arc<AtomicBool>,
}

impl OutboxRow {
    pub(crate) fn new(row: RowKey) -> Self {
        Self { id: id_of(row), settled: Arc::default() }
    }

    /// Which row it is: a message that is redriven, or sent again from the history, has another one.
    pub fn id(&self) -> OutboxRowId {
        self.id
    }

    /// Whether the row has left the table, so that no later owner of the lane can read it.
    pub fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }

    pub(crate) fn settle(&self) {
        self.settled.store(true, Ordering::Release);
    }
}

/// The primary key, and then the message id: a database that was restored may give a key to another message.
pub(crate) fn id_of(row: RowKey) -> OutboxRowId {
    let mut id = [0; 24];
    id[..8].copy_from_slice(&row.id.to_be_bytes());
    id[8..].copy_from_slice(row.message_id.as_uuid().as_bytes());
    id
}

pub(crate) fn row_of(id: OutboxRowId) -> RowKey {
    let (mut key, mut message_id) = ([0; 8], [0; 16]);
    key.copy_from_slice(&id[..8]);
    message_id.copy_from_slice(&id[8..]);
    RowKey { id: i64::from_be_bytes(key), message_id: uuid::Uuid::from_bytes(message_id).into() }
}

type LookUp = dyn Fn(Vec<OutboxRowId>) -> BoxFuture<'static, Result<Vec<OutboxRowId>, TransportError>> + Send + Sync;

/// Tells which rows are still in the table.
#[derive(Clone)]
pub struct RowLookup(Arc<LookUp>);

impl RowLookup {
    /// A lookup by this function. For tests of your own transport.
    pub fn new(
        look_up: impl Fn(Vec<OutboxRowId>) -> BoxFuture<'static, Result<Vec<OutboxRowId>, TransportError>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self(Arc::new(look_up))
    }

    /// Those of the rows that are still in the table.
    ///
    /// # Errors
    /// Returns why the database could not be asked.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn existing(&self, rows: Vec<OutboxRowId>) -> Result<Vec<OutboxRowId>, TransportError> {
        if rows.is_empty() { Ok(rows) } else { (self.0)(rows).await }
    }
}

impl fmt::Debug for RowLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowLookup")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_found_again_by_its_id() {
        for id in [0, 1, -1, i64::MAX, i64::MIN] {
            let row = RowKey { id, message_id: MessageId::new() };
            assert_eq!(row_of(id_of(row)), row);
        }
    }

    #[test]
    fn a_row_is_settled_for_each_of_its_handles() {
        let row = OutboxRow::new(RowKey { id: 1, message_id: MessageId::new() });
        let handle = row.clone();
        row.settle();
        assert!(handle.is_settled());
    }
}
