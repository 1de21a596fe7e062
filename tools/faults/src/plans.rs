//! The plan of a run: the long schedule, or one that shows an injected bug.

use crate::audit::Finding;
use crate::kills;
use crate::schedule::{self, APPLICATIONS, CONSUMERS, Fault, Kind, Phase, Step};
use crate::wire::{Load, SESSION_MS, Times};

/// The number of phases in which about every fault hits every application.
const LONG_PHASES: usize = 5;

/// All parameters of a run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) phases: Vec<Phase>,
    pub(crate) times: Times,
    pub(crate) load: Load,
    pub(crate) bug: Option<String>,
    /// Whether the load uses all of its features, so that each must have been used.
    pub(crate) is_whole: bool,
    /// Whether the database has its own clock, which is sometimes wrong.
    pub(crate) is_skewed: bool,
    /// Whether applications die at each step of their relays, and nothing else happens.
    pub(crate) is_of_kills: bool,
    /// An audit that consumed fewer messages fails.
    pub(crate) consumed_min: usize,
}

impl Plan {
    /// Whether it has every fault often enough to show an effect.
    pub(crate) fn is_long(&self) -> bool {
        self.is_whole && !self.is_of_kills && self.phases.len() >= LONG_PHASES
    }
}

/// An injected bug, the scenario that shows it, and the finding.
pub(crate) struct BugCase {
    /// The library's name of it.
    pub(crate) bug: &'static str,
    pub(crate) found_as: &'static [Finding],
    scenario: fn() -> Scenario,
}

/// What differs in the schedule of a bug case.
struct Scenario {
    phases: Vec<Vec<Batch>>,
    times: Times,
    ordered: bool,
    all_features: bool,
    consumers: bool,
    handler_ms: u64,
}

/// A fault and its count, for one application after the other or all at once.
struct Batch {
    kind: Kind,
    times: usize,
    for_ms: u64,
    amount: u64,
    at_once: bool,
}

/// The schedule of a run without a bug.
pub(crate) fn long(seed: u64, minutes: f64, is_skewed: bool, times: Times, consumed_min: usize) -> Plan {
    let mix = if is_skewed { schedule::CLOCK_SKEW_MIX } else { schedule::FAULT_MIX };
    Plan {
        seed,
        phases: schedule::of(mix, seed, minutes, times.lease_ms),
        times,
        load: Load { pause_ms: 40, ordered: true, all_features: true, consumers: true, handler_ms: 0 },
        bug: None,
        is_whole: true,
        is_skewed,
        is_of_kills: false,
        consumed_min,
    }
}

/// The schedule of kills at every step of a relay. It has no consumers, so that the applications have the machine.
pub(crate) fn kills(seed: u64, kills: usize, consumed_min: usize) -> Plan {
    Plan {
        seed,
        phases: kills::phases(kills, seed),
        times: Times::default(),
        load: Load { pause_ms: 40, ordered: true, all_features: true, consumers: false, handler_ms: 0 },
        bug: None,
        is_whole: true,
        is_skewed: false,
        is_of_kills: true,
        consumed_min,
    }
}

