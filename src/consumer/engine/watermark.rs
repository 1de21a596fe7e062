//! How far a partition is done without a gap.

use std::collections::VecDeque;

/// The records of a partition from the first unfinished one on.
///
/// Offsets grow, and need not be adjacent: transactions and compaction leave gaps.
#[derive(Debug)]
pub(crate) struct Watermark {
    /// Every record below is finished.
    next: i64,
    entries: VecDeque<Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    offset: i64,
    is_finished: bool,
}

impl Watermark {
    /// Of a partition that is read from an offset on.
    pub(crate) fn new(start: i64) -> Self {
        Self { next: start, entries: VecDeque::new() }
    }

    /// The offset to go on from after a restart.
    pub(crate) fn next(&self) -> i64 {
        self.next
    }

    /// The last record that was added, or the one before the first.
    pub(crate) fn last(&self) -> i64 {
        self.entries.back().map_or(self.next - 1, |last| last.offset)
    }

    /// Whether a record comes after later ones, and was not there before: the source has left it out.
    pub(crate) fn is_missing(&self, offset: i64) -> bool {
        let is_behind = self.entries.back().is_some_and(|last| offset < last.offset);
        is_behind && offset >= self.next && self.entries.binary_search_by_key(&offset, |entry| entry.offset).is_err()
    }

    /// Adds a record. Returns false for one that was added before, or that lies below the start.
    pub(crate) fn add(&mut self, offset: i64) -> bool {
        let is_new = offset > self.last();
        if is_new {
            self.entries.push_back(Entry { offset, is_finished: false });
        }
        is_new
    }

    /// Marks a record as finished, and moves on over all that are.
    pub(crate) fn finish(&mut self, offset: i64) {
        let Ok(place) = self.entries.binary_search_by_key(&offset, |entry| entry.offset) else { return };
        self.entries[place].is_finished = true;
        while let Some(first) = self.entries.front().filter(|first| first.is_finished) {
            self.next = first.offset + 1;
            self.entries.pop_front();
        }
    }

    /// Records at and behind the first unfinished one, finished or not.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The unfinished records, in order.
    #[cfg(test)]
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = i64> {
        self.entries.iter().filter(|entry| !entry.is_finished).map(|entry| entry.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_passes_an_unfinished_record() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut offsets = Vec::new();
            let mut offset = random.i64(0..100);
            let mut watermark = Watermark::new(offset);
            for _ in 0..random.usize(1..50) {
                offset += random.i64(1..4);
                offsets.push(offset);
                assert!(watermark.add(offset) && !watermark.add(offset), "once");
            }
            let mut unfinished = offsets.clone();
            random.shuffle(&mut offsets);
            let mut before = watermark.next();
            for done in offsets {
                watermark.finish(done);
                unfinished.retain(|left| *left != done);
                let next = watermark.next();
                assert!(next >= before, "seed {seed}: it goes back");
                assert!(
                    unfinished.iter().all(|left| *left >= next),
                    "seed {seed}: {next} passes one of {unfinished:?}"
                );
                assert!(watermark.unfinished().eq(unfinished.iter().copied()), "seed {seed}");
                before = next;
            }
            assert_eq!((watermark.next(), watermark.len()), (offset + 1, 0), "seed {seed}: all are done");
        }
    }

    #[test]
    fn a_record_that_was_left_out_is_noticed() {
        let mut watermark = Watermark::new(10);
        assert!(watermark.add(11) && watermark.add(14));
        watermark.finish(11);
        let missing: Vec<i64> = (8..18).filter(|offset| watermark.is_missing(*offset)).collect();
        assert_eq!(missing, [12, 13], "below are those that are done");
    }

    #[test]
    fn what_it_does_not_know_changes_nothing() {
        let mut watermark = Watermark::new(10);
        assert!(!watermark.add(9), "below the start");
        assert!(watermark.add(10));
        watermark.finish(9);
        watermark.finish(11);
        assert_eq!((watermark.next(), watermark.len()), (10, 1));
    }
}
