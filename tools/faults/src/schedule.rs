//! Decides which fault comes when. It is drawn from a seed before anything runs, so the same seed gives the same
//! schedule.

use std::fmt;
use std::ops::Range;

use serde::Serialize;

pub(crate) use crate::kinds::Kind;
use crate::kinds::{RELAY_STEPS, STEPS};
use crate::wire::SESSION_MS;

/// Applications of a run.
pub(crate) const APPLICATIONS: usize = 4;
/// Consumers of a run, which come behind the applications.
pub(crate) const CONSUMERS: usize = 3;
pub(crate) const PROCESSES: usize = APPLICATIONS + CONSUMERS;
/// How long a killed application is dead, in milliseconds.
pub(crate) const DEAD_MS: Range<u64> = 0..2_000;
/// Percent of all faults: at least this many are kill -9 of the broker or the database.
pub(crate) const SERVER_KILLS_MIN: usize = 5;
/// Percent of all faults: at least this many stop a process past its leases and continue it.
pub(crate) const PAUSES_MIN: usize = 10;

/// A fault: what, to which process (none if it hits a server), for how long, and how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) application: Option<usize>,
    pub(crate) for_ms: u64,
    pub(crate) amount: u64,
}

impl Fault {
    /// The step at which it kills its process: the library's name, and that of the fault.
    pub(crate) fn step(self) -> Option<(&'static str, &'static str)> {
        self.kind.steps().get(usize::try_from(self.amount).ok()?).copied()
    }
}

/// A fault and its time, counted from the beginning of its phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Step {
    pub(crate) at_ms: u64,
    pub(crate) fault: Fault,
}

/// Faults without a pause between them. After each phase everything heals, and a steady state follows in which no
/// duplicate may occur.
pub(crate) type Phase = Vec<Step>;

/// The faults of a phase before they are shuffled, with their counts.
pub(crate) const FAULT_MIX: &[Kind] = &[
    Kind::KillBroker,
    Kind::KillDatabase,
    Kind::Pause,
    Kind::Pause,
    Kind::Pause,
    Kind::KillApplication,
    Kind::KillApplication,
    Kind::KillApplication,
    Kind::KillApplication,
    Kind::CutDatabase,
    Kind::CutDatabase,
    Kind::CutBroker,
    Kind::CutBroker,
    Kind::DelayDatabase,
    Kind::DelayBroker,
    Kind::LoseAcks,
    Kind::LateAcks,
    Kind::FailSends,
    Kind::Jump,
    // A node that leaves and comes back: its lanes move twice.
    Kind::Restart,
    Kind::Restart,
    Kind::Restart,
    Kind::Burst,
    Kind::PauseTopic,
    Kind::Redrive,
    Kind::Redrive,
    Kind::LockTable,
    Kind::HoldSnapshot,
    Kind::PanicPolicies,
    // With the consumers a phase is longer.
    Kind::KillDatabase,
    Kind::CrashConsumer,
    Kind::CrashConsumer,
    Kind::CrashConsumer,
    Kind::CrashConsumer,
    Kind::StopConsumer,
    Kind::StopConsumer,
    Kind::RestartConsumer,
    Kind::CutConsumerDatabase,
    Kind::CutConsumerBroker,
    Kind::RebalanceStorm,
    Kind::DeliverTwice,
    Kind::DeliverTwice,
    Kind::FailHandlers,
];

/// The same for a run in which the database's clock goes ahead and back. A wrong clock explains most second copies, so
/// these faults are kept apart.
pub(crate) const CLOCK_SKEW_MIX: &[Kind] = &[
    Kind::DatabaseAhead,
    Kind::DatabaseAhead,
    Kind::DatabaseAhead,
    Kind::DatabaseAhead,
    Kind::DatabaseBehind,
    Kind::DatabaseBehind,
    Kind::DatabaseBehind,
    Kind::DatabaseBehind,
    Kind::KillBroker,
    Kind::KillDatabase,
    Kind::Pause,
    Kind::Pause,
    Kind::Pause,
    Kind::KillApplication,
    Kind::KillApplication,
    Kind::CutDatabase,
    Kind::CutBroker,
    Kind::LoseAcks,
    Kind::FailSends,
    Kind::Restart,
    Kind::Burst,
    Kind::PauseTopic,
    Kind::Redrive,
    Kind::LockTable,
    Kind::PanicPolicies,
];

