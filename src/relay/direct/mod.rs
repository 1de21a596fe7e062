//! The direct path: a committed row goes from the commit hook's queue to the transport.

pub(super) mod confirm_batching;
pub(super) mod dispatcher;
pub(super) mod linger_trial;
pub(crate) mod queue;
pub(super) mod run_queue;
