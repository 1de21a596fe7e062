//! Guards against panics in a clock that the application provides.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::clock::{BootInstant, Clock, SystemClock};
use crate::panic_guard::catch_panic;

/// Reads the application's clock until that panics, and then adds the machine's time to its first reading. A clock is read
/// under locks and by the transport's threads, where a panic would lose outcomes.
#[derive(Debug)]
pub(crate) struct GuardedClock<C> {
    clock: C,
    has_panicked: AtomicBool,
    began_at: BootInstant,
    machine_began_at: BootInstant,
}

impl<C: Clock> GuardedClock<C> {
    pub(crate) fn new(clock: C) -> Self {
        let machine_began_at = SystemClock.now();
        let first = catch_panic("clock", "", || clock.now());
        let has_panicked = AtomicBool::new(first.is_none());
        Self { clock, has_panicked, began_at: first.unwrap_or(machine_began_at), machine_began_at }
    }
}

impl<C: Clock> Clock for GuardedClock<C> {
    fn now(&self) -> BootInstant {
        if !self.has_panicked.load(Ordering::Relaxed) {
            if let Some(now) = catch_panic("clock", "", || self.clock.now()) {
                return now;
            }
            self.has_panicked.store(true, Ordering::Relaxed);
        }
        self.began_at + self.machine_began_at.until(SystemClock.now())
    }
}
