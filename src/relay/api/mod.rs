//! What a user calls: building, starting, watching and ending a relay.

pub(super) mod blocking;
pub(super) mod builder;
pub(super) mod callbacks;
pub(super) mod flush;
pub(super) mod handle;
pub(super) mod panicked;
pub(super) mod relays;
pub(super) mod routes;
pub(super) mod shutdown;
pub(super) mod start_error;
pub(super) mod startup_checks;