/// The approximate duration of a phase with its steady state.
const PHASE_MS: u64 = 95_000;

/// The schedule of a long run with phases of these faults.
pub(crate) fn of(mix: &[Kind], seed: u64, minutes: f64, lease_ms: u64) -> Vec<Phase> {
    let phases = ((minutes * 60_000.0) as u64).div_ceil(PHASE_MS).max(1);
    let mut random = fastrand::Rng::with_seed(seed);
    let phases: Vec<Phase> = (0..phases).map(|_| shuffled(mix, &mut random, lease_ms)).collect();
    assert_shares(&phases);
    phases
}

/// A phase of these faults in random order.
pub(crate) fn shuffled(mix: &[Kind], random: &mut fastrand::Rng, lease_ms: u64) -> Phase {
    let mut mix = mix.to_vec();
    random.shuffle(&mut mix);
    in_order(&mix, random, lease_ms)
}

/// A phase of these faults in this order. An application has one fault at a time, and so have the servers and the
/// clock. Servers and their locks count as one: a kill would end a lock at once.
pub(crate) fn in_order(mix: &[Kind], random: &mut fastrand::Rng, lease_ms: u64) -> Phase {
    let mut busy_until = [0; PROCESSES];
    let (mut server_busy_until, mut clock_busy_until) = (0, 0);
    let mut now = 0;
    let mut phase = Phase::new();
    for &kind in mix {
        now += random.u64(1_000..2_600);
        let (for_ms, amount) = duration_and_amount(kind, random, lease_ms);
        let application = if kind.is_of_server() {
            now = now.max(server_busy_until);
            server_busy_until = now + 6_000;
            None
        } else if kind.is_of_clock() {
            now = now.max(clock_busy_until);
            clock_busy_until = now + for_ms + 500;
            None
        } else if kind.is_of_other_session() {
            now = now.max(server_busy_until);
            // A snapshot overlaps with everything else.
            server_busy_until = if kind == Kind::LockTable { now + for_ms } else { now };
            None
        } else if kind.is_of_topics() {
            None
        } else {
            let places = if kind.is_of_consumer() { APPLICATIONS..PROCESSES } else { 0..APPLICATIONS };
            let (free, until) = least_busy(&busy_until, places, random);
            now = now.max(until);
            // It must have recovered: an application that starts, or a time-out that runs.
            busy_until[free] = now + for_ms + 1_500;
            Some(free)
        };
        phase.push(Step { at_ms: now, fault: Fault { kind, application, for_ms, amount } });
    }
    phase
}

/// A random free one, or the one that will be free first.
pub(crate) fn least_busy(busy_until: &[u64; PROCESSES], of: Range<usize>, random: &mut fastrand::Rng) -> (usize, u64) {
    let first = random.usize(..of.len());
    let order = (0..of.len()).map(|turn| of.start + (first + turn) % of.len());
    let least_busy = order.min_by_key(|process| busy_until[*process]).unwrap_or(of.start);
    (least_busy, busy_until[least_busy])
}

