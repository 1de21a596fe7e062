//! How much the next claim of a topic may take.

use std::time::Duration;

/// A full claim, halved a number of times.
///
/// A claim that was read too late sends nothing and gives everything back. The next claim of the same size would be
/// late as well: with a database that is slow for an hour, or always far away, nothing would ever be sent. Waiting
/// longer instead would keep the rows locked, and the connection busy, for as long as the database takes.
///
/// For large rows, a claim asks for about as many as its bytes hold, because a database locks every row that it reads.
/// With rows of 50 kB it locked 2,000 to send 160. The next claim began behind all of them, so a traversal skipped twelve
/// rows for each one it sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ClaimSize {
    halvings: u32,
    /// Further halvings that apply to the rows and not to the bytes.
    row_halvings: u32,
}

impl ClaimSize {
    /// Halvings of the largest count; there is always one row.
    const HALVINGS_MAX: u32 = usize::BITS - 1;

    pub(crate) fn of(self, full_size: usize) -> usize {
        (full_size >> self.halvings).max(1)
    }

    pub(crate) fn rows_of(self, full_size: usize) -> usize {
        (self.of(full_size) >> self.row_halvings).max(1)
    }

    /// A claim took `rows` of `rows_max`, and more were free: it was full, or limited by its bytes.
    pub(crate) fn note_claimed(&mut self, rows: usize, rows_max: usize) {
        if rows >= rows_max {
            self.row_halvings = self.row_halvings.saturating_sub(1);
        } else if rows <= rows_max / 2 {
            self.row_halvings = (self.row_halvings + 1).min(Self::HALVINGS_MAX);
        }
    }

    /// A claim of at most this many rows was late. `false` if it was a claim of one row, so that nothing smaller is
    /// left.
    pub(crate) fn note_late(&mut self, rows_max: usize) -> bool {
        let can_shrink = rows_max > 1;
        if can_shrink {
            self.halvings = (self.halvings + 1).min(Self::HALVINGS_MAX);
        }
        can_shrink
    }

    /// A claim was read in `read`, of its `lease`. One twice as large takes at most twice as long, and is allowed again
    /// if that still fits.
    pub(crate) fn note_in_time(&mut self, read: Duration, lease: Duration) {
        if read * 2 <= lease {
            self.halvings = self.halvings.saturating_sub(1);
        }
    }

    pub(crate) fn is_full_size(self) -> bool {
        self.halvings == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(2);

    #[test]
    fn late_claims_shrink_to_one_row_and_grow_back() {
        let mut size = ClaimSize::default();
        let mut shrinks = 0;
        while size.note_late(size.of(2_000)) {
            shrinks += 1;
            assert!(shrinks <= 11, "{size:?}");
        }
        assert_eq!((size.of(2_000), size.of(1)), (1, 1));
        for _ in 0..shrinks {
            assert!(!size.is_full_size());
            size.note_in_time(LEASE / 4, LEASE);
        }
        assert_eq!((size.of(2_000), size.is_full_size()), (2_000, true));
    }

    #[test]
    fn a_size_that_would_be_late_if_doubled_stays() {
        let mut size = ClaimSize::default();
        assert!(size.note_late(2_000));
        size.note_in_time(LEASE / 2 + Duration::from_millis(1), LEASE);
        assert_eq!(size.of(2_000), 1_000);
        size.note_in_time(LEASE / 2, LEASE);
        assert_eq!(size.of(2_000), 2_000);
    }

    #[test]
    fn large_rows_shrink_the_claim_and_small_ones_restore_it() {
        let (mut size, mut sizes) = (ClaimSize::default(), Vec::new());
        for fitting in [160, 160, 160, 160, 160, 2_000, 2_000, 2_000, 2_000] {
            let rows_max = size.rows_of(2_000);
            sizes.push(rows_max);
            size.note_claimed(fitting.min(rows_max), rows_max);
        }
        assert_eq!(sizes, [2_000, 1_000, 500, 250, 250, 250, 500, 1_000, 2_000]);
        assert_eq!(size.of(8 << 20), 8 << 20, "the bytes are as many as ever");
        for _ in 0..200 {
            size.note_claimed(0, 2_000);
        }
        assert_eq!(size.rows_of(2_000), 1);
    }

    /// Many late claims of many rows still leave a claim of one row.
    #[test]
    fn there_is_always_one_row() {
        let mut size = ClaimSize::default();
        for _ in 0..200 {
            size.note_late(2_000);
        }
        assert_eq!((size.of(usize::MAX), size.of(2_000)), (1, 1));
    }
}
