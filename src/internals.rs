//! For our own tests, benches and tools (feature `_internals`). It may change at any time.

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
