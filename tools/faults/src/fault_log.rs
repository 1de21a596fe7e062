//! Logs what happened when, and to which application.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::app::now_ms;
use crate::schedule::{Fault, Kind};
use crate::wire::Times;

/// A fault that happened.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FaultWindow {
    pub(crate) name: &'static str,
    /// The application it hit; `None` means all.
    pub(crate) application: Option<usize>,
    /// Milliseconds since 1970.
    pub(crate) from_ms: u64,
    pub(crate) until_ms: u64,
    /// For how long after its end a message that it duplicates may still be sent.
    pub(crate) lasts_ms: u64,
    /// The last time of a copy that it explains, by which everything has recovered. In the far future until that is
    /// known.
    pub(crate) explains_until_ms: u64,
    /// Whether it may cause duplicates.
    pub(crate) may_duplicate: bool,
    /// Decides which of two explanations is better.
    kind: Option<Kind>,
}

impl FaultWindow {
    /// A broker that is down.
    #[cfg(test)]
    pub(crate) fn down(from_ms: u64, until_ms: u64) -> Self {
        Self::of(Kind::KillBroker, None, [from_ms, until_ms])
    }

    /// A fault of a kind between two times.
    #[cfg(test)]
    pub(crate) fn of(kind: Kind, application: Option<usize>, [from_ms, until_ms]: [u64; 2]) -> Self {
        Self { application, kind: Some(kind), ..Self::unplanned(kind.name(), 0, [from_ms, until_ms], 0) }
    }

    /// A fault at a moment that may cause duplicates.
    #[cfg(test)]
    pub(crate) fn at(name: &'static str, application: usize, at_ms: u64) -> Self {
        Self { may_duplicate: true, ..Self::unplanned(name, application, [at_ms, at_ms], 0) }
    }

    /// Something unplanned in an application; by itself it explains nothing.
    fn unplanned(name: &'static str, application: usize, [from_ms, until_ms]: [u64; 2], lasts_ms: u64) -> Self {
        let (application, explains_until_ms) = (Some(application), NEVER);
        Self { name, application, from_ms, until_ms, lasts_ms, explains_until_ms, may_duplicate: false, kind: None }
    }

    /// Whether it may have caused a copy at `copy_ms` of a message that was stored before at `before_ms`, if it hit a
    /// sender.
    pub(crate) fn explains(&self, before_ms: u64, copy_ms: u64) -> bool {
        let is_between = self.from_ms <= copy_ms && self.until_ms + self.lasts_ms >= before_ms;
        self.may_duplicate && is_between && copy_ms <= self.explains_until_ms
    }

    /// Whether it hit one of these applications, or all.
    pub(crate) fn hits(&self, applications: &[usize]) -> bool {
        self.application.is_none_or(|application| applications.contains(&application))
    }

    /// Whether nobody may have been there meanwhile to send again what it left behind: a server was down, or a further
    /// application had died at a step. Where these die all the time, several owners of a lane do in succession.
    pub(crate) fn holds_up_copies(&self) -> bool {
        self.is_crash_of_application() || self.kind.is_some_and(Kind::is_of_server)
    }

    /// Whether an application died at a step.
    pub(crate) fn is_crash_of_application(&self) -> bool {
        self.kind == Some(Kind::CrashApplication)
    }

    /// Whether the database's clock was wrong between these times, or was corrected just before.
    pub(crate) fn skews(&self, from_ms: u64, until_ms: u64) -> bool {
        self.kind.is_some_and(Kind::is_of_clock) && self.from_ms <= until_ms && self.until_ms + self.lasts_ms >= from_ms
    }

    /// Whether it delayed anything between these times. A held snapshot must delay nothing.
    pub(crate) fn holds_up(&self, from_ms: u64, until_ms: u64) -> bool {
        self.kind != Some(Kind::HoldSnapshot) && self.from_ms <= until_ms && self.until_ms + self.lasts_ms >= from_ms
    }

