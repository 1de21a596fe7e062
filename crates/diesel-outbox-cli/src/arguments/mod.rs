//! What may be written on the command line, whichever the command.

mod filters;
mod options;

pub(crate) use filters::{DeadLetterArgs, Header, Limit, UnprocessedArgs, When};
pub(crate) use options::{Format, Options};
