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

use super::fleet::{Fleet, kill};
use super::part::Role;
use super::servers::{Server, Servers};
use crate::Failure;
use crate::page::Board;
use crate::reconcile::{Findings, Reconciler};
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
    /// A time of the shop's database that is not before its end; `None` while the database is away.
    until_ms: Option<i64>,
}

impl Open {
    fn new(fault: Fault) -> Self {
        Self { fault, ended: Instant::now(), until_ms: None }
    }
}

/// What came of the faults.
#[derive(Debug, Default)]
pub(super) struct Faults {
    settled: Settled,
    open: Vec<Open>,
}

impl Faults {
    /// Faults until the time is over: so many a minute by the clock, each of which is caused, or each after the one before has settled.
    pub(super) async fn run(
        &mut self,
        target: &Target<'_>,
        seed: u64,
        (began, lasts): (Instant, Duration),
        per_minute: Option<u32>,
    ) -> Result<(), Failure> {
        let until = began + lasts;
        let deck = deck(target.fleet.borrow().roles(), target.servers.all());
        match per_minute {
            Some(per_minute) => {
                let plan = plan::plan(seed, lasts, per_minute, &deck);
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

    fn are_undated(&self) -> bool {
        self.open.iter().any(|open| open.until_ms.is_none())
    }

    /// Dates the faults that were over when the shop's database was asked for this time: the first ones of those that are open.
    fn date(&mut self, first: usize, now_ms: i64) {
        for open in self.open.iter_mut().take(first).filter(|open| open.until_ms.is_none()) {
            open.until_ms = Some(now_ms);
        }
    }

    /// Notes which open faults a comparison finds settled that was read by now.
    fn note(&mut self, findings: &Findings, now: Instant) {
        let has_settled = |open: &Open| open.until_ms.is_some_and(|until_ms| findings.has_settled(until_ms));
        let (settled, open): (Vec<_>, Vec<_>) = std::mem::take(&mut self.open).into_iter().partition(has_settled);
        self.open = open;
        for Open { fault, ended, .. } in settled {
            self.settle(fault, now.saturating_duration_since(ended));
        }
    }

    /// Compares everything, and notes which faults have settled. For when no other fault can come.
    pub(super) async fn look(&mut self, orders: &dyn Orders, reconciler: &Reconciler) -> Result<Findings, Failure> {
        if self.are_undated() {
            let now_ms = orders.now_ms().await?;
            self.date(self.open.len(), now_ms);
        }
        let findings = reconciler.check().await?;
        self.note(&findings, Instant::now());
        Ok(findings)
    }

    /// How long each took. What is still open has not settled.
    pub(super) fn into_settled(mut self) -> Settled {
        for Open { fault, .. } in std::mem::take(&mut self.open) {
            self.settled.entry(fault.to_string()).or_default().open += 1;
        }
        self.settled
    }
}

/// Every part and every server, killed and stopped.
fn deck(roles: Vec<Role>, servers: Vec<Server>) -> Vec<Fault> {
    let victims = roles.into_iter().map(Victim::Part).chain(servers.into_iter().map(Victim::Server));
    victims.flat_map(|victim| [How::Killed, How::Stopped].map(|how| Fault(victim, how))).collect()
}

/// How long a part is away or stopped.
fn pause(rng: &mut Rng) -> Duration {
    Duration::from_millis(rng.u64(100..2_000))
}

/// Returns whether it took effect: a part that has ended by itself right before cannot be hit.
async fn cause(target: &Target<'_>, fault: Fault, pause: Duration) -> Result<bool, Failure> {
    let note = || target.board.fault(fault.to_string());
    match fault {
        Fault(Victim::Part(role), How::Killed) => {
            let Some(child) = target.fleet.borrow_mut().take(role) else { return Ok(false) };
            let is_hit = kill(child).await?;
            if is_hit {
                note();
                sleep(pause).await;
            }
            target.fleet.borrow_mut().start_part(role)?;
            Ok(is_hit)
        }
        Fault(Victim::Part(role), How::Stopped) => {
            if !target.fleet.borrow_mut().signal(role, Signal::STOP)? {
                return Ok(false);
            }
            note();
            sleep(pause).await;
            // Whether it can go on or somebody has killed it meanwhile: it was stopped.
            target.fleet.borrow_mut().signal(role, Signal::CONT)?;
            Ok(true)
        }
        Fault(Victim::Server(server), How::Killed) => {
            note();
            target.servers.kill(server).await?;
            Ok(true)
        }
        Fault(Victim::Server(server), How::Stopped) => {
            // It goes on when this is dropped, also if the run ends early.
            let _stopped = target.servers.stop(server).await?;
            note();
            sleep(pause).await;
            Ok(true)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reconcile::Moving;
    use crate::report::Times;

    /// `tests/servers.rs` has time for six faults by the clock, and takes this seed so that they are those of the brokers, and the stop of
    /// PostgreSQL. RocketMQ's stops come before its kills, after which both servers take long to start.
    #[test]
    fn the_seed_of_the_test_of_two_brokers_begins_with_them() {
        let shops = [1, 2].map(|port| Role::Shop(([127, 0, 0, 1], port).into()));
        let others = [Role::Close, Role::Cache, Role::Stock, Role::Coupon, Role::Points, Role::Reconciler];
        let databases = [Server::Postgres, Server::Mariadb, Server::Redis];
        let brokers = [Server::Kafka, Server::RocketMq, Server::NameServer];
        let deck = deck(shops.into_iter().chain(others).collect(), [databases, brokers].concat());
        let planned = plan::plan(137_149_813, Duration::from_secs(30), 12, &deck);
        let expected = [
            (Server::RocketMq, How::Stopped),
            (Server::NameServer, How::Stopped),
            (Server::RocketMq, How::Killed),
            (Server::NameServer, How::Killed),
            (Server::Postgres, How::Stopped),
            (Server::Kafka, How::Stopped),
        ];
        let faults: Vec<Fault> = planned.iter().map(|planned| planned.fault).collect();
        assert_eq!(faults, expected.map(|(server, how)| Fault(Victim::Server(server), how)));
    }

    #[test]
    fn everything_is_killed_and_stopped() {
        let deck = deck(vec![Role::Stock], vec![Server::Postgres, Server::NameServer]);
        let victims = [Victim::Part(Role::Stock), Victim::Server(Server::Postgres), Victim::Server(Server::NameServer)];
        let expected = victims.into_iter().flat_map(|victim| [How::Killed, How::Stopped].map(|how| Fault(victim, how)));
        assert_eq!(deck, expected.collect::<Vec<_>>());
    }

    /// The report is made long after that.
    #[test]
    fn an_open_fault_is_timed_until_the_comparison_that_finds_it_settled() {
        let fault = |server| Fault(Victim::Server(server), How::Killed);
        let ended = Instant::now();
        let open = |server| Open { fault: fault(server), ended, until_ms: None };
        let mut faults = Faults { open: vec![open(Server::Kafka), open(Server::Redis)], ..Faults::default() };
        faults.note(&Findings::default(), ended + Duration::from_secs(1));
        assert_eq!(faults.open.len(), 2, "nobody knows yet what happened before their end");
        faults.date(1, 2_000);
        faults.date(2, 3_000);
        let behind = Moving::Behind { service: "stock", order_id: "order".to_owned(), since_ms: 2_500 };
        let findings = Findings { moving: vec![behind], ..Findings::default() };
        faults.note(&findings, ended + Duration::from_secs(3));
        let settled = faults.into_settled();
        let first = Times { took: vec![Duration::from_secs(3)], ..Times::default() };
        let second = Times { open: 1, ..Times::default() };
        let expected = [(fault(Server::Kafka), first), (fault(Server::Redis), second)];
        assert_eq!(settled, Settled::from(expected.map(|(fault, times)| (fault.to_string(), times))));
    }
}
