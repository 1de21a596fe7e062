//! Whether the messages of each key were sent in the order of their rows.

use std::io;

use diesel_outbox::MessageId;

use crate::candidates::Candidates;
use crate::entry::Placed;

/// The outcome.
#[derive(Debug)]
pub(crate) struct Order {
    /// An earlier message, and a later one of its key that was sent before it.
    pub(crate) reordered: Candidates<(Placed, Placed)>,
    /// Keys with records in several partitions.
    pub(crate) scattered: u64,
    /// A message of the first one.
    pub(crate) example: Option<MessageId>,
}

/// A key whose messages are being read.
struct Key {
    /// The message that is the furthest in the topic so far.
    furthest: Placed,
    is_scattered: bool,
    /// What was found before it.
    before: (usize, u64),
}

/// Reads the first copies of all messages, by key and row. It blocks.
pub(crate) fn check(placed: impl Iterator<Item = io::Result<Placed>>, findings_max: usize) -> io::Result<Order> {
    let mut order = Order { reordered: Candidates::new(findings_max), scattered: 0, example: None };
    let mut key: Option<Key> = None;
    for placed in placed {
        let placed = placed?;
        match &mut key {
            Some(key) if key.furthest.key == placed.key => order.push(key, placed),
            _ => key = Some(Key { furthest: placed, is_scattered: false, before: order.reordered.mark() }),
        }
    }
    Ok(order)
}

impl Order {
    fn push(&mut self, key: &mut Key, placed: Placed) {
        if key.is_scattered {
            return;
        }
        if placed.partition != key.furthest.partition {
            key.is_scattered = true;
            self.scattered += 1;
            self.example.get_or_insert(placed.message_id());
            self.reordered.go_back(key.before);
        } else if placed.offset < key.furthest.offset {
            self.reordered.push((key.furthest, placed));
        } else {
            key.furthest = placed;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::entry::{Entry, Origin};
    use crate::record::Record;

    /// A message of a key, by its row and where its first copy is.
    fn placed(key: &str, row: i64, partition: u32, offset: i64) -> Placed {
        let mut record = Record::new(partition, offset, SystemTime::UNIX_EPOCH);
        record.key = Some(key.into());
        let copy = Entry::of_record(&record, MessageId::new());
        Placed::of(&copy.moved(Origin::History, row), &copy)
    }

    fn check(mut all: Vec<Placed>, findings_max: usize) -> Order {
        all.sort_unstable();
        super::check(all.into_iter().map(Ok), findings_max).expect("read")
    }

    #[test]
    fn each_key_has_its_own_order() {
        let order = check(vec![placed("a", 1, 0, 10), placed("b", 2, 0, 5), placed("a", 3, 0, 11)], 10);
        assert_eq!((order.reordered.total, order.scattered), (0, 0));
    }

    #[test]
    fn a_message_that_overtook_an_earlier_one_is_found_with_it() {
        let all = [placed("a", 1, 0, 10), placed("a", 2, 0, 12), placed("a", 3, 0, 11), placed("a", 4, 0, 13)];
        let order = check(all.to_vec(), 10);
        assert_eq!(order.reordered.kept, [(all[1], all[2])]);
    }

    #[test]
    fn every_overtaking_is_counted_and_some_are_kept() {
        let order = check((0..100).map(|row| placed("a", row, 0, -row)).collect(), 10);
        assert_eq!((order.reordered.total, order.reordered.kept.len()), (99, 10));
        assert!(order.reordered.is_cut());
    }

    #[test]
    fn a_key_in_several_partitions_has_no_order() {
        let other = [placed("b", 1, 0, 2), placed("b", 2, 0, 1)];
        let all = [placed("a", 1, 0, 11), placed("a", 2, 0, 10), placed("a", 3, 1, 9), placed("a", 4, 0, 8)];
        let order = check([&all[..], &other].concat(), 10);
        assert_eq!((order.scattered, order.example), (1, Some(all[2].message_id())));
        assert_eq!(order.reordered.kept, [(other[0], other[1])], "what was found of it before is withdrawn");
        assert_eq!(order.reordered.total, 1);
    }
}
