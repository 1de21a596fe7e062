//! Faults, one after the other, by a seed.

use std::fmt;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio::time::sleep;

use super::world::{Consumer, World};
use crate::Failure;
use crate::page::Board;
use crate::report::Settled;

/// How long after a fault everything that happened before its end must have arrived.
const CONVERGE_MAX: Duration = Duration::from_secs(60);
/// Between two looks.
const POLL: Duration = Duration::from_millis(250);

/// Between two faults that do not wait for each other.
const INTERVAL: Duration = Duration::from_secs(3);
/// How long the cache does not answer, and how long the broker is away.
pub(crate) const CACHE_AWAY: Duration = Duration::from_millis(700);
pub(crate) const BROKER_AWAY: Duration = Duration::from_secs(1);

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// The cache loses everything.
    Flush,
    /// The cache does not answer.
    CacheAway,
    /// A consumer dies without committing its offsets, and another one begins.
    ConsumerKilled(Consumer),
    /// The relay dies, and another one begins.
    RelayKilled,
    /// The broker is away.
    BrokerAway,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flush => f.write_str("the cache was flushed"),
            Self::CacheAway => f.write_str("the cache was away"),
            Self::ConsumerKilled(consumer) => write!(f, "the consumer {consumer:?} was killed"),
            Self::RelayKilled => f.write_str("the relay was killed"),
            Self::BrokerAway => f.write_str("the broker was away"),
        }
    }
}

/// What came of the faults.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) settled: Settled,
}

impl Faults {
    /// Faults until the time is over.
    pub(super) async fn run(
        &mut self,
        world: &mut World,
        board: &Board,
        seed: u64,
        until: Instant,
    ) -> Result<(), Failure> {
        let mut rng = Rng::with_seed(seed);
        let mut faults = deck();
        rng.shuffle(&mut faults);
        for fault in faults.iter().cycle() {
            if Instant::now() >= until {
                break;
            }
            board.fault(fault.to_string());
            cause(world, *fault).await?;
            let took = converge(world).await?;
            println!("{fault}; settled after {:.1} s", took.as_secs_f64());
            self.settled.entry(fault.to_string()).or_default().took.push(took);
        }
        Ok(())
    }

    /// Faults at their times, until the load is over. None of them is timed: the next one may come before all has settled.
    pub(super) async fn run_plan(
        &mut self,
        world: &mut World,
        board: &Board,
        seed: u64,
        lasts: Duration,
    ) -> Result<(), Failure> {
        let began = Instant::now();
        for Planned { at, fault } in plan(seed, lasts) {
            sleep(at.saturating_sub(began.elapsed())).await;
            board.fault(fault.to_string());
            println!("{fault}");
            cause(world, fault).await?;
            self.settled.entry(fault.to_string()).or_default().untimed += 1;
        }
        sleep(lasts.saturating_sub(began.elapsed())).await;
        Ok(())
    }
}

/// A fault to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Planned {
    /// Since the begin of the load.
    pub(crate) at: Duration,
    pub(crate) fault: Fault,
}

/// Faults at their times, by a seed alone: whoever runs them has the same ones.
pub(crate) fn plan(seed: u64, lasts: Duration) -> Vec<Planned> {
    let mut faults = deck();
    Rng::with_seed(seed).shuffle(&mut faults);
    let times = (1..).map(|number| INTERVAL * number).take_while(|at| *at < lasts);
    times.zip(faults.into_iter().cycle()).map(|(at, fault)| Planned { at, fault }).collect()
}

/// Each fault, the cheap ones more often.
fn deck() -> Vec<Fault> {
    let often = [Fault::Flush, Fault::CacheAway, Fault::RelayKilled, Fault::BrokerAway];
    often.into_iter().chain([Fault::Flush]).chain(Consumer::ALL.map(Fault::ConsumerKilled)).collect()
}

async fn cause(world: &mut World, fault: Fault) -> Result<(), Failure> {
    match fault {
        Fault::Flush => world.cache.flush(),
        Fault::CacheAway => {
            world.cache.set_away(true);
            sleep(CACHE_AWAY).await;
            world.cache.set_away(false);
        }
        Fault::ConsumerKilled(consumer) => {
            world.kill_consumer(consumer).await;
            world.start_consumer(consumer)?;
        }
        Fault::RelayKilled => {
            world.kill_relay();
            world.start_relay().await?;
        }
        Fault::BrokerAway => {
            world.kafka.broker_down(1)?;
            sleep(BROKER_AWAY).await;
            world.kafka.broker_up(1)?;
        }
    }
    Ok(())
}

/// Waits until all is settled that had happened when this was called.
async fn converge(world: &World) -> Result<Duration, Failure> {
    let began = Instant::now();
    let until_ms = world.orders.now_ms().await?;
    loop {
        let findings = world.reconciler.check().await?;
        if findings.has_settled(until_ms) {
            return Ok(began.elapsed());
        }
        if began.elapsed() > CONVERGE_MAX {
            let late = format!("what happened before a fault is not settled {CONVERGE_MAX:?} after it:\n{findings}");
            return Err(late.into());
        }
        sleep(POLL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_one_plan_with_every_fault() {
        let planned = plan(1, Duration::from_secs(40));
        assert_eq!(planned, plan(1, Duration::from_secs(40)));
        assert_ne!(planned, plan(2, Duration::from_secs(40)));
        assert_eq!(planned.len(), 13);
        assert!(deck().iter().all(|fault| planned.iter().any(|planned| planned.fault == *fault)));
    }
}
