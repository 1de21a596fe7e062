//! How the program ends.

use std::process::ExitCode;

/// How a command has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It is done, or nothing is wrong.
    Fine = 0,
    /// It failed.
    Failed = 1,
    /// The arguments are wrong.
    Usage = 2,
    /// It found something wrong.
    Found = 3,
    /// It found nothing wrong, but could not look at everything.
    Unknown = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
