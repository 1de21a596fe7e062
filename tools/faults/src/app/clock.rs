//! A clock that can jump: what a relay sees of a machine that was suspended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use diesel_outbox::internals::clock::{BootInstant, Clock, SystemClock};

/// The machine's clock plus its jumps. Forward only: no clock that measures leases goes back.
#[derive(Debug, Clone, Default)]
pub(super) struct JumpingClock {
    ahead_ms: Arc<AtomicU64>,
}

impl JumpingClock {
    pub(super) fn jump(&self, by: Duration) {
        self.ahead_ms.fetch_add(u64::try_from(by.as_millis()).unwrap_or(0), Ordering::Relaxed);
    }
}

impl Clock for JumpingClock {
    fn now(&self) -> BootInstant {
        SystemClock.now() + Duration::from_millis(self.ahead_ms.load(Ordering::Relaxed))
    }
}
