//! What happened when, and to whom.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::app::now_ms;
use crate::schedule::{Fault, Kind};

/// A fault as it happened.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Window {
    pub(crate) name: &'static str,
    /// Whom it concerned; all where it names none.
    pub(crate) application: Option<usize>,
    /// Milliseconds since 1970.
    pub(crate) from_ms: u64,
    pub(crate) until_ms: u64,
    /// For how long behind its end a message may still be sent that comes twice by it.
    pub(crate) lasts_ms: u64,
    /// Whether a message may come twice by it.
    pub(crate) doubles: bool,
    /// Which explanation is the better one, where there are two.
    kind: Option<Kind>,
}

impl Window {
    /// A moment of a fault that doubles.
    #[cfg(test)]
    pub(crate) fn at(name: &'static str, application: usize, at_ms: u64) -> Self {
        let application = Some(application);
        Self { name, application, from_ms: at_ms, until_ms: at_ms, lasts_ms: 0, doubles: true, kind: None }
    }

    pub(crate) fn rank(&self) -> (bool, Option<Kind>) {
        // What nobody planned explains last.
        (self.kind.is_none(), self.kind)
    }
}

/// Every fault so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Journal {
    windows: Arc<Mutex<Vec<Window>>>,
}

impl Journal {
    /// Notes that a fault begins; returns its place.
    pub(crate) fn begin(&self, fault: Fault, delivery_ms: u64) -> usize {
        // A message that timed out at the end of an outage is sent again, and with it whatever the client had beside it.
        let lasts_ms = match fault.kind {
            Kind::KillBroker | Kind::CutBroker | Kind::Pause => delivery_ms + 1_000,
            _ => 500,
        };
        let now = now_ms();
        let mut windows = self.lock();
        windows.push(Window {
            name: fault.kind.name(),
            application: fault.application,
            from_ms: now,
            until_ms: u64::MAX / 2,
            lasts_ms,
            doubles: fault.kind.doubles(),
            kind: Some(fault.kind),
        });
        windows.len() - 1
    }

    pub(crate) fn end(&self, place: usize) {
        if let Some(window) = self.lock().get_mut(place) {
            window.until_ms = now_ms();
        }
    }

    /// A process did not run, and nobody had stopped it.
    pub(crate) fn stalled(&self, application: usize, from_ms: u64, until_ms: u64) {
        let mut windows = self.lock();
        // Being stopped by us is a stall, too.
        let is_known = windows.iter().any(|window| {
            window.kind == Some(Kind::Pause)
                && window.application == Some(application)
                && window.from_ms <= until_ms
                && window.until_ms >= from_ms
        });
        if !is_known {
            let (name, application) = ("machine too busy", Some(application));
            // As long as behind a stop by us: what the client had is sent when it runs again.
            windows.push(Window { name, application, from_ms, until_ms, lasts_ms: 3_000, doubles: true, kind: None });
        }
    }

    /// A client said that messages failed, the first of which it had for as long as it may.
    pub(crate) fn failed(&self, application: usize, from_ms: u64, until_ms: u64) {
        let (name, application) = ("client gave up", Some(application));
        self.lock().push(Window { name, application, from_ms, until_ms, lasts_ms: 3_000, doubles: true, kind: None });
    }

    pub(crate) fn windows(&self) -> Vec<Window> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Window>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