    /// Whether its application's connections to the database were cut between these times, so that the database may
    /// still count closed ones.
    pub(crate) fn cuts_database(&self, application: Option<usize>, from_ms: u64, until_ms: u64) -> bool {
        self.kind == Some(Kind::CutDatabase)
            && self.application == application
            && self.from_ms <= until_ms
            && self.until_ms + CUT_LASTS_MS >= from_ms
    }

    /// Whether a snapshot was held all the time between these moments.
    pub(crate) fn holds_snapshot(&self, from_ms: u64, until_ms: u64) -> bool {
        self.kind == Some(Kind::HoldSnapshot) && self.from_ms <= from_ms && self.until_ms >= until_ms
    }

    pub(crate) fn rank(&self) -> (bool, Option<Kind>) {
        // Unplanned events are the last choice.
        (self.kind.is_none(), self.kind)
    }
}

/// How long after a cut the database may still have closed connections: a statement of theirs must end first.
const CUT_LASTS_MS: u64 = 15_000;

/// Later than everything.
const NEVER: u64 = u64::MAX / 2;

/// Every fault so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct FaultLog {
    windows: Arc<Mutex<Vec<FaultWindow>>>,
}

impl FaultLog {
    /// Logs the begin of a fault; returns its index.
    pub(crate) fn begin(&self, fault: Fault, times: Times) -> usize {
        let in_flight_ms = times.delivery_ms + 1_000;
        let lasts_ms = match fault.kind {
            // A message that timed out at the end of an outage is sent again, with whatever else the client held.
            Kind::KillBroker | Kind::CutBroker | Kind::Pause => in_flight_ms,
            // What waited for the lock is in flight when that ends.
            Kind::LockTable => in_flight_ms,
            // Where the clock goes forward, leases end at once, and others claim their rows. By their own clocks, the
            // holders may go on sending these for as long as a lease. A clock that was behind goes forward at the end.
            Kind::DatabaseBehind => times.lease_ms,
            // One that is ahead did so at its beginning. At its end, what was due by it is in flight.
            Kind::DatabaseAhead => in_flight_ms.max(times.lease_ms.saturating_sub(fault.for_ms)),
            _ => 500,
        };
        let now = now_ms();
        let mut windows = self.lock();
        windows.push(FaultWindow {
            name: fault.kind.name(),
            application: fault.application,
            from_ms: now,
            until_ms: NEVER,
            lasts_ms,
            explains_until_ms: NEVER,
            may_duplicate: fault.kind.may_duplicate(),
            kind: Some(fault.kind),
        });
        windows.len() - 1
    }

    pub(crate) fn end(&self, place: usize) {
        if let Some(window) = self.lock().get_mut(place) {
            window.until_ms = now_ms();
        }
    }

    /// A process that was told to die worked on, and died at this time: what it did before, its death does not explain.
    pub(crate) fn began_at(&self, place: usize, at_ms: u64) {
        if let Some(window) = self.lock().get_mut(place) {
            window.from_ms = at_ms;
        }
    }

    /// It turned out to be another kind of fault.
    pub(crate) fn becomes(&self, place: usize, kind: Kind) {
        if let Some(window) = self.lock().get_mut(place) {
            (window.name, window.kind, window.may_duplicate) = (kind.name(), Some(kind), kind.may_duplicate());
        }
    }

    /// Gives a fault a name that says more.
    pub(crate) fn rename(&self, place: usize, name: &'static str) {
        if let Some(window) = self.lock().get_mut(place) {
            window.name = name;
        }
    }

    /// Whether a fault of this application has begun and not ended.
    pub(crate) fn has_fault(&self, application: usize) -> bool {
        self.lock().iter().any(|window| window.application == Some(application) && window.until_ms == NEVER)
    }

