use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::BootInstant;
use crate::limits::LANE_COMMITS_MAX;

/// Lanes with new rows, each with the lowest id where that is known. Written by whoever commits, which waits for no more than
/// another such call.
#[derive(Debug, Default)]
pub(crate) struct Woken(Mutex<BTreeMap<u16, Option<i64>>>);

impl Woken {
    pub(crate) fn note(&self, lane: u16, id: Option<i64>) {
        let mut lanes = self.lock();
        let first = lanes.entry(lane).or_insert(id);
        // Where one is not known, neither is the lowest.
        *first = first.zip(id).map(|(one, other)| one.min(other));
    }

    pub(crate) fn take(&self) -> BTreeMap<u16, Option<i64>> {
        std::mem::take(&mut *self.lock())
    }

    /// Whether one of them is among those that `is_meant` tells.
    pub(crate) fn any(&self, is_meant: impl Fn(u16) -> bool) -> bool {
        self.lock().keys().any(|lane| is_meant(*lane))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u16, Option<i64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When the last rows were committed, by id, to say how long their acknowledgements took. Two generations, so that those are
/// forgotten that are sent by others, or never.
#[derive(Debug, Default)]
pub(crate) struct Commits(Mutex<[HashMap<i64, BootInstant>; 2]>);

impl Commits {
    pub(crate) fn note(&self, id: i64, at: BootInstant) {
        let [young, old] = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if young.len() >= LANE_COMMITS_MAX {
            *old = std::mem::take(young);
        }
        young.insert(id, at);
    }

    /// Once: the copies that follow were not sent for the commit.
    pub(crate) fn take(&self, id: i64) -> Option<BootInstant> {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        generations.iter_mut().find_map(|generation| generation.remove(&id))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_times_of_the_last_commits_are_known_once() {
        let (commits, at) = (Commits::default(), BootInstant::from_boot(Duration::from_secs(1)));
        let ids = 0..3 * LANE_COMMITS_MAX as i64;
        ids.clone().for_each(|id| commits.note(id, at));
        let known = |id: &i64| commits.take(*id).is_some();
        assert_eq!(ids.clone().filter(known).count(), 2 * LANE_COMMITS_MAX);
        assert_eq!(ids.clone().filter(known).count(), 0);
    }
}
