//! The last rows sent, for the keys that were sent last. No input or output.

use std::collections::HashMap;

use super::page::KeyHash;
use crate::limits::LANE_RECENT_KEYS_MAX;

/// Two generations, so that the older half is forgotten.
#[derive(Debug, Default)]
pub(crate) struct RecentSends {
    young: HashMap<KeyHash, i64>,
    old: HashMap<KeyHash, i64>,
}

impl RecentSends {
    pub(crate) fn note(&mut self, key: KeyHash, id: i64) {
        if self.young.len() >= LANE_RECENT_KEYS_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        let last = self.young.entry(key).or_insert(id);
        *last = id.max(*last);
    }

    pub(crate) fn last_sent(&self, key: KeyHash) -> Option<i64> {
        self.young.get(&key).max(self.old.get(&key)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_were_sent_last_are_remembered_and_no_more_than_twice_the_bound() {
        let mut recent = RecentSends::default();
        let (bound, keys) = (LANE_RECENT_KEYS_MAX as u64, 3 * LANE_RECENT_KEYS_MAX as u64);
        for key in 0..keys {
            recent.note(key, 7);
            assert!(recent.young.len().max(recent.old.len()) <= LANE_RECENT_KEYS_MAX, "{key}");
        }
        assert!((bound..keys).all(|key| recent.last_sent(key) == Some(7)));
        assert!((0..bound).all(|key| recent.last_sent(key).is_none()), "the oldest");
    }
}
