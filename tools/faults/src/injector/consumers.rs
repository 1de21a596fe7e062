//! The faults of consumers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::{Action, FaultInjector, POLL_INTERVAL};
use crate::fleet::Fleet;
use crate::group;
use crate::kinds::{PARKED, STEPS};
use crate::schedule::Fault;
use crate::wire::{Command, Topics};

/// The longest that a consumer is waited for that is to die at a step.
const CRASH_MAX: Duration = Duration::from_secs(8);

/// The step at which a consumer is to die.
fn step_of(fault: Fault) -> Result<(&'static str, &'static str)> {
    STEPS.get(usize::try_from(fault.amount)?).copied().context("a step of a consumer's work")
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl FaultInjector<'_> {
    /// Waits for a consumer that was told to die at a step, and kills it if it takes too long.
    pub(super) async fn await_death(
        &mut self,
        fault: Fault,
        place: usize,
        until: Instant,
        fleet: &mut Fleet,
    ) -> Result<()> {
        let consumer = fault.application.unwrap_or(0);
        let restart_at = Instant::now() + Duration::from_millis(fault.for_ms);
        if fleet.has_died(consumer)? {
            self.fault_log.rename(place, step_of(fault)?.1);
            self.plan(restart_at, Action::End(fault, place));
        } else if Instant::now() >= until {
            fleet.kill(consumer).await?;
            self.plan(restart_at, Action::End(fault, place));
        } else {
            self.plan(Instant::now() + POLL_INTERVAL, Action::AwaitDeath(fault, place, until));
        }
        Ok(())
    }

    /// Does something to the consumers' topics in the background, and logs its end.
    fn disturb(&mut self, place: usize, act: impl FnOnce() -> Result<()> + Send + 'static) -> bool {
        let fault_log = self.fault_log.clone();
        self.servers.spawn(async move {
            // The broker may be killed meanwhile. What was not sent is not in the topic.
            if let Err(error) = spawn_blocking(act).await? {
                eprintln!("a fault of the consumers' topics ended early: {error:#}");
            }
            fault_log.end(place);
            Ok(())
        });
        false
    }

    /// Tells a consumer to die at a step.
    pub(super) async fn crash(&mut self, fault: Fault, place: usize, fleet: &mut Fleet) -> Result<bool> {
        let consumer = fault.application.unwrap_or(0);
        let step = usize::try_from(fault.amount)?;
        if step == PARKED {
            fleet.send(consumer, Command::FailHandlers { for_ms: millis(CRASH_MAX) }).await?;
        }
        fleet.request_death(consumer, step).await?;
        self.plan(Instant::now(), Action::AwaitDeath(fault, place, Instant::now() + CRASH_MAX));
        Ok(false)
    }

    /// Sends messages to two partitions at once.
    pub(super) fn deliver_twice(&mut self, fault: Fault, place: usize) -> bool {
        let sequences = self.sequence..self.sequence + fault.amount;
        self.sequence = sequences.end;
        let (bootstrap, topics) = (self.bootstrap.clone(), Topics::of_run(self.database));
        let delivered = Arc::clone(&self.delivered);
        self.disturb(place, move || {
            group::deliver_twice(&bootstrap, &topics, sequences)?;
            delivered.fetch_add(fault.amount, Ordering::Relaxed);
            Ok(())
        })
    }

    /// Lets members join and leave.
    pub(super) fn storm(&mut self, fault: Fault, place: usize) -> bool {
        let (bootstrap, run) = (self.bootstrap.clone(), self.database.to_owned());
        let how_long = Duration::from_millis(fault.for_ms);
        self.disturb(place, move || group::storm(&bootstrap, &run, &Topics::of_run(&run), how_long))
    }
}
