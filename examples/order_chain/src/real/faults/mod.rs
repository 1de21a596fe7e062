//! Faults by a seed: everything is killed and stopped.

mod by_the_clock;
mod one_by_one;
mod plan;

use std::cell::RefCell;
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
use crate::reconcile::Reconciler;
use crate::report::Settled;
use crate::shop::orders::Orders;

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
struct Fault(Victim, How);

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
    pub(super) fleet: &'a RefCell<Fleet>,
    pub(super) servers: &'a Servers,
    pub(super) orders: &'a dyn Orders,
    pub(super) reconciler: &'a Reconciler,
    pub(super) board: &'a Board,
}

/// A fault that is over, and whose consequences are not.
#[derive(Debug)]
struct Open {
    fault: Fault,
    ended: Instant,
    /// The newest change of an order that had happened by then, once it is known.
    newest: Option<i64>,
}

/// What came of the faults.
#[derive(Debug, Default)]
pub(super) struct Faults {
    settled: Settled,
    open: Vec<Open>,
}

impl Faults {
    /// Faults until the time is over: so many a minute by the clock, or each after the one before has settled.
    pub(super) async fn run(
        &mut self,
        target: &Target<'_>,
        seed: u64,
        until: Instant,
        per_minute: Option<u32>,
    ) -> Result<(), Failure> {
        let deck = deck(target.fleet.borrow().roles(), target.servers.all());
        match per_minute {
            Some(per_minute) => {
                let plan = plan::plan(seed, until.saturating_duration_since(Instant::now()), per_minute, &deck);
                *self = by_the_clock::run(target, &plan, until).await?;
            }
            None => one_by_one::run(self, target, deck, &mut Rng::with_seed(seed), until).await?,
        }
        Ok(())
    }

    fn settle(&mut self, fault: Fault, took: Duration) {
        println!("{fault}; settled after {:.1} s", took.as_secs_f64());
        self.settled.entry(fault.to_string()).or_default().took.push(took);
    }

    /// How long each took. What was open at the end of the load has settled if everything is quiet now.
    pub(super) fn into_settled(mut self, is_quiet: bool) -> Settled {
        for Open { fault, ended, .. } in std::mem::take(&mut self.open) {
            if is_quiet {
                self.settle(fault, ended.elapsed());
            } else {
                self.settled.entry(fault.to_string()).or_default().open += 1;
            }
        }
        self.settled
    }
}

/// Every part and every server, killed and stopped. PostgreSQL is many processes, of which a stop would hit one.
fn deck(roles: Vec<Role>, servers: Vec<Server>) -> Vec<Fault> {
    let victims = roles.into_iter().map(Victim::Part).chain(servers.into_iter().map(Victim::Server));
    let both = victims.flat_map(|victim| [How::Killed, How::Stopped].map(|how| Fault(victim, how)));
    both.filter(|fault| *fault != Fault(Victim::Server(Server::Postgres), How::Stopped)).collect()
}

/// How long a part is away or stopped.
fn pause(rng: &mut Rng) -> Duration {
    Duration::from_millis(rng.u64(100..2_000))
}

async fn cause(target: &Target<'_>, fault: Fault, pause: Duration) -> Result<(), Failure> {
    target.board.fault(fault.to_string());
    match fault {
        Fault(Victim::Part(role), How::Killed) => {
            let child = target.fleet.borrow_mut().take(role);
            if let Some(mut child) = child {
                child.kill().await?;
            }
            sleep(pause).await;
            target.fleet.borrow_mut().start_part(role)?;
        }
        Fault(Victim::Part(role), How::Stopped) => {
            target.fleet.borrow().signal(role, Signal::STOP)?;
            sleep(pause).await;
            target.fleet.borrow().signal(role, Signal::CONT)?;
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

/// `None` while the database is away.
async fn newest_change(orders: &dyn Orders) -> Option<i64> {
    let rows = orders.all().await.ok()?;
    Some(rows.iter().map(|row| row.changed_at_ms).max().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tests/servers.rs` has time for a few faults only, and takes this seed so that they are those of the brokers.
    #[test]
    fn the_seed_of_the_test_of_two_brokers_begins_with_them() {
        let shops = [1, 2].map(|port| Role::Shop(([127, 0, 0, 1], port).into()));
        let others = [Role::Close, Role::Cache, Role::Stock, Role::Coupon, Role::Points, Role::Reconciler];
        let servers = [Server::Postgres, Server::Mariadb, Server::Redis, Server::Kafka, Server::RocketMq];
        let mut deck = deck(shops.into_iter().chain(others).collect(), servers.to_vec());
        Rng::with_seed(281).shuffle(&mut deck);
        let first = [(Server::RocketMq, How::Stopped), (Server::RocketMq, How::Killed), (Server::Kafka, How::Stopped)];
        assert_eq!(deck[..3], first.map(|(server, how)| Fault(Victim::Server(server), how)));
    }
}
