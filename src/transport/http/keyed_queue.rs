//! Orders the messages of a host: those of one key go one after the other, in order of arrival; others go side by side.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

/// The hash of topic and key. Messages with the same hash wait for each other. Messages without a key have no order.
pub(super) type Key = u64;

#[derive(Debug)]
pub(super) struct KeyedQueue<T> {
    /// May be sent. Each holds its key.
    ready: VecDeque<(Option<Key>, T)>,
    /// Waits behind a message of the same key that is ready or in flight. Every held key has an entry.
    blocked: HashMap<Key, VecDeque<T>>,
    waiting: usize,
}

impl<T> Default for KeyedQueue<T> {
    fn default() -> Self {
        Self { ready: VecDeque::new(), blocked: HashMap::new(), waiting: 0 }
    }
}

impl<T> KeyedQueue<T> {
    pub(super) fn push(&mut self, key: Option<Key>, item: T) {
        self.waiting += 1;
        match key {
            None => self.ready.push_back((None, item)),
            Some(key) => match self.blocked.entry(key) {
                Entry::Occupied(mut in_hand) => in_hand.get_mut().push_back(item),
                Entry::Vacant(free) => {
                    self.ready.push_back((Some(key), item));
                    free.insert(VecDeque::new());
                }
            },
        }
    }

    /// The next message that may be sent. Its key stays held until [`finish_key`](Self::finish_key).
    pub(super) fn next(&mut self) -> Option<(Option<Key>, T)> {
        let next = self.ready.pop_front()?;
        self.waiting -= 1;
        Some(next)
    }

    /// The message of `key` is finished: the next one of the key becomes ready.
    pub(super) fn finish_key(&mut self, key: Key) {
        let Entry::Occupied(mut in_hand) = self.blocked.entry(key) else { return };
        match in_hand.get_mut().pop_front() {
            Some(item) => self.ready.push_back((Some(key), item)),
            None => drop(in_hand.remove()),
        }
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// How many messages wait, ready or blocked.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Removes every message that `leaves` selects, and keeps the order of the others.
    pub(super) fn drain_where(&mut self, mut leaves: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        for behind in self.blocked.values_mut() {
            let (leaving, staying) = std::mem::take(behind).into_iter().partition::<Vec<_>, _>(|item| leaves(item));
            taken.extend(leaving);
            behind.extend(staying);
        }
        for (key, item) in std::mem::take(&mut self.ready) {
            if !leaves(&item) {
                self.ready.push_back((key, item));
                continue;
            }
            taken.push(item);
            // Its key passes to the next message, which `leaves` was already called for.
            if let Some(key) = key {
                self.finish_key(key);
            }
        }
        self.waiting -= taken.len();
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(key: &str) -> Option<Key> {
        key.bytes().next().map(u64::from)
    }

    #[test]
    fn one_item_per_key_at_a_time_in_order() {
        let mut queue = KeyedQueue::default();
        for (item, of) in [(1, key("a")), (2, key("a")), (3, None), (4, key("b")), (5, key("a"))] {
            queue.push(of, item);
        }
        let (a, one) = queue.next().unwrap();
        assert_eq!((one, queue.waiting()), (1, 4));
        assert_eq!(queue.next().unwrap().1, 3);
        assert_eq!(queue.next().unwrap().1, 4);
        assert!(queue.next().is_none() && !queue.has_ready(), "2 and 5 wait for 1");
        queue.finish_key(a.unwrap());
        let (a, two) = queue.next().unwrap();
        queue.push(key("a"), 6);
        queue.finish_key(a.unwrap());
        assert_eq!((two, queue.next().unwrap().1), (2, 5));
        queue.finish_key(key("a").unwrap());
        assert_eq!(queue.next().unwrap().1, 6);
        queue.finish_key(key("a").unwrap());
        queue.finish_key(key("b").unwrap());
        assert!(queue.blocked.is_empty(), "unused keys are dropped");
    }

    #[test]
    fn a_drained_item_unblocks_the_next_of_its_key() {
        let mut queue = KeyedQueue::default();
        for (item, of) in [(1, key("a")), (2, key("a")), (3, key("a")), (4, None)] {
            queue.push(of, item);
        }
        let mut left = queue.drain_where(|item| [1, 2].contains(item));
        left.sort_unstable();
        assert_eq!((left, queue.waiting()), (vec![1, 2], 2));
        assert_eq!((queue.next().unwrap().1, queue.next().unwrap().1), (3, 4));
        queue.finish_key(key("a").unwrap());
        queue.push(key("a"), 5);
        let (a, _) = queue.next().unwrap();
        queue.push(key("a"), 6);
        assert_eq!(queue.drain_where(|_| true), [6], "a message in flight is not drained");
        queue.finish_key(a.unwrap());
        assert!(queue.blocked.is_empty() && queue.waiting() == 0);
    }
}
