//! The paths by which a row reaches the transport.

/// By which path a row reached the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    /// Inline: the row came straight from the transaction, and its commit is verified.
    Direct,
    /// Through the hook and the confirm read.
    Confirmed,
    /// Found by the sweeper.
    Swept,
    /// Read from its lane by the lane's owner.
    Lane,
}

impl Path {
    pub(crate) const ALL: &[Self] = &[Self::Direct, Self::Confirmed, Self::Swept, Self::Lane];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Confirmed => "confirmed",
            Self::Swept => "swept",
            Self::Lane => "lane",
        }
    }
}