/// How long, and how much.
fn duration_and_amount(kind: Kind, random: &mut fastrand::Rng, lease_ms: u64) -> (u64, u64) {
    match kind {
        Kind::KillApplication => (random.u64(DEAD_MS), 0),
        Kind::CrashApplication => (random.u64(DEAD_MS), random.u64(0..RELAY_STEPS.len() as u64)),
        Kind::Pause => (lease_ms + random.u64(500..1_500), 0),
        Kind::CutDatabase => (random.u64(200..3_500), 0),
        Kind::CutBroker => (random.u64(200..4_500), 0),
        Kind::DelayDatabase => (random.u64(1_000..3_000), random.u64(5..60)),
        Kind::DelayBroker => (random.u64(1_000..3_000), random.u64(20..250)),
        Kind::LoseAcks => (random.u64(300..1_500), 0),
        Kind::LateAcks => (random.u64(1_000..3_000), random.u64(200..900)),
        Kind::FailSends => (random.u64(500..2_000), 0),
        Kind::Jump => (0, random.u64(1_000..8_000)),
        Kind::Burst => (1_000, random.u64(1_500..3_000)),
        Kind::ReuseIds => (14_000, 0),
        Kind::PauseTopic => (random.u64(1_000..4_000), random.u64(0..4)),
        // From less than a poll takes to more than every lease.
        Kind::DatabaseAhead | Kind::DatabaseBehind => (random.u64(300..6_000), random.u64(500..12_000)),
        // From less than a statement may take (5 s) to far more.
        Kind::LockTable => (random.u64(2_000..12_000), 0),
        // Until the next phase; the amount is the number of dead rows.
        Kind::HoldSnapshot => (0, random.u64(60_000..100_000)),
        Kind::PanicPolicies | Kind::FailHandlers => (random.u64(1_000..3_000), 0),
        Kind::CrashConsumer => (random.u64(0..2_000), random.u64(0..STEPS.len() as u64)),
        Kind::StopConsumer => (SESSION_MS + random.u64(500..2_000), 0),
        Kind::CutConsumerDatabase => (random.u64(200..3_500), 0),
        // Also past its session.
        Kind::CutConsumerBroker => (random.u64(200..9_000), 0),
        Kind::RebalanceStorm => (random.u64(2_000..5_000), 0),
        Kind::DeliverTwice => (0, random.u64(20..60)),
        Kind::Restart | Kind::RestartConsumer | Kind::KillBroker | Kind::KillDatabase | Kind::Redrive => (0, 0),
    }
}

/// # Panics
/// Panics if a schedule lacks its share of kills and pauses: then the mix is wrong.
fn assert_shares(phases: &[Phase]) {
    let faults: Vec<Kind> = phases.iter().flatten().map(|step| step.fault.kind).collect();
    let count = |wanted: fn(&Kind) -> bool| faults.iter().filter(|kind| wanted(kind)).count() * 100;
    assert!(count(|kind| kind.is_of_server()) >= SERVER_KILLS_MIN * faults.len(), "too few servers are killed");
    assert!(count(|kind| Kind::STOPS.contains(kind)) >= PAUSES_MIN * faults.len(), "too few processes are stopped");
}

/// A process, for people.
pub(crate) fn process_name(process: usize) -> String {
    match process.checked_sub(APPLICATIONS) {
        None => format!("application {process}"),
        Some(consumer) => format!("consumer {consumer}"),
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { kind, application, for_ms, amount } = self.fault;
        write!(f, "{:>7.1} s  {}", self.at_ms as f64 / 1e3, kind.name())?;
        if let Some(application) = application {
            write!(f, ", {}", process_name(application))?;
        }
        if for_ms > 0 {
            write!(f, ", for {for_ms} ms")?;
        }
        match self.fault.step().filter(|_| kind == Kind::CrashApplication) {
            Some((step, _)) => write!(f, ", {step}"),
            None if amount > 0 => write!(f, ", by {amount}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_is_the_same_schedule() {
        for mix in [FAULT_MIX, CLOCK_SKEW_MIX] {
            assert_eq!(of(mix, 7, 3.0, 5_000), of(mix, 7, 3.0, 5_000));
            assert_ne!(of(mix, 7, 3.0, 5_000), of(mix, 8, 3.0, 5_000));
        }
    }

    #[test]
    fn an_hour_holds_a_thousand_faults() {
        let phases = of(FAULT_MIX, 1, 60.0, 5_000);
        assert!(phases.iter().map(Vec::len).sum::<usize>() >= 1_000);
    }

    #[test]
    fn no_application_has_two_faults_at_once() {
        for phase in of(FAULT_MIX, 3, 30.0, 5_000) {
            let mut free_at = [0; PROCESSES];
            for step in phase {
                let Some(application) = step.fault.application else { continue };
                assert!(step.at_ms >= free_at[application], "{step}");
                free_at[application] = step.at_ms + step.fault.for_ms;
            }
        }
    }

    #[test]
    #[should_panic(expected = "too few processes are stopped")]
    fn a_schedule_without_pauses_is_refused() {
        let mut random = fastrand::Rng::with_seed(1);
        assert_shares(&[shuffled(&[Kind::KillBroker, Kind::Jump], &mut random, 5_000)]);
    }
}
