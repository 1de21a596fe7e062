//! Detects that the tasks of a relay no longer run. A heartbeat task records the time while it is polled. If the runtime ends, the
//! task is dropped and records that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::sleep;

use super::engine::stop::{Stage, Stop};
use crate::clock::{BootInstant, Clock};
use crate::limits::{RELAY_BEAT_INTERVAL, RELAY_STALLED_AFTER};

/// Whether a relay's tasks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Runs,
    /// Its tasks have not been polled since then.
    Stalled(BootInstant),
    /// Its runtime has ended.
    RuntimeGone,
}

#[derive(Debug)]
pub(crate) struct Liveness(Mutex<State>);

#[derive(Debug)]
struct State {
    beat_at: BootInstant,
    is_dropped: bool,
}

impl Liveness {
    pub(crate) fn new(now: BootInstant) -> Self {
        Self(Mutex::new(State { beat_at: now, is_dropped: false }))
    }

    /// Beats until the relay ends. The runtime may end before it has polled this task.
    pub(crate) fn run(self: Arc<Self>, stop: Arc<Stop>, clock: Arc<dyn Clock>) -> impl Future<Output = ()> + Send {
        let dropped = Dropped { liveness: Arc::clone(&self), stop: Arc::clone(&stop) };
        async move {
            let _dropped = dropped;
            loop {
                self.state().beat_at = clock.now();
                tokio::select! {
                    () = sleep(RELAY_BEAT_INTERVAL) => {}
                    () = stop.reached(Stage::Ending) => return,
                }
            }
        }
    }

    pub(crate) fn at(&self, now: BootInstant) -> Life {
        let state = self.state();
        match state.is_dropped {
            true => Life::RuntimeGone,
            false if state.beat_at.until(now) >= RELAY_STALLED_AFTER => Life::Stalled(state.beat_at),
            false => Life::Runs,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Dropped when the task ends, or with the runtime.
struct Dropped {
    liveness: Arc<Liveness>,
    stop: Arc<Stop>,
}

impl Drop for Dropped {
    fn drop(&mut self) {
        if !self.stop.has_reached(Stage::Ending) {
            self.liveness.state().is_dropped = true;
        }
    }
}
