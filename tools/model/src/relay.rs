//! The two relays.

/// One of the two relays, each a process of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RelayId {
    /// The one.
    A,
    /// The other.
    B,
}

impl RelayId {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::A, Self::B];

    /// The one that this is not.
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}
