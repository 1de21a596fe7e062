use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lanes with new rows, each with the lowest id if it is known. Committing threads write it and wait for no more than
/// another such call.
#[derive(Debug, Default)]
pub(crate) struct PendingReads(Mutex<BTreeMap<u16, Option<i64>>>);

impl PendingReads {
    pub(crate) fn note(&self, lane: u16, id: Option<i64>) {
        let mut lanes = self.lock();
        let first = lanes.entry(lane).or_insert(id);
        // If one id is unknown, the lowest is unknown.
        *first = first.zip(id).map(|(one, other)| one.min(other));
    }

    pub(crate) fn take(&self) -> BTreeMap<u16, Option<i64>> {
        std::mem::take(&mut *self.lock())
    }

    /// Whether one of them is in a lane that `is_meant` accepts.
    pub(crate) fn any(&self, is_meant: impl Fn(u16) -> bool) -> bool {
        self.lock().keys().any(|lane| is_meant(*lane))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u16, Option<i64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
