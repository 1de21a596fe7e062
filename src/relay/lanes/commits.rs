//! The last commits to the lanes of a topic in this process: when each was, and its row where that came along.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::BootInstant;
use crate::limits::{LANE_CARRIED_BYTES_MAX, LANE_COMMITS_MAX};
use crate::relay::queue::Carried;

/// By id, in two generations, so that those are forgotten that are sent by others, or never. Written by whoever commits,
/// which waits for no more than another such call.
#[derive(Debug, Default)]
pub(super) struct Commits(Mutex<[Generation; 2]>);

#[derive(Debug, Default)]
struct Generation {
    commits: HashMap<i64, Commit>,
    carried_bytes: usize,
}

#[derive(Debug)]
struct Commit {
    at: BootInstant,
    carried: Option<Box<Carried>>,
}

impl Commits {
    pub(super) fn note(&self, id: i64, at: BootInstant, carried: Option<Box<Carried>>) {
        let [young, old] = &mut *self.lock();
        if young.commits.len() >= LANE_COMMITS_MAX {
            *old = std::mem::take(young);
        }
        let has_room = young.carried_bytes.saturating_add(bytes_of(carried.as_deref())) <= LANE_CARRIED_BYTES_MAX;
        let carried = carried.filter(|_| has_room);
        young.carried_bytes += bytes_of(carried.as_deref());
        if let Some(before) = young.commits.insert(id, Commit { at, carried }) {
            young.carried_bytes -= bytes_of(before.carried.as_deref());
        }
    }

    /// When it was. Once: the copies that follow were not sent for the commit.
    pub(super) fn take_time(&self, id: i64) -> Option<BootInstant> {
        self.lock().iter_mut().find_map(|generation| {
            let Commit { at, carried } = generation.commits.remove(&id)?;
            generation.carried_bytes -= bytes_of(carried.as_deref());
            Some(at)
        })
    }

    /// Its row. Once: what becomes of it afterwards only the database knows.
    pub(super) fn take_row(&self, id: i64) -> Option<Box<Carried>> {
        self.lock().iter_mut().find_map(|generation| {
            let carried = generation.commits.get_mut(&id)?.carried.take();
            generation.carried_bytes -= bytes_of(carried.as_deref());
            carried
        })
    }

    fn lock(&self) -> MutexGuard<'_, [Generation; 2]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bytes_of(carried: Option<&Carried>) -> usize {
    carried.map_or(0, |carried| carried.row.envelope.size_bytes())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::message::{Envelope, MessageId};
    use crate::store::{Row, RowKey};

    const AT: BootInstant = BootInstant::from_boot(Duration::from_secs(1));

    fn carried(id: i64, bytes: usize) -> Option<Box<Carried>> {
        let mut envelope = Envelope::new(MessageId::new(), "orders".into(), SystemTime::UNIX_EPOCH);
        envelope.payload = Some(vec![0; bytes]);
        let key = RowKey { id, message_id: envelope.message_id };
        Some(Box::new(Carried {
            row: Row { key, epoch: 0, failures: 0, is_suspect: false, envelope },
            inserted_at: AT,
            announced_at: None,
        }))
    }

    #[test]
    fn the_times_of_the_last_commits_are_known_once() {
        let commits = Commits::default();
        let ids = 0..3 * LANE_COMMITS_MAX as i64;
        ids.clone().for_each(|id| commits.note(id, AT, None));
        let known = |id: &i64| commits.take_time(*id).is_some();
        assert_eq!(ids.clone().filter(known).count(), 2 * LANE_COMMITS_MAX);
        assert_eq!(ids.clone().filter(known).count(), 0);
    }

    #[test]
    fn a_row_is_given_once_and_its_time_stays() {
        let commits = Commits::default();
        commits.note(7, AT, carried(7, 100));
        assert_eq!(commits.take_row(7).map(|carried| carried.row.key.id), Some(7));
        assert!(commits.take_row(7).is_none() && commits.take_row(8).is_none());
        assert_eq!(commits.take_time(7), Some(AT));
    }

    #[test]
    fn rows_are_kept_up_to_a_number_of_bytes() {
        let commits = Commits::default();
        let size = LANE_CARRIED_BYTES_MAX / 10;
        (0..20).for_each(|id| commits.note(id, AT, carried(id, size)));
        let kept = (0..20).filter(|id| commits.take_row(*id).is_some()).count();
        assert!((9..=10).contains(&kept), "{kept}");
        assert!((0..20).all(|id| commits.take_time(id).is_some()), "and the times of all");
        for id in 20..60 {
            commits.note(id, AT, carried(id, size));
            commits.note(id, AT, carried(id, size));
            assert!(commits.take_row(id).is_some(), "what was given makes room: {id}");
            commits.note(id + 1, AT, carried(id + 1, size));
            assert!(commits.take_time(id + 1).is_some(), "so does what was sent without");
        }
    }
}
