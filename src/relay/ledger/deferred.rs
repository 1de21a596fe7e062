//! Handed-over rows that this process left to the sweepers of any process. A flush asks the database about them.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::message::MessageId;
use crate::store::RowRef;

/// The newest of them, up to a bound: sweepers take the oldest first.
#[derive(Debug)]
pub(crate) struct DeferredRows {
    rows: Mutex<VecDeque<(Arc<str>, RowRef)>>,
    rows_max: usize,
}

impl DeferredRows {
    pub(crate) fn new(rows_max: usize) -> Self {
        Self { rows: Mutex::default(), rows_max }
    }

    /// Notes rows, each with its topic.
    pub(crate) fn add(&self, rows: impl IntoIterator<Item = (Arc<str>, RowRef)>) {
        let mut noted = self.lock();
        noted.extend(rows);
        let surplus = noted.len().saturating_sub(self.rows_max);
        noted.drain(..surplus);
    }

    /// Those whose topic the caller waits for, oldest first.
    pub(crate) fn of(&self, is_waited_for: impl Fn(&str) -> bool) -> Vec<RowRef> {
        self.lock().iter().filter(|(topic, _)| is_waited_for(topic)).map(|(_, row)| *row).collect()
    }

    /// Forgets rows that are gone.
    pub(crate) fn forget(&self, gone: &HashSet<MessageId>) {
        self.lock().retain(|(_, row)| !gone.contains(&row.message_id));
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Arc<str>, RowRef)>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_are_kept_until_they_are_gone() {
        let deferred = DeferredRows::new(2);
        let rows: Vec<_> = (1..=3).map(|id| RowRef { id: Some(id), message_id: MessageId::new() }).collect();
        deferred.add(rows.iter().map(|row| (Arc::from("orders"), *row)));
        assert_eq!(deferred.of(|topic| topic == "orders"), rows[1..]);
        assert_eq!(deferred.of(|topic| topic == "invoices"), []);
        deferred.forget(&HashSet::from([rows[1].message_id]));
        assert_eq!(deferred.of(|_| true), rows[2..]);
    }
}
