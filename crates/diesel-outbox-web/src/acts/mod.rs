//! The acts: each a POST that the audit records with its actor and their reason.

pub(crate) mod bulk;
pub(crate) mod edit;
pub(crate) mod message;
pub(crate) mod parked;
pub(crate) mod topics;

use crate::failure::Failure;

/// A reason that somebody gave.
fn required(reason: &str) -> Result<&str, Failure> {
    match reason.trim() {
        "" => Err(Failure::bad("Give a reason: the audit keeps it. Nothing was changed.")),
        reason => Ok(reason),
    }
}
