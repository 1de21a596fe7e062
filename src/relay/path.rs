//! The paths by which a row reaches the transport.

/// By which path a row reached the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    /// The row came straight from the transaction, and its commit is verified.
    Inline,
    /// Through the hook and the confirm read.
    Confirmed,
    /// Found by the sweeper.
    Swept,
    /// Read from its lane by the lane's owner.
    Lane,
}

impl Path {
    pub(crate) const ALL: &[Self] = &[Self::Inline, Self::Confirmed, Self::Swept, Self::Lane];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Confirmed => "confirmed",
            Self::Swept => "swept",
            Self::Lane => "lane",
        }
    }
}
