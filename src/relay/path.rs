//! The ways a row can come to the transport.

/// Which way a row came to the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    /// With its row, straight from the transaction that proved its commit.
    Direct,
    /// Through the hook and the confirm read.
    Confirmed,
    /// Found by the sweeper.
    Swept,
    /// Read from its lane, by the owner of that.
    Lane,
}

impl Path {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Confirmed => "confirmed",
            Self::Swept => "swept",
            Self::Lane => "lane",
        }
    }
}