    /// Everything has recovered, except for what clients have in flight, which lasts this much longer.
    pub(crate) fn recovered(&self, delivery_ms: u64) {
        let now = now_ms();
        let open = |window: &&mut FaultWindow| window.explains_until_ms == NEVER && window.until_ms <= now;
        self.lock().iter_mut().filter(open).for_each(|window| window.explains_until_ms = now + delivery_ms + 1_000);
    }

    /// A process did not run, although nobody stopped it.
    pub(crate) fn stalled(&self, application: usize, from_ms: u64, until_ms: u64) {
        let mut windows = self.lock();
        // A stop by us is a stall, too.
        let is_known = windows.iter().any(|window| {
            window.kind.is_some_and(|kind| Kind::STOPS.contains(&kind))
                && window.application == Some(application)
                && window.from_ms <= until_ms
                && window.until_ms >= from_ms
        });
        if !is_known {
            // As long as after a stop by us: what the client held is sent when it runs again. The library does not
            // report it: a thread that has nothing to do with it stalled, too.
            let stall = FaultWindow::unplanned("machine too busy", application, [from_ms, until_ms], 3_000);
            windows.push(FaultWindow { may_duplicate: true, ..stall });
        }
    }

    /// The database committed nothing. Leases end meanwhile that nobody could extend.
    pub(crate) fn database_stalled(&self, from_ms: u64, until_ms: u64) {
        self.server_stalled("database too slow", [from_ms, until_ms]);
    }

    /// The broker acknowledged nothing, although nobody killed it. A message that it took may time out at its client.
    pub(crate) fn broker_stalled(&self, from_ms: u64, until_ms: u64) {
        let was_killed = self.lock().iter().any(|window| {
            window.kind == Some(Kind::KillBroker) && window.from_ms <= until_ms && window.until_ms >= from_ms
        });
        if !was_killed {
            self.server_stalled("broker too slow", [from_ms, until_ms]);
        }
    }

    /// It explains a message that was in flight, and whose lease ended soon after.
    fn server_stalled(&self, name: &'static str, [from_ms, until_ms]: [u64; 2]) {
        let times = Times::default();
        let stall = FaultWindow::unplanned(name, 0, [from_ms, until_ms], times.delivery_ms + 1_000);
        let explains_until_ms = until_ms + times.lease_ms + 1_000;
        self.lock().push(FaultWindow { application: None, may_duplicate: true, explains_until_ms, ..stall });
    }

    /// A client reported failed messages. The client is part of what is tested, so this explains no second copy; the
    /// fault behind it does.
    pub(crate) fn failed(&self, application: usize, from_ms: u64, until_ms: u64) {
        self.lock().push(FaultWindow::unplanned("client gave up", application, [from_ms, until_ms], 3_000));
    }

    pub(crate) fn windows(&self) -> Vec<FaultWindow> {
        self.lock().clone()
    }

