//! What a read could see of transactions.

/// Which transactions a read could see, in a database that numbers them when they first write.
///
/// A row may appear behind higher ids as long as a transaction is open that was when those were read: once all of them have
/// ended, none does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Horizon {
    /// Every transaction with a lower number had ended: what they committed was seen.
    pub ended_below: u64,
    /// No transaction with this number or a higher one had begun.
    pub begun_below: u64,
}
