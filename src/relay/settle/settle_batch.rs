//! Delivered rows that are settled together.

use crate::relay::engine::store_call::store_call;
use crate::store::{HistoryRow, Locking, RowKey, Store, StoreError};

/// Either all of them are kept in the history, or none.
#[derive(Debug, Clone)]
pub(crate) enum SettleBatch {
    Deleted(Vec<RowKey>),
    Kept(Vec<HistoryRow>),
}

impl SettleBatch {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Deleted(rows) => rows.len(),
            Self::Kept(rows) => rows.len(),
        }
    }

    pub(crate) fn keys(&self) -> Vec<RowKey> {
        match self {
            Self::Deleted(rows) => rows.clone(),
            Self::Kept(rows) => rows.iter().map(|row| row.key).collect(),
        }
    }

    pub(crate) fn retain(&mut self, stays: impl Fn(&RowKey) -> bool) {
        match self {
            Self::Deleted(rows) => rows.retain(stays),
            Self::Kept(rows) => rows.retain(|row| stays(&row.key)),
        }
    }

    pub(crate) fn split(self) -> [Self; 2] {
        match self {
            Self::Deleted(mut rows) => {
                let second = rows.split_off(rows.len() / 2);
                [Self::Deleted(rows), Self::Deleted(second)]
            }
            Self::Kept(mut rows) => {
                let second = rows.split_off(rows.len() / 2);
                [Self::Kept(rows), Self::Kept(second)]
            }
        }
    }

    /// Removes the rows from the live table.
    pub(crate) async fn settle(&self, store: &dyn Store, locking: Locking) -> Result<Vec<RowKey>, StoreError> {
        match self {
            Self::Deleted(rows) => store_call("settle", store.settle(rows, locking)).await,
            Self::Kept(rows) => {
                store_call("settle_into_history", store.history().settle_into_history(rows, locking)).await
            }
        }
    }

    /// Removes those that became dead letters from the dead letters. Returns how many.
    pub(crate) async fn settle_dead_letters(&self, store: &dyn Store) -> Result<usize, StoreError> {
        match self {
            Self::Deleted(rows) => store_call("settle_dead_letters", store.settle_dead_letters(rows)).await,
            Self::Kept(rows) => {
                store_call("settle_dead_letters_into_history", store.history().settle_dead_letters_into_history(rows))
                    .await
            }
        }
    }
}
