//! The interface of a transport whose lanes deliver each row once.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;

use super::TransportError;
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
        Self::of_id(id_of(row))
    }

    fn of_id(id: OutboxRowId) -> Self {
        Self { id, settled: Arc::default() }
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

/// The rows that a lane has delivered and that may still be in the table.
#[derive(Debug, Default)]
pub(crate) struct DeliveredRows(HashMap<OutboxRowId, OutboxRow>);

impl DeliveredRows {
    /// What earlier owners of the lane have delivered.
    pub(crate) fn of(rows: Vec<OutboxRow>) -> Self {
        Self(rows.into_iter().map(|row| (row.id, row)).collect())
    }

    /// Whether the lane has delivered the row. From now on this handle tells when it is settled.
    pub(crate) fn has(&mut self, row: &OutboxRow) -> bool {
        let known = self.0.get_mut(&row.id);
        known.is_some_and(|handle| {
            *handle = row.clone();
            true
        })
    }

    pub(crate) fn add(&mut self, row: OutboxRow) {
        self.0.insert(row.id, row);
    }

    /// Forgets those that have left the table. Returns how many are left.
    pub(crate) fn forget_settled(&mut self) -> usize {
        self.0.retain(|_, row| !row.is_settled());
        self.0.len()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = OutboxRowId> {
        self.0.keys().copied()
    }
}

type LookUp = dyn Fn(Vec<OutboxRowId>) -> BoxFuture<'static, Result<Vec<OutboxRow>, TransportError>> + Send + Sync;

/// Tells which rows are still in the table.
#[derive(Clone)]
pub struct RowLookup(Arc<LookUp>);

impl RowLookup {
    /// A lookup by this function, which returns the ids of the rows that are still in the table. For tests of your own transport.
    pub fn new(
        look_up: impl Fn(Vec<OutboxRowId>) -> BoxFuture<'static, Result<Vec<OutboxRowId>, TransportError>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self::of_rows(move |rows| {
            let found = look_up(rows);
            Box::pin(async move { Ok(found.await?.into_iter().map(OutboxRow::of_id).collect()) })
        })
    }

    /// A lookup by a function that knows the handles of some rows.
    pub(crate) fn of_rows(
        look_up: impl Fn(Vec<OutboxRowId>) -> BoxFuture<'static, Result<Vec<OutboxRow>, TransportError>>
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
    pub async fn existing(&self, rows: Vec<OutboxRowId>) -> Result<Vec<OutboxRow>, TransportError> {
        if rows.is_empty() { Ok(Vec::new()) } else { (self.0)(rows).await }
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
    use crate::message::MessageId;

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

    #[test]
    fn settled_rows_are_forgotten_and_recovered_ones_once_they_are_read_and_settled() {
        let row = |id| OutboxRow::new(RowKey { id, message_id: MessageId::new() });
        let (recovered, sent) = (row(1), row(2));
        let mut rows = DeliveredRows::of(vec![OutboxRow::of_id(recovered.id())]);
        rows.add(sent.clone());
        assert!(!rows.has(&row(2)), "another message under the same key");
        sent.settle();
        assert_eq!((rows.forget_settled(), rows.ids().next()), (1, Some(recovered.id())));
        let read = recovered.clone();
        assert!(rows.has(&read));
        read.settle();
        assert_eq!(rows.forget_settled(), 0);
    }
}
