//! The schedule of `--kills`: applications die, each at a step of its relay, and nothing else happens.

use crate::kinds::RELAY_STEPS;
use crate::schedule::{APPLICATIONS, DEAD_MS, Fault, Kind, PROCESSES, Phase, Step, least_busy};

/// The kills of a phase.
const PHASE_KILLS: usize = 100;
/// How long an application runs before it is told to die, in milliseconds: as long as the lease of a dead one's lanes, so
/// that it has some, and sends by them.
pub(crate) const LIFE_MS: u64 = 3_000;
/// The approximate time of a start, and of the way to a step.
const START_MS: u64 = 1_500;

/// Phases with this many kills: at every step in turn, each turn in an order drawn from the seed.
pub(crate) fn phases(kills: usize, seed: u64) -> Vec<Phase> {
    let mut random = fastrand::Rng::with_seed(seed);
    let steps = steps(kills, &mut random);
    steps.chunks(PHASE_KILLS).map(|steps| phase(steps, &mut random)).collect()
}

fn steps(kills: usize, random: &mut fastrand::Rng) -> Vec<u64> {
    let mut steps = Vec::new();
    while steps.len() < kills {
        let mut turn: Vec<u64> = (0..RELAY_STEPS.len() as u64).collect();
        random.shuffle(&mut turn);
        steps.extend(turn);
    }
    steps.truncate(kills);
    steps
}

/// Several applications may be dead at the same time.
fn phase(steps: &[u64], random: &mut fastrand::Rng) -> Phase {
    let mut busy_until = [0; PROCESSES];
    let mut now = 0;
    let kill = |step: &u64| {
        now += random.u64(400..1_400);
        let for_ms = random.u64(DEAD_MS);
        let (application, until) = least_busy(&busy_until, 0..APPLICATIONS, random);
        now = now.max(until);
        busy_until[application] = now + for_ms + START_MS + LIFE_MS;
        let fault = Fault { kind: Kind::CrashApplication, application: Some(application), for_ms, amount: *step };
        Step { at_ms: now, fault }
    };
    steps.iter().map(kill).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn counts(phases: &[Phase], of: impl Fn(&Fault) -> u64) -> BTreeMap<u64, usize> {
        let mut counts = BTreeMap::new();
        for step in phases.iter().flatten() {
            *counts.entry(of(&step.fault)).or_default() += 1;
        }
        counts
    }

    #[test]
    fn the_same_seed_is_the_same_schedule_of_kills() {
        assert_eq!(phases(250, 7), phases(250, 7));
        assert_ne!(phases(250, 7), phases(250, 8));
    }

    #[test]
    fn as_many_applications_die_as_asked_for_about_equally_often_at_each_step() {
        for kills in [1, 16, 99, 1_000] {
            let phases = phases(kills, 1);
            assert_eq!(phases.iter().map(Vec::len).sum::<usize>(), kills);
            assert_eq!(phases.len(), kills.div_ceil(PHASE_KILLS));
            assert!(phases.iter().flatten().all(|step| step.fault.kind == Kind::CrashApplication));
            let at = counts(&phases, |fault| fault.amount);
            assert!(at.values().all(|count| count.abs_diff(kills / RELAY_STEPS.len()) <= 1), "{at:?}");
            assert_eq!(at.len(), kills.min(RELAY_STEPS.len()));
        }
        let of = counts(&phases(1_000, 1), |fault| fault.application.unwrap_or(PROCESSES) as u64);
        assert_eq!(of.len(), APPLICATIONS);
        assert!(of.values().all(|count| (200..300).contains(count)), "{of:?}");
    }

    #[test]
    fn a_dead_application_starts_and_lives_before_it_dies_again() {
        for phase in phases(300, 3) {
            let mut free_at = [0; APPLICATIONS];
            for step in phase {
                let application = step.fault.application.expect("each kills an application");
                assert!(step.at_ms >= free_at[application], "{step}");
                free_at[application] = step.at_ms + step.fault.for_ms + LIFE_MS;
            }
        }
    }
}
