//! Decides which fault comes when. It is drawn from a seed before anything runs, so the same seed gives the same
//! schedule.

use std::fmt;

use serde::Serialize;

/// Applications of a run.
pub(crate) const APPLICATIONS: usize = 4;
/// Percent of all faults: at least this many are kill -9 of the broker or the database.
pub(crate) const SERVER_KILLS_MIN: usize = 5;
/// Percent of all faults: at least this many stop a process past its leases and continue it.
pub(crate) const PAUSES_MIN: usize = 10;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub(crate) enum Kind {
    KillApplication,
    Pause,
    Restart,
    KillBroker,
    KillDatabase,
    CutDatabase,
    CutBroker,
    DelayDatabase,
    DelayBroker,
    LoseAcks,
    /// The broker stores messages, but its acknowledgements are late.
    LateAcks,
    /// Half of the messages fail before the broker stores them.
    FailSends,
    Jump,
    Burst,
    /// Ids are reused, and a settle is late.
    ReuseIds,
    /// A topic is paused, by its index.
    PauseTopic,
    /// Dead letters are redriven.
    Redrive,
    /// The database's clock is ahead of the machine's for a while.
    DatabaseAhead,
    /// The database's clock is behind.
    DatabaseBehind,
    /// Another session locks the messages table, like an `ALTER TABLE`.
    LockTable,
    /// Another session keeps a snapshot open, and many dead rows cannot be removed before it ends.
    HoldSnapshot,
    /// The application's retry policies panic.
    PanicPolicies,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::KillApplication => "kill -9 application",
            Self::Pause => "stop and continue past the lease",
            Self::Restart => "orderly restart",
            Self::KillBroker => "kill -9 broker",
            Self::KillDatabase => "kill -9 database",
            Self::CutDatabase => "cut from database",
            Self::CutBroker => "cut from broker",
            Self::DelayDatabase => "slow connection to database",
            Self::DelayBroker => "slow connection to broker",
            Self::LoseAcks => "acknowledgements lost",
            Self::LateAcks => "acknowledgements late",
            Self::FailSends => "sends fail",
            Self::Jump => "clock jumps",
            Self::Burst => "burst",
            Self::ReuseIds => "ids reused",
            Self::PauseTopic => "topic paused",
            Self::Redrive => "redrive",
            Self::DatabaseAhead => "database's clock ahead",
            Self::DatabaseBehind => "database's clock behind",
            Self::LockTable => "table locked",
            Self::HoldSnapshot => "snapshot held",
            Self::PanicPolicies => "retry policies panic",
        }
    }

    /// Whether it may cause duplicates. What is only slow, late or large does not, nor what people are told is safe. A
    /// redriven message was refused, so the broker has no copy.
    pub(crate) fn may_duplicate(self) -> bool {
        match self {
            Self::Restart
            | Self::DelayDatabase
            | Self::DelayBroker
            | Self::LateAcks
            | Self::FailSends
            | Self::Burst
            | Self::PauseTopic
            | Self::Redrive
            | Self::HoldSnapshot
            | Self::PanicPolicies => false,
            Self::KillApplication
            | Self::Pause
            | Self::KillBroker
            | Self::KillDatabase
            | Self::CutDatabase
            | Self::CutBroker
            | Self::LoseAcks
            | Self::Jump
            | Self::DatabaseAhead
            | Self::DatabaseBehind
            | Self::LockTable
            | Self::ReuseIds => true,
        }
    }

    /// Whether it makes the database's clock wrong.
    pub(crate) fn is_of_clock(self) -> bool {
        matches!(self, Self::DatabaseAhead | Self::DatabaseBehind)
    }

    /// Whether another session does it to the database.
    pub(crate) fn is_of_other_session(self) -> bool {
        matches!(self, Self::LockTable | Self::HoldSnapshot)
    }

    pub(crate) fn is_of_server(self) -> bool {
        Self::OF_SERVERS.contains(&self)
    }

    /// `kill -9` of the broker or the database.
    pub(crate) const OF_SERVERS: [Self; 2] = [Self::KillBroker, Self::KillDatabase];
}

/// A fault: what, to which application (none if it hits a server), for how long, and how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) application: Option<usize>,
    pub(crate) for_ms: u64,
    pub(crate) amount: u64,
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
const PHASE_MS: u64 = 66_000;

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
    let mut busy_until = [0; APPLICATIONS];
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
        } else {
            let (free, until) = least_busy(&busy_until, random);
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
fn least_busy(busy_until: &[u64; APPLICATIONS], random: &mut fastrand::Rng) -> (usize, u64) {
    let first = random.usize(..APPLICATIONS);
    let order = (0..APPLICATIONS).map(|turn| (first + turn) % APPLICATIONS);
    let least_busy = order.min_by_key(|application| busy_until[*application]).unwrap_or(first);
    (least_busy, busy_until[least_busy])
}

/// How long, and how much.
fn duration_and_amount(kind: Kind, random: &mut fastrand::Rng, lease_ms: u64) -> (u64, u64) {
    match kind {
        Kind::KillApplication => (random.u64(0..2_000), 0),
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
        Kind::PanicPolicies => (random.u64(1_000..3_000), 0),
        Kind::Restart | Kind::KillBroker | Kind::KillDatabase | Kind::Redrive => (0, 0),
    }
}

/// # Panics
/// Panics if a schedule lacks its share of kills and pauses: then the mix is wrong.
fn assert_shares(phases: &[Phase]) {
    let faults: Vec<Kind> = phases.iter().flatten().map(|step| step.fault.kind).collect();
    let count = |wanted: fn(&Kind) -> bool| faults.iter().filter(|kind| wanted(kind)).count() * 100;
    assert!(count(|kind| kind.is_of_server()) >= SERVER_KILLS_MIN * faults.len(), "too few servers are killed");
    assert!(count(|kind| *kind == Kind::Pause) >= PAUSES_MIN * faults.len(), "too few processes are stopped");
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { kind, application, for_ms, amount } = self.fault;
        write!(f, "{:>7.1} s  {}", self.at_ms as f64 / 1e3, kind.name())?;
        if let Some(application) = application {
            write!(f, ", application {application}")?;
        }
        if for_ms > 0 {
            write!(f, ", for {for_ms} ms")?;
        }
        if amount > 0 {
            write!(f, ", by {amount}")?;
        }
        Ok(())
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
            let mut free_at = [0; APPLICATIONS];
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