    /// How many faults of a kind lasted at least this long, and how many there were in all.
    pub(crate) fn shares(windows: &[FaultWindow], kinds: &[Kind], lasting_ms: u64) -> (usize, usize) {
        let is_one = |window: &&FaultWindow| {
            window.kind.is_some_and(|kind| kinds.contains(&kind))
                && window.until_ms.saturating_sub(window.from_ms) >= lasting_ms
        };
        let planned = windows.iter().filter(|window| window.kind.is_some()).count();
        (windows.iter().filter(is_one).count(), planned)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<FaultWindow>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_has_a_fault_from_its_beginning_to_its_end() {
        let fault_log = FaultLog::default();
        let fault = |application| Fault { kind: Kind::CutBroker, application, for_ms: 0, amount: 0 };
        fault_log.begin(fault(None), Times::default());
        fault_log.failed(1, 0, 0);
        assert!(
            !fault_log.has_fault(1),
            "neither a server's fault nor a client's report counts as a fault of the application"
        );
        let place = fault_log.begin(fault(Some(1)), Times::default());
        assert!(fault_log.has_fault(1) && !fault_log.has_fault(0));
        fault_log.end(place);
        assert!(!fault_log.has_fault(1));
    }

    #[test]
    fn a_death_begins_when_it_comes_and_an_orderly_end_explains_nothing() {
        let fault_log = FaultLog::default();
        let fault = Fault { kind: Kind::CrashApplication, application: Some(1), for_ms: 0, amount: 0 };
        let place = fault_log.begin(fault, Times::default());
        let died_at = fault_log.windows()[0].from_ms + 5_000;
        fault_log.began_at(place, died_at);
        let explains = |at_ms| fault_log.windows()[0].explains(at_ms, at_ms);
        assert!(explains(died_at) && !explains(died_at - 1));
        fault_log.becomes(place, Kind::Restart);
        assert!(!explains(died_at) && !fault_log.windows()[0].is_crash_of_application());
        assert_eq!(FaultLog::shares(&fault_log.windows(), &[Kind::Restart], 0), (1, 1));
    }

    #[test]
    fn a_server_that_stalls_explains_copies_and_one_that_was_killed_does_so_by_its_death() {
        let fault_log = FaultLog::default();
        fault_log.database_stalled(1_000, 1_800);
        fault_log.broker_stalled(4_000, 6_100);
        let explains = |before_ms, copy_ms| {
            fault_log.windows().iter().any(|window| window.hits(&[2]) && window.explains(before_ms, copy_ms))
        };
        assert!(explains(900, 3_900) && explains(3_990, 7_000) && explains(9_000, 12_000));
        assert!(!explains(9_200, 12_300) && !explains(3_990, 12_200), "long after it");
        let fault = Fault { kind: Kind::KillBroker, application: None, for_ms: 0, amount: 0 };
        let place = fault_log.begin(fault, Times::default());
        let killed_ms = fault_log.windows()[place].from_ms;
        fault_log.end(place);
        fault_log.broker_stalled(killed_ms - 10, killed_ms + 2_000);
        assert_eq!(fault_log.windows().len(), 3);
    }

    #[test]
    fn a_fault_explains_what_comes_between_it_and_the_recovery() {
        let (fault_log, fault) =
            (FaultLog::default(), Fault { kind: Kind::LoseAcks, application: Some(1), for_ms: 0, amount: 0 });
        let place = fault_log.begin(fault, Times::default());
        fault_log.recovered(2_000);
        fault_log.end(place);
        let ended = fault_log.windows()[0].until_ms;
        assert!(
            fault_log.windows()[0].explains(ended, ended + 60_000),
            "it was still active when something else recovered"
        );
        fault_log.recovered(2_000);
        let window = &fault_log.windows()[0];
        assert!(window.explains(window.from_ms, ended + 2_500) && !window.explains(window.from_ms, ended + 60_000));
        assert!(!window.explains(ended + 5_000, ended + 5_100), "the first copy came long after it");
    }

    #[test]
    fn a_corrected_clock_explains_a_copy_of_a_row_whose_holder_still_believes_in_its_lease() {
        let times = Times::default();
        let long = times.lease_ms;
        for (kind, for_ms, explains) in [
            (Kind::DatabaseBehind, long, true),
            (Kind::DatabaseAhead, 0, true),
            (Kind::DatabaseAhead, long, false),
            (Kind::LockTable, 0, false),
        ] {
            let fault_log = FaultLog::default();
            let place = fault_log.begin(Fault { kind, application: None, for_ms, amount: 0 }, times);
            fault_log.end(place);
            let window = &fault_log.windows()[0];
            let held_ms = window.until_ms + times.lease_ms;
            assert_eq!(window.explains(held_ms, held_ms + 1_600), explains, "{kind:?} for {for_ms} ms");
            assert!(!window.explains(held_ms + 1, held_ms + 1_600), "no holder sends past its lease");
        }
    }
}
