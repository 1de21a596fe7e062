/// How far a verification is. It is told after each page and each batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// What is done.
    pub phase: Phase,
    /// How much of it is done: rows, records, or messages.
    pub done: u64,
    /// Of how much, if that is known.
    pub of: Option<u64>,
}

/// What a verification does, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// It reads the tables.
    Rows,
    /// It reads the topic.
    Records,
    /// It compares them. The progress of that is not told.
    Comparing,
    /// It looks up again what may be wrong.
    Checking,
}
