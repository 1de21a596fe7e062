//! What a run is: the long schedule, or the one that shows a planted mistake.

use crate::audit::Finding;
use crate::schedule::{self, APPLICATIONS, Fault, Kind, Phase, Step};
use crate::wire::{Load, Times};

/// As many phases as have every fault against every application, about.
const LONG_PHASES: usize = 5;

/// Everything that decides a run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) phases: Vec<Phase>,
    pub(crate) times: Times,
    pub(crate) load: Load,
    pub(crate) mistake: Option<String>,
    /// Whether everything that the load can do is in it, so that each has to have been done.
    pub(crate) is_whole: bool,
    /// Whether the database has a clock of its own, which is not always right.
    pub(crate) is_skewed: bool,
    /// An audit that consumed fewer fails.
    pub(crate) consumed_min: usize,
}

impl Plan {
    /// Whether it has every fault often enough for each to show.
    pub(crate) fn is_long(&self) -> bool {
        self.is_whole && self.phases.len() >= LONG_PHASES
    }
}

/// A planted mistake, what shows it, and as what.
pub(crate) struct Trap {
    /// As the library names it.
    pub(crate) mistake: &'static str,
    pub(crate) shows: &'static [Finding],
    bait: fn() -> Bait,
}

/// What is special about the schedule of a trap.
struct Bait {
    phases: Vec<Vec<Batch>>,
    times: Times,
    ordered: bool,
    whole_life: bool,
}

/// A fault, how often it comes, to one application after the other or to all at once.
struct Batch {
    kind: Kind,
    times: usize,
    for_ms: u64,
    amount: u64,
    at_once: bool,
}

/// The schedule of a run for its own sake.
pub(crate) fn long(seed: u64, minutes: f64, is_skewed: bool, consumed_min: usize) -> Plan {
    let times = Times::default();
    let deck = if is_skewed { schedule::SKEWED } else { schedule::DECK };
    Plan {
        seed,
        phases: schedule::of(deck, seed, minutes, times.lease_ms),
        times,
        load: Load { pause_ms: 40, ordered: true, whole_life: true },
        mistake: None,
        is_whole: true,
        is_skewed,
        consumed_min,
    }
}

impl Trap {
    pub(crate) fn of(mistake: &str) -> Option<&'static Self> {
        TRAPS.iter().find(|trap| trap.mistake == mistake)
    }

    /// The schedule that shows the mistake, with it or, as a control, without.
    pub(crate) fn plan(&self, seed: u64, with_mistake: bool) -> Plan {
        let Bait { phases, times, ordered, whole_life } = (self.bait)();
        let mut random = fastrand::Rng::with_seed(seed);
        Plan {
            seed,
            phases: phases.iter().map(|batches| phase(batches, &mut random)).collect(),
            times,
            load: Load { pause_ms: 40, ordered, whole_life },
            mistake: with_mistake.then(|| self.mistake.to_owned()),
            is_whole: false,
            is_skewed: false,
            consumed_min: 500,
        }
    }
}

fn phase(batches: &[Batch], random: &mut fastrand::Rng) -> Phase {
    let mut phase = Phase::new();
    let mut now = 0;
    for batch in batches {
        for turn in 0..batch.times {
            now += random.u64(300..900);
            let victims = if batch.at_once { 0..APPLICATIONS } else { turn % APPLICATIONS..turn % APPLICATIONS + 1 };
            for application in victims {
                let Batch { kind, for_ms, amount, .. } = *batch;
                let application = (!kind.is_of_neighbour()).then_some(application);
                let fault = Fault { kind, application, for_ms, amount };
                phase.push(Step { at_ms: now, fault });
            }
            // A fault that is only slow goes on beside the next.
            now += if matches!(batch.kind, Kind::LateAcks | Kind::DelayBroker) { 0 } else { batch.for_ms };
        }
    }
    phase
}

const fn one_by_one(kind: Kind, times: usize, for_ms: u64, amount: u64) -> Batch {
    Batch { kind, times, for_ms, amount, at_once: false }
}

const fn at_once(kind: Kind, times: usize, for_ms: u64, amount: u64) -> Batch {
    Batch { kind, times, for_ms, amount, at_once: true }
}

fn bait(phases: Vec<Vec<Batch>>) -> Bait {
    Bait { phases, times: Times::default(), ordered: true, whole_life: false }
}

/// Messages that wait in the client until they time out.
fn cut_off() -> Bait {
    bait(vec![vec![one_by_one(Kind::CutBroker, 3, 4_000, 0), at_once(Kind::CutBroker, 2, 3_500, 0)]])
}

/// Messages that fail before the broker has them.
fn failing() -> Bait {
    bait(vec![vec![at_once(Kind::FailSends, 4, 2_500, 0), at_once(Kind::CutBroker, 1, 3_500, 0)]])
}

/// Nothing is lost and nobody dies: whatever comes twice is a mistake.
fn slow_broker() -> Bait {
    let burst = || one_by_one(Kind::Burst, 3, 1_500, 1_500);
    bait(vec![vec![at_once(Kind::LateAcks, 1, 9_000, 700), burst(), burst()]])
}

