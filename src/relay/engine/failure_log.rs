//! Repeated failures that several workers of an engine meet: together they log each once a minute.

use crate::repeated::Repeated;

#[derive(Debug, Default)]
pub(crate) struct FailureLog {
    pub(crate) confirm: Repeated,
    pub(crate) flush: Repeated,
    /// Steps of a lane reader, both reads of which failed.
    pub(crate) lane_reads: Repeated,
    /// Settles that are tried again at once.
    pub(crate) settle: Repeated,
    /// Settles that are tried again later.
    pub(crate) settle_later: Repeated,
    /// Delivered rows that another relay had removed.
    pub(crate) settle_missed: Repeated,
    /// Failures and dead letters that could not be written.
    pub(crate) write: Repeated,
}