impl BugCase {
    pub(crate) fn of(bug: &str) -> Option<&'static Self> {
        BUG_CASES.iter().find(|bug_case| bug_case.bug == bug)
    }

    /// The schedule that shows the bug: with the bug or, as a control, without.
    pub(crate) fn plan(&self, seed: u64, with_bug: bool) -> Plan {
        let Scenario { phases, times, ordered, all_features, consumers, handler_ms } = (self.scenario)();
        let mut random = fastrand::Rng::with_seed(seed);
        Plan {
            seed,
            phases: phases.iter().map(|batches| phase(batches, &mut random)).collect(),
            times,
            load: Load { pause_ms: 40, ordered, all_features, consumers, handler_ms },
            bug: with_bug.then(|| self.bug.to_owned()),
            is_whole: false,
            is_skewed: false,
            is_of_kills: false,
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
            let Batch { kind, for_ms, amount, .. } = *batch;
            let (first, count) = if kind.is_of_consumer() { (APPLICATIONS, CONSUMERS) } else { (0, APPLICATIONS) };
            let one = first + turn % count;
            let victims = if batch.at_once { first..first + count } else { one..one + 1 };
            for process in victims {
                let application = (!kind.is_of_other_session() && !kind.is_of_topics()).then_some(process);
                let fault = Fault { kind, application, for_ms, amount };
                phase.push(Step { at_ms: now, fault });
            }
            // A fault that only slows things overlaps with the next.
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

fn scenario(phases: Vec<Vec<Batch>>) -> Scenario {
    Scenario { phases, times: Times::default(), ordered: true, all_features: false, consumers: false, handler_ms: 0 }
}

/// Messages wait in the client until they time out.
fn cut_off() -> Scenario {
    scenario(vec![vec![one_by_one(Kind::CutBroker, 3, 4_000, 0), at_once(Kind::CutBroker, 2, 3_500, 0)]])
}

/// Messages fail before the broker stores them.
fn failing() -> Scenario {
    scenario(vec![vec![at_once(Kind::FailSends, 4, 2_500, 0), at_once(Kind::CutBroker, 1, 3_500, 0)]])
}

/// No process and no server dies: every duplicate is a bug.
fn slow_broker() -> Scenario {
    let burst = || one_by_one(Kind::Burst, 3, 1_500, 1_500);
    // Delayed messages are what sweepers claim here: without them they claim too few for the bug to show.
    Scenario { all_features: true, ..scenario(vec![vec![at_once(Kind::LateAcks, 1, 9_000, 700), burst(), burst()]]) }
}

/// Only admin actions.
fn admin_actions_only() -> Scenario {
    let phase = vec![one_by_one(Kind::Redrive, 6, 1_500, 0), one_by_one(Kind::Burst, 2, 1_000, 300)];
    Scenario { all_features: true, ..scenario(vec![phase]) }
}

/// Consumers process what arrives.
fn consumers(handler_ms: u64, phase: Vec<Batch>) -> Scenario {
    Scenario { consumers: true, handler_ms, ..scenario(vec![phase]) }
}

/// By the bug's name.
pub(crate) const BUG_CASES: &[BugCase] = &[
    BugCase {
        bug: "commit-believed",
        found_as: &[Finding::Phantom],
        scenario: || scenario(vec![vec![one_by_one(Kind::Burst, 6, 1_000, 500)]]),
    },
    BugCase {
        bug: "settle-by-id",
        found_as: &[Finding::Lost],
        scenario: || Scenario { ordered: false, ..scenario(vec![vec![one_by_one(Kind::ReuseIds, 3, 14_000, 0)]]) },
    },
    BugCase { bug: "settle-on-send", found_as: &[Finding::Lost], scenario: cut_off },
    BugCase { bug: "lost-ack-is-sent", found_as: &[Finding::Lost], scenario: failing },
    BugCase {
        bug: "lease-not-extended",
        found_as: &[Finding::Duplicate],
        scenario: || Scenario {
            // A message is in flight for longer than its born lease, and still in time.
            times: Times { delivery_ms: 8_000, lease_ms: 12_000, ..Times::default() },
            ..scenario(vec![vec![at_once(Kind::LateAcks, 1, 12_000, 4_000), one_by_one(Kind::Burst, 6, 2_000, 400)]])
        },
    },
    BugCase { bug: "attempt-in-outage", found_as: &[Finding::WronglyDead], scenario: failing },
    BugCase { bug: "claim-gives-back", found_as: &[Finding::Duplicate], scenario: slow_broker },
    BugCase {
        bug: "claim-unlocked",
        found_as: &[Finding::Duplicate],
        scenario: || scenario(vec![vec![at_once(Kind::Burst, 6, 2_000, 1_500)]]),
    },
    BugCase {
        bug: "dead-letter-not-kept",
        found_as: &[Finding::Lost],
        scenario: || scenario(vec![vec![one_by_one(Kind::Burst, 6, 1_000, 1_000)]]),
    },
    BugCase {
        bug: "lane-never-lost",
        found_as: &[Finding::Duplicate, Finding::Inverted],
        scenario: || {
            scenario(vec![vec![one_by_one(Kind::Pause, 2, 6_500, 0)], vec![one_by_one(Kind::Burst, 6, 1_000, 100)]])
        },
    },
    BugCase {
        bug: "lane-left-in-flight",
        found_as: &[Finding::Duplicate, Finding::Inverted],
        scenario: || {
            scenario(vec![vec![at_once(Kind::LateAcks, 1, 14_000, 700), one_by_one(Kind::Restart, 3, 1_500, 0)]])
        },
    },
    BugCase {
        bug: "fence-skipped",
        found_as: &[Finding::Duplicate, Finding::Inverted],
        // On a slow connection many owners are stopped while they commit, with messages waiting behind. They send these when they
        // go on, and the next owner has taken over by then; a commit waits for 10 s. No message may time out: the client then repeats
        // what it has in flight, and nothing here would explain those copies.
        scenario: || Scenario {
            times: Times { delivery_ms: 4_000, lease_ms: 8_000, ..Times::default() },
            all_features: true,
            ..scenario(vec![vec![at_once(Kind::DelayBroker, 1, 80_000, 150), one_by_one(Kind::Pause, 8, 9_000, 0)]])
        },
    },
    BugCase {
        bug: "delivered-forgotten",
        found_as: &[Finding::Duplicate],
        // A message is delivered for a while before its row is removed.
        scenario: || Scenario {
            all_features: true,
            ..scenario(vec![vec![
                at_once(Kind::LateAcks, 1, 40_000, 1_000),
                one_by_one(Kind::KillApplication, 9, 0, 0),
            ]])
        },
    },
    BugCase { bug: "failed-key-goes-on", found_as: &[Finding::Inverted], scenario: failing },
    BugCase { bug: "delay-forgotten", found_as: &[Finding::Early], scenario: admin_actions_only },
    BugCase { bug: "redrive-loses-row", found_as: &[Finding::Lost], scenario: admin_actions_only },
    BugCase {
        bug: "record-time-is-creation",
        found_as: &[Finding::Lost],
        scenario: || Scenario { all_features: true, ..scenario(vec![vec![one_by_one(Kind::Burst, 6, 4_000, 100)]]) },
    },
    BugCase {
        bug: "policy-unguarded",
        found_as: &[Finding::Stuck],
        scenario: || scenario(vec![vec![one_by_one(Kind::PanicPolicies, 4, 2_000, 0)]]),
    },
    BugCase {
        bug: "statement-left-behind",
        found_as: &[Finding::TooManyConnections],
        scenario: || scenario(vec![vec![one_by_one(Kind::LockTable, 1, 40_000, 0)]]),
    },
    BugCase {
        bug: "poll-reads-dead-rows",
        found_as: &[Finding::DeadRowsRead],
        // Only the snapshot ends in it, so that the steady state comes soon.
        scenario: || {
            scenario(vec![vec![one_by_one(Kind::HoldSnapshot, 1, 0, 600_000), one_by_one(Kind::Burst, 2, 1_000, 200)]])
        },
    },
    BugCase {
        bug: "offset-before-commit",
        found_as: &[Finding::NotProcessed],
        // Records wait in memory while others are processed. The kills begin when the group has long had its partitions, and each leaves it
        // the time to share them again.
        scenario: || {
            let kills = one_by_one(Kind::CrashConsumer, 4, SESSION_MS + 3_000, 0);
            consumers(60, vec![one_by_one(Kind::Burst, 4, 3_000, 100), kills])
        },
    },
    BugCase {
        bug: "inbox-pruned-early",
        found_as: &[Finding::ProcessedTwice],
        // After COMMIT, and before the offset is committed. The next process prunes when it starts.
        scenario: || consumers(0, vec![one_by_one(Kind::CrashConsumer, 9, 0, 3)]),
    },
    BugCase {
        bug: "offset-not-compared",
        found_as: &[Finding::ProcessedTwice],
        // Most are stopped in the middle of a transaction.
        scenario: || Scenario {
            all_features: true,
            ..consumers(40, vec![one_by_one(Kind::StopConsumer, 9, SESSION_MS + 1_500, 0)])
        },
    },
    BugCase {
        bug: "claim-error-swallowed",
        found_as: &[Finding::ProcessedTwice],
        scenario: || consumers(0, vec![one_by_one(Kind::DeliverTwice, 6, 0, 60)]),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bug_case_is_the_same_for_the_same_seed() {
        for bug_case in BUG_CASES {
            assert_eq!(bug_case.plan(5, true).phases, bug_case.plan(5, false).phases, "{}", bug_case.bug);
        }
    }

    #[cfg(feature = "_injected_bugs")]
    #[test]
    fn each_injected_bug_has_a_case() {
        let known = diesel_outbox::injected_bugs::InjectedBug::ALL.iter().map(|bug| bug.name());
        assert!(known.eq(BUG_CASES.iter().map(|bug_case| bug_case.bug)));
    }
}
