//! What our own tests, benches and tools need, and nobody else can rely on (feature `_internals`).

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

/// The suite that every store is held to.
pub mod store_suite {
    pub use crate::testing::store::*;
}
