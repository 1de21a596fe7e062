//! Tells customers to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that is set once. A clone is the same flag.
#[derive(Debug, Clone, Default)]
pub struct StopLoad(Arc<AtomicBool>);

impl StopLoad {
    /// Sets it.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is set.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
