//! Processes that die at a step of their work.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::Instant;

use super::{Action, FaultInjector, POLL_INTERVAL};
use crate::app::now_ms;
use crate::fleet::{Death, Fleet};
use crate::kills::LIFE_MS;
use crate::recovery::RUNNING_MAX;
use crate::schedule::{Fault, Kind};
use crate::wire::Command;

/// The longest that a process is waited for that is to die at a step.
const CRASH_MAX: Duration = Duration::from_secs(8);
/// How long a kill at a step may lag behind the schedule before it is left out. Every kill counts, and those of a phase
/// are planned as dense as restarts on a fast machine allow.
const KILL_LAG_MAX: Duration = Duration::from_secs(400);
/// The steps that a process passes when it takes lanes, so that it is told at once.
const TAKES_LANES: [&str; 3] = ["lane::renewed", "lane::fenced", "lane::recovered"];

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// How long a fault may lag behind the schedule.
pub(super) fn patience(kind: Kind) -> Duration {
    match kind {
        Kind::CrashApplication => KILL_LAG_MAX,
        _ => RUNNING_MAX,
    }
}

/// Whether an application that has run for so long has got to where it can die at a step. Without lanes it would die far
/// from every ordered topic.
pub(super) fn has_lived(fault: Fault, for_how_long: Option<Duration>) -> bool {
    let takes_lanes = fault.step().is_some_and(|(step, _)| TAKES_LANES.contains(&step));
    let life = if takes_lanes { Duration::ZERO } else { Duration::from_millis(LIFE_MS) };
    for_how_long.is_some_and(|lived| lived >= life)
}

/// What makes a step come soon that a healthy process passes rarely or never.
fn provocation(step: &str) -> Option<Command> {
    match step {
        "consumer::parked" => Some(Command::FailHandlers { for_ms: millis(CRASH_MAX) }),
        // Whoever ends hands all its lanes over.
        "lane::releasing" | "lane::released" => Some(Command::End),
        "relay::failing" => Some(Command::FailSends { for_ms: millis(CRASH_MAX) }),
        _ => None,
    }
}

impl FaultInjector<'_> {
    /// Tells a process to die at a step.
    pub(super) async fn crash(&mut self, fault: Fault, place: usize, fleet: &mut Fleet) -> Result<bool> {
        let process = fault.application.unwrap_or(0);
        let (step, _) = fault.step().context("a step of a process's work")?;
        fleet.request_death(process, usize::try_from(fault.amount)?).await?;
        if let Some(command) = provocation(step) {
            fleet.send(process, command).await?;
        }
        self.plan(Instant::now(), Action::AwaitDeath(fault, place, Instant::now() + CRASH_MAX));
        Ok(false)
    }

    /// Waits for a process that was told to die at a step, and kills it if it takes too long. Then it did not die at that
    /// step, and does not count as if it had.
    pub(super) async fn await_death(
        &mut self,
        fault: Fault,
        place: usize,
        until: Instant,
        fleet: &mut Fleet,
    ) -> Result<()> {
        let process = fault.application.unwrap_or(0);
        match fleet.death(process)? {
            Some(Death::AtStep { at_ms }) => {
                let (_, name) = fault.step().context("a step of a process's work")?;
                self.fault_log.began_at(place, at_ms);
                self.fault_log.rename(place, name);
            }
            Some(Death::InOrder) => {
                self.fault_log.began_at(place, now_ms());
                self.fault_log.becomes(place, Kind::Restart);
            }
            None if Instant::now() >= until => {
                self.fault_log.began_at(place, now_ms());
                fleet.kill(process).await?;
                if fault.kind == Kind::CrashApplication {
                    self.fault_log.rename(place, Kind::KillApplication.name());
                }
            }
            None => {
                self.plan(Instant::now() + POLL_INTERVAL, Action::AwaitDeath(fault, place, until));
                return Ok(());
            }
        }
        self.plan(Instant::now() + Duration::from_millis(fault.for_ms), Action::End(fault, place));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{RELAY_STEPS, STEPS};

    #[test]
    fn an_application_dies_when_it_has_lanes_or_as_it_takes_them() {
        let fault = |amount| Fault { kind: Kind::CrashApplication, application: Some(0), for_ms: 0, amount };
        let (just_started, lived) = (Duration::ZERO, Duration::from_millis(LIFE_MS));
        let at_once = (0..RELAY_STEPS.len() as u64).filter(|step| has_lived(fault(*step), Some(just_started)));
        assert_eq!(at_once.count(), TAKES_LANES.len());
        for step in 0..RELAY_STEPS.len() as u64 {
            assert!(has_lived(fault(step), Some(lived)) && !has_lived(fault(step), None));
        }
    }

    /// A step that is renamed in the library would no longer be provoked.
    #[test]
    fn provoked_steps_have_names_of_the_library() {
        let steps = RELAY_STEPS.iter().chain(&STEPS);
        assert_eq!(steps.filter(|(step, _)| provocation(step).is_some()).count(), 4);
    }
}
