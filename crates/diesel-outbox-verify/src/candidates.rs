//! What may be a finding: so many are kept, all are counted.

/// Candidates of one verdict.
#[derive(Debug)]
pub(crate) struct Candidates<T> {
    pub(crate) kept: Vec<T>,
    pub(crate) total: u64,
    max: usize,
}

impl<T> Candidates<T> {
    pub(crate) fn new(max: usize) -> Self {
        Self { kept: Vec::new(), total: 0, max }
    }

    pub(crate) fn push(&mut self, candidate: T) {
        self.total += 1;
        if self.kept.len() < self.max {
            self.kept.push(candidate);
        }
    }

    /// Whether some are counted only.
    pub(crate) fn is_cut(&self) -> bool {
        self.total > self.kept.len() as u64
    }

    /// Where it stands, to go back there.
    pub(crate) fn mark(&self) -> (usize, u64) {
        (self.kept.len(), self.total)
    }

    pub(crate) fn go_back(&mut self, (kept, total): (usize, u64)) {
        self.kept.truncate(kept);
        self.total = total;
    }
}
