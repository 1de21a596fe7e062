//! The last commits to the lanes of a topic in this process: when each was, and its inline row if it has one.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::BootInstant;
use crate::limits::{LANE_COMMITS_MAX, LANE_INLINE_BYTES_MAX};
use crate::relay::direct::queue::InlineRow;

/// By id, in two generations, so that rows sent by others, or never, are forgotten. Committing threads write it and
/// wait for no more than another such call.
#[derive(Debug, Default)]
pub(in crate::relay::lanes) struct Commits(Mutex<[Generation; 2]>);

#[derive(Debug, Default)]
struct Generation {
    commits: HashMap<i64, Commit>,
    inline_bytes: usize,
}

#[derive(Debug)]
struct Commit {
    at: BootInstant,
    inline: Option<Box<InlineRow>>,
}

impl Commits {
    pub(in crate::relay::lanes) fn note(&self, id: i64, at: BootInstant, inline: Option<Box<InlineRow>>) {
        let [young, old] = &mut *self.lock();
        if young.commits.len() >= LANE_COMMITS_MAX {
            *old = std::mem::take(young);
        }
        let has_room = young.inline_bytes.saturating_add(bytes_of(inline.as_deref())) <= LANE_INLINE_BYTES_MAX;
        let inline = inline.filter(|_| has_room);
        young.inline_bytes += bytes_of(inline.as_deref());
        if let Some(before) = young.commits.insert(id, Commit { at, inline }) {
            young.inline_bytes -= bytes_of(before.inline.as_deref());
        }
    }

    /// When the row was committed. Answers once: later copies are not sent because of the commit.
    pub(super) fn take_time(&self, id: i64) -> Option<BootInstant> {
        self.lock().iter_mut().find_map(|generation| {
            let Commit { at, inline } = generation.commits.remove(&id)?;
            generation.inline_bytes -= bytes_of(inline.as_deref());
            Some(at)
        })
    }

    /// The inline row. Given once: what happens to it afterwards, only the database knows.
    pub(super) fn take_row(&self, id: i64) -> Option<Box<InlineRow>> {
        self.lock().iter_mut().find_map(|generation| {
            let inline = generation.commits.get_mut(&id)?.inline.take();
            generation.inline_bytes -= bytes_of(inline.as_deref());
            inline
        })
    }

    fn lock(&self) -> MutexGuard<'_, [Generation; 2]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bytes_of(inline: Option<&InlineRow>) -> usize {
    inline.map_or(0, |inline| inline.row.envelope.size_bytes())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::message::{Envelope, MessageId};
    use crate::store::{Row, RowKey};

    const AT: BootInstant = BootInstant::from_boot(Duration::from_secs(1));

    fn inline(id: i64, bytes: usize) -> Option<Box<InlineRow>> {
        let mut envelope = Envelope::new(MessageId::new(), "orders".into(), SystemTime::UNIX_EPOCH);
        envelope.payload = Some(vec![0; bytes]);
        let key = RowKey { id, message_id: envelope.message_id };
        Some(Box::new(InlineRow {
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
        commits.note(7, AT, inline(7, 100));
        assert_eq!(commits.take_row(7).map(|inline| inline.row.key.id), Some(7));
        assert!(commits.take_row(7).is_none() && commits.take_row(8).is_none());
        assert_eq!(commits.take_time(7), Some(AT));
    }

    #[test]
    fn rows_are_kept_up_to_a_number_of_bytes() {
        let commits = Commits::default();
        let size = LANE_INLINE_BYTES_MAX / 10;
        (0..20).for_each(|id| commits.note(id, AT, inline(id, size)));
        let kept = (0..20).filter(|id| commits.take_row(*id).is_some()).count();
        assert!((9..=10).contains(&kept), "{kept}");
        assert!((0..20).all(|id| commits.take_time(id).is_some()), "and the times of all");
        for id in 20..60 {
            commits.note(id, AT, inline(id, size));
            commits.note(id, AT, inline(id, size));
            assert!(commits.take_row(id).is_some(), "what was given makes room: {id}");
            commits.note(id + 1, AT, inline(id + 1, size));
            assert!(commits.take_time(id + 1).is_some(), "so does what was sent without");
        }
    }
}
