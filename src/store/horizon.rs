//! Which transactions a read could see.

/// The transactions that a read could see, in a database that numbers them at their first write.
///
/// A row may still appear below ids already read while a transaction is open that was open at that read. Once all of those have
/// ended, none can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Horizon {
    /// Every transaction with a lower number had ended. What they committed was visible.
    pub ended_below: u64,
    /// No transaction with this number or a higher one had begun.
    pub begun_below: u64,
}