/// Nothing but what people do.
fn acts() -> Bait {
    let phase = vec![one_by_one(Kind::Redrive, 6, 1_500, 0), one_by_one(Kind::Burst, 2, 1_000, 300)];
    Bait { whole_life: true, ..bait(vec![phase]) }
}

/// By name of the mistake.
pub(crate) const TRAPS: &[Trap] = &[
    Trap {
        mistake: "commit-believed",
        shows: &[Finding::Phantom],
        bait: || bait(vec![vec![one_by_one(Kind::Burst, 6, 1_000, 500)]]),
    },
    Trap {
        mistake: "settle-by-id",
        shows: &[Finding::Lost],
        bait: || Bait { ordered: false, ..bait(vec![vec![one_by_one(Kind::ReuseIds, 3, 14_000, 0)]]) },
    },
    Trap { mistake: "settle-on-send", shows: &[Finding::Lost], bait: cut_off },
    Trap { mistake: "lost-ack-is-sent", shows: &[Finding::Lost], bait: failing },
    Trap {
        mistake: "lease-not-extended",
        shows: &[Finding::Doubled],
        bait: || Bait {
            // A message is under way for longer than its born lease, and in time all the same.
            times: Times { delivery_ms: 8_000, lease_ms: 12_000, ..Times::default() },
            ..bait(vec![vec![at_once(Kind::LateAcks, 1, 12_000, 4_000), one_by_one(Kind::Burst, 6, 2_000, 400)]])
        },
    },
    Trap { mistake: "attempt-in-outage", shows: &[Finding::WronglyDead], bait: failing },
    Trap { mistake: "claim-gives-back", shows: &[Finding::Doubled], bait: slow_broker },
    Trap {
        mistake: "claim-unlocked",
        shows: &[Finding::Doubled],
        bait: || bait(vec![vec![at_once(Kind::Burst, 6, 2_000, 1_500)]]),
    },
    Trap {
        mistake: "dead-letter-not-kept",
        shows: &[Finding::Lost],
        bait: || bait(vec![vec![one_by_one(Kind::Burst, 6, 1_000, 1_000)]]),
    },
    Trap {
        mistake: "lane-never-lost",
        shows: &[Finding::Doubled, Finding::Inverted],
        bait: || bait(vec![vec![one_by_one(Kind::Pause, 2, 6_500, 0)], vec![one_by_one(Kind::Burst, 6, 1_000, 100)]]),
    },
    Trap {
        mistake: "lane-left-in-flight",
        shows: &[Finding::Doubled, Finding::Inverted],
        bait: || bait(vec![vec![at_once(Kind::LateAcks, 1, 14_000, 700), one_by_one(Kind::Restart, 3, 1_500, 0)]]),
    },
    Trap {
        mistake: "fence-skipped",
        shows: &[Finding::Doubled, Finding::Inverted],
        // A transaction takes so long that most owners are stopped in the middle of one.
        bait: || Bait {
            whole_life: true,
            ..bait(vec![vec![at_once(Kind::DelayBroker, 1, 60_000, 150), one_by_one(Kind::Pause, 8, 6_500, 0)]])
        },
    },
    Trap { mistake: "failed-key-goes-on", shows: &[Finding::Inverted], bait: failing },
    Trap { mistake: "delay-forgotten", shows: &[Finding::Early], bait: acts },
    Trap { mistake: "redrive-loses-row", shows: &[Finding::Lost], bait: acts },
    Trap {
        mistake: "record-time-is-creation",
        shows: &[Finding::Lost],
        bait: || Bait { whole_life: true, ..bait(vec![vec![one_by_one(Kind::Burst, 6, 4_000, 100)]]) },
    },
    Trap {
        mistake: "policy-unguarded",
        shows: &[Finding::Stuck],
        bait: || bait(vec![vec![one_by_one(Kind::PanicPolicies, 4, 2_000, 0)]]),
    },
    Trap {
        mistake: "statement-left-behind",
        shows: &[Finding::Crowded],
        bait: || bait(vec![vec![one_by_one(Kind::LockTable, 1, 40_000, 0)]]),
    },
    Trap {
        mistake: "look-reads-the-dead",
        shows: &[Finding::Costly],
        // Nothing ends in it but the snapshot, so that the calm comes soon.
        bait: || {
            bait(vec![vec![one_by_one(Kind::HoldSnapshot, 1, 0, 600_000), one_by_one(Kind::Burst, 2, 1_000, 200)]])
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trap_is_the_same_for_the_same_seed() {
        for trap in TRAPS {
            assert_eq!(trap.plan(5, true).phases, trap.plan(5, false).phases, "{}", trap.mistake);
        }
    }

    #[cfg(feature = "_planted")]
    #[test]
    fn each_mistake_has_a_trap() {
        let known = diesel_outbox::planted::Mistake::ALL.iter().map(|mistake| mistake.name());
        assert!(known.eq(TRAPS.iter().map(|trap| trap.mistake)));
    }
}
