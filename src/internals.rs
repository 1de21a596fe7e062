//! For our own tests, benches and tools (feature `_internals`). It may change at any time.

/// The clock of leases.
pub mod clock {
    pub use crate::clock::{BootInstant, Clock, SystemClock};
}

/// The log events.
pub mod events {
    pub use crate::events::{ALL, Event};
}

/// The limits that are fixed.
pub mod limits {
    pub use crate::limits::*;
}

/// The metrics, by their names.
pub mod metrics {
    pub use crate::metrics::names::*;
}

/// The interface between a relay and its database.
pub mod store {
    pub use crate::store::internals::*;
}

/// The suite that every store must pass.
pub mod store_suite {
    pub use crate::testing::store::*;
}
