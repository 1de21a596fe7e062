use std::collections::HashSet;

use crate::message::MessageId;
use crate::store::{Held, HistoryRow, RowKey};

/// Rows for a statement to work on: the id and message id of each, and the values of further columns.
///
/// Each database binds it in its own way. The statement's text is the same for a batch of any size.
#[derive(Debug, Clone)]
pub struct RowBatch {
    pub(crate) rows: Vec<RowKey>,
    pub(crate) columns: Vec<Column>,
}

#[derive(Debug, Clone)]
pub enum Column {
    Ints(Vec<i32>),
    Numbers(Vec<i64>),
    Texts(Vec<String>),
}

impl RowBatch {
    pub(crate) fn keys(rows: impl IntoIterator<Item = RowKey>) -> Self {
        Self { rows: rows.into_iter().collect(), columns: Vec::new() }
    }

    /// With their epochs.
    pub(crate) fn held(rows: impl Iterator<Item = Held> + Clone) -> Self {
        Self::keys(rows.clone().map(|row| row.key)).ints(rows.map(|row| row.epoch))
    }

    /// With the number of days to keep them, and whether they await processing.
    pub(crate) fn history(rows: &[HistoryRow]) -> Self {
        let days = rows.iter().map(|row| i32::try_from(row.keep.days).unwrap_or(i32::MAX));
        let awaits = rows.iter().map(|row| i32::from(row.keep.awaits_processing));
        Self::keys(rows.iter().map(|row| row.key)).ints(days).ints(awaits)
    }

    pub(crate) fn ints(self, column: impl Iterator<Item = i32>) -> Self {
        self.and(Column::Ints(column.collect()))
    }

    pub(crate) fn numbers(self, column: impl Iterator<Item = i64>) -> Self {
        self.and(Column::Numbers(column.collect()))
    }

    pub(crate) fn texts(self, column: impl Iterator<Item = String>) -> Self {
        self.and(Column::Texts(column.collect()))
    }

    fn and(mut self, column: Column) -> Self {
        self.columns.push(column);
        self
    }

    /// Removes rows that are not among `kept`.
    pub(crate) fn retain(&mut self, kept: &[RowKey]) {
        let kept: HashSet<&RowKey> = kept.iter().collect();
        let is_kept: Vec<bool> = self.rows.iter().map(|row| kept.contains(row)).collect();
        retain(&mut self.rows, &is_kept);
        for column in &mut self.columns {
            match column {
                Column::Ints(column) => retain(column, &is_kept),
                Column::Numbers(column) => retain(column, &is_kept),
                Column::Texts(column) => retain(column, &is_kept),
            }
        }
    }
}

fn retain<T>(column: &mut Vec<T>, is_kept: &[bool]) {
    let mut is_kept = is_kept.iter();
    column.retain(|_| is_kept.next().copied().unwrap_or_default());
}

/// Sorted by id. Some statements lock rows in the order of the batch, and all must use the same order.
pub(crate) fn sorted_by_id<T>(rows: &[T], key: impl Fn(&T) -> RowKey) -> Vec<&T> {
    let mut rows: Vec<&T> = rows.iter().collect();
    rows.sort_by_key(|row| key(row).id);
    rows
}

/// Sorted, for the same reason, and without duplicates.
pub(crate) fn sorted_unique(messages: impl Iterator<Item = MessageId>) -> Vec<MessageId> {
    let mut messages: Vec<MessageId> = messages.collect();
    messages.sort_unstable();
    messages.dedup();
    messages
}

#[cfg(any(feature = "mysql", feature = "sqlite"))]
mod json {
    use serde_json::Value;

    use super::*;

    impl RowBatch {
        /// `[[.., column, ..], ..]`: the values of `begin`, then the columns. At most `width` values, because more are not read.
        pub(crate) fn json(&self, width: usize, begin: impl Fn(RowKey) -> Vec<Value>) -> String {
            let rows = self.rows.iter().enumerate().map(|(at, key)| {
                let mut row = begin(*key);
                row.truncate(width);
                let more = width.saturating_sub(row.len());
                row.extend(self.columns.iter().take(more).map(|column| column.value(at)));
                Value::Array(row)
            });
            Value::Array(rows.collect()).to_string()
        }
    }

    /// The same for rows that have columns alone.
    pub(crate) fn columns_json(columns: &[Column]) -> String {
        let length = columns.first().map_or(0, Column::len);
        let rows = (0..length).map(|at| Value::Array(columns.iter().map(|column| column.value(at)).collect()));
        Value::Array(rows.collect()).to_string()
    }

    impl Column {
        fn len(&self) -> usize {
            match self {
                Self::Ints(column) => column.len(),
                Self::Numbers(column) => column.len(),
                Self::Texts(column) => column.len(),
            }
        }

        fn value(&self, at: usize) -> Value {
            match self {
                Self::Ints(column) => column[at].into(),
                Self::Numbers(column) => column[at].into(),
                Self::Texts(column) => column[at].as_str().into(),
            }
        }
    }
}

#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) use json::columns_json;
