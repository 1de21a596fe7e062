//! Faults, one after the other, by a seed: everything is killed and stopped.

use std::fmt;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::Signal;
use tokio::time::sleep;

use super::fleet::{Fleet, signal};
use super::part::Role;
use super::servers::{Server, Servers};
use crate::Failure;
use crate::page::Board;
use crate::reconcile::{Findings, Reconciler};
use crate::report::Settled;
use crate::shop::orders::Orders;

/// How long after a fault everything that happened before its end must have arrived.
const CONVERGE_MAX: Duration = Duration::from_secs(120);
/// Between two looks.
const POLL: Duration = Duration::from_millis(200);

/// Who is hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    Part(Role),
    Server(Server),
}

/// What happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum How {
    /// SIGKILL, and a new start.
    Killed,
    /// SIGSTOP, and SIGCONT after a while.
    Stopped,
}

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fault(Victim, How);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(victim, how) = self;
        let how = if *how == How::Killed { "killed" } else { "stopped" };
        match victim {
            Victim::Part(Role::Shop(_)) => write!(f, "a shop was {how}"),
            Victim::Part(role) => write!(f, "{role:?} was {how}"),
            Victim::Server(server) => write!(f, "{server:?} was {how}"),
        }
    }
}

/// What is hit, and what tells whether all has settled.
pub(super) struct Target<'a> {
    pub(super) fleet: &'a mut Fleet,
    pub(super) servers: &'a Servers,
    pub(super) orders: &'a dyn Orders,
    pub(super) reconciler: &'a Reconciler,
    pub(super) board: &'a Board,
}

/// What came of the faults.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) settled: Settled,
}

impl Faults {
    /// Faults until the time is over.
    pub(super) async fn run(&mut self, target: &mut Target<'_>, seed: u64, until: Instant) -> Result<(), Failure> {
        let mut rng = Rng::with_seed(seed);
        let mut deck = deck(target.fleet);
        while Instant::now() < until {
            rng.shuffle(&mut deck);
            for fault in &deck {
                if Instant::now() >= until {
                    break;
                }
                target.board.fault(fault.to_string());
                cause(target, *fault, &mut rng).await?;
                let took = converge(target).await?;
                println!("{fault}; settled after {:.1} s", took.as_secs_f64());
                let (count, longest) = self.settled.entry(fault.to_string()).or_default();
                *count += 1;
                *longest = took.max(*longest);
            }
        }
        Ok(())
    }
}

/// Every part and every server, killed and stopped. PostgreSQL is many processes, of which a stop would hit one.
fn deck(fleet: &Fleet) -> Vec<Fault> {
    let parts = fleet.roles().into_iter().map(Victim::Part);
    let victims = parts.chain(Server::ALL.map(Victim::Server));
    let both = victims.flat_map(|victim| [How::Killed, How::Stopped].map(|how| Fault(victim, how)));
    both.filter(|fault| *fault != Fault(Victim::Server(Server::Postgres), How::Stopped)).collect()
}

async fn cause(target: &mut Target<'_>, fault: Fault, rng: &mut Rng) -> Result<(), Failure> {
    let pause = Duration::from_millis(rng.u64(100..2_000));
    match fault {
        Fault(Victim::Part(role), How::Killed) => {
            target.fleet.kill(role).await?;
            sleep(pause).await;
            target.fleet.start_part(role)?;
        }
        Fault(Victim::Part(role), How::Stopped) => {
            target.fleet.signal(role, Signal::STOP)?;
            sleep(pause).await;
            target.fleet.signal(role, Signal::CONT)?;
        }
        Fault(Victim::Server(server), How::Killed) => target.servers.kill(server).await?,
        Fault(Victim::Server(server), How::Stopped) => {
            let id = target.servers.pid(server).ok_or("a server that runs has an id")?;
            signal(id, Signal::STOP)?;
            sleep(pause).await;
            signal(id, Signal::CONT)?;
        }
    }
    Ok(())
}

/// Waits until every service knows what had happened when this was called. A server may still be starting.
async fn converge(target: &mut Target<'_>) -> Result<Duration, Failure> {
    let began = Instant::now();
    let mut newest = None;
    let mut last = Findings::default();
    while began.elapsed() < CONVERGE_MAX {
        for role in target.fleet.revive()? {
            tracing::info!(?role, "a part has ended, and was started again");
        }
        match newest {
            None => newest = newest_change(target.orders).await,
            Some(newest) => {
                if let Ok(findings) = target.reconciler.check().await {
                    if findings.has_settled(newest) {
                        return Ok(began.elapsed());
                    }
                    last = findings;
                }
            }
        }
        sleep(POLL).await;
    }
    Err(format!("what happened before a fault is not settled {CONVERGE_MAX:?} after it:\n{last}").into())
}

/// `None` while the database is away.
async fn newest_change(orders: &dyn Orders) -> Option<i64> {
    let rows = orders.all().await.ok()?;
    Some(rows.iter().map(|row| row.changed_at_ms).max().unwrap_or_default())
}
