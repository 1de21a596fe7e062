//! The engine: takes what was committed and sees to it that it is sent.

pub(crate) mod queue;
