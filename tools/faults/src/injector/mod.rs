//! Injects the faults of a phase, each at its time and many at once.

mod consumers;
mod deaths;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep};

use crate::environment::Environment;
use crate::fault_log::FaultLog;
use crate::fleet::{END_MAX, Fleet};
use crate::other_sessions::{hold_snapshot, lock_table};
use crate::schedule::{Fault, Kind, Phase};
use crate::truth;
use crate::wire::{Command, Times, Topics};
use xtask::stop::Stop;

/// The precision of the faults' times.
const TICK: Duration = Duration::from_millis(10);
/// The steps of [`Kind::ReuseIds`], from its beginning, in which a late settle finds reused ids. Acknowledgements are
/// late from the start, so that many settles wait when the connection to the database is cut.
const LATE_MS: u64 = 1_500;
const CUT_AT: Duration = Duration::from_millis(1_200);
const REUSE_AT: Duration = Duration::from_millis(6_000);
const SETTLE_AT: Duration = Duration::from_millis(7_500);
/// How far ids go back: further than those that wait to be settled.
const REUSED: i64 = 700;

/// How often to check whether an application that was told to end has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// What to do at a time; the index is that in the fault log.
#[derive(Debug, Clone, Copy)]
enum Action {
    /// At this time at the latest.
    Begin(Fault, Instant),
    End(Fault, usize),
    /// Waits for an application that was told to end; the time is the deadline.
    AwaitEnd(Fault, usize, Instant),
    /// Waits for a process that was told to die at a step; the time is when it is killed wherever it is.
    AwaitDeath(Fault, usize, Instant),
    /// Cuts off rows that wait to be settled.
    CutOff(Fault),
    /// Assigns ids from here again, to rows that wait for their broker.
    Reuse(Fault, i64),
    /// Restores the connection to the database, so that a waiting settle arrives.
    LetSettle(Fault),
}

/// A held snapshot.
#[derive(Debug)]
struct Snapshot {
    holder: JoinHandle<()>,
    /// The index in the fault log.
    place: usize,
    topic: String,
    dead_rows: u64,
}

pub(crate) struct FaultInjector<'a> {
    environment: &'a Environment,
    /// Known before a broker is killed: whoever asks meanwhile waits until it is back.
    bootstrap: String,
    database: &'a str,
    fault_log: &'a FaultLog,
    times: Times,
    actions: Vec<Action>,
    /// By time, with the index in `actions`.
    timers: BinaryHeap<Reverse<(Instant, usize)>>,
    servers: JoinSet<Result<()>>,
    snapshot: Option<Snapshot>,
    /// How many messages the driver has begun to send to two partitions, and of how many the broker has both copies.
    sequence: u64,
    delivered: Arc<AtomicU64>,
}

impl<'a> FaultInjector<'a> {
    pub(crate) fn new(environment: &'a Environment, database: &'a str, fault_log: &'a FaultLog, times: Times) -> Self {
        let (actions, timers, servers) = (Vec::new(), BinaryHeap::new(), JoinSet::new());
        Self {
            environment,
            bootstrap: environment.bootstrap(),
            database,
            fault_log,
            times,
            actions,
            timers,
            servers,
            snapshot: None,
            sequence: 0,
            delivered: Arc::default(),
        }
    }

    /// Ends the held snapshot: not with its phase, so that the following steady state has it.
    pub(crate) fn release(&mut self) {
        if let Some(Snapshot { holder, place, .. }) = self.snapshot.take() {
            holder.abort();
            self.fault_log.end(place);
        }
    }

    /// Removes what the last snapshot kept, so that phases are alike. If the next snapshot comes soon, the server's own
    /// vacuum gets to it in no phase, and after thirty of them a scan over dead rows took 2 s.
    async fn clean(&mut self) -> Result<()> {
        if self.snapshot.is_some() {
            self.release();
            truth::vacuum(&mut self.environment.connect(self.database).await?).await?;
        }
        Ok(())
    }

    /// How many messages the broker has in two partitions.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// The topic and number of the dead rows that the held snapshot keeps.
    pub(crate) fn held(&self) -> Option<(&str, u64)> {
        self.snapshot.as_ref().map(|snapshot| (&*snapshot.topic, snapshot.dead_rows))
    }

    /// Runs a phase to its end, when everything is healed and runs again.
    pub(crate) async fn run_phase(&mut self, phase: &Phase, fleet: &mut Fleet, stop: &Stop) -> Result<()> {
        self.clean().await?;
        let begin = Instant::now();
        for step in phase {
            let at = begin + Duration::from_millis(step.at_ms);
            self.plan(at, Action::Begin(step.fault, at + deaths::patience(step.fault.kind)));
        }
        while let Some(Reverse((at, place))) = self.timers.pop() {
            while Instant::now() < at {
                ensure!(!stop.requested(), "stopped by a signal");
                fleet.check()?;
                sleep(TICK.min(at - Instant::now())).await;
            }
            let action = self.actions[place];
            self.act(action, fleet).await?;
            // A server that did not come back must not be waited for by everything else.
            while let Some(restarted) = self.servers.try_join_next() {
                restarted??;
            }
        }
        while let Some(restarted) = self.servers.join_next().await {
            restarted??;
        }
        // An application that paused a topic may have been killed before it resumed it.
        fleet.send(0, Command::ResumeTopics).await
    }

    fn plan(&mut self, at: Instant, action: Action) {
        self.actions.push(action);
        self.timers.push(Reverse((at, self.actions.len() - 1)));
    }

    async fn act(&mut self, action: Action, fleet: &mut Fleet) -> Result<()> {
        match action {
            // If the fault can never begin, it is left out; the recovery of the phase and the shares of faults show
            // that.
            Action::Begin(fault, until) if !self.can_begin(fault, fleet) => {
                if Instant::now() < until {
                    self.plan(Instant::now() + POLL_INTERVAL, action);
                }
                Ok(())
            }
            Action::Begin(fault, _) => {
                let place = self.fault_log.begin(fault, self.times);
                let ends_at = Instant::now() + Duration::from_millis(fault.for_ms);
                if self.begin(fault, place, fleet).await? {
                    self.plan(ends_at, Action::End(fault, place));
                }
                Ok(())
            }
            // Everything else goes on meanwhile: cuts are to be healed, and stopped processes are to continue.
            Action::AwaitEnd(fault, place, until) => {
                match fleet.has_ended(fault.application.unwrap_or(0), until)? {
                    true => self.plan(Instant::now(), Action::End(fault, place)),
                    false => self.plan(Instant::now() + POLL_INTERVAL, action),
                }
                Ok(())
            }
            Action::AwaitDeath(fault, place, until) => self.await_death(fault, place, until, fleet).await,
            Action::End(fault, place) => {
                self.end(fault, fleet).await?;
                self.fault_log.end(place);
                Ok(())
            }
            Action::CutOff(fault) => {
                let last = truth::last_id(&mut self.environment.connect(self.database).await?).await?;
                self.proxies_of(fault).for_each(|proxies| proxies.database.cut(true));
                self.plan(Instant::now() + REUSE_AT - CUT_AT, Action::Reuse(fault, last - REUSED));
                Ok(())
            }
            Action::Reuse(fault, from) => {
                self.proxies_of_others(fault).for_each(|proxies| proxies.broker.cut(true));
                truth::reuse_ids(&mut self.environment.connect(self.database).await?, from).await
            }
            Action::LetSettle(fault) => {
                self.proxies_of(fault).for_each(|proxies| proxies.database.cut(false));
                Ok(())
            }
        }
    }

    /// Whether the application runs and has no other fault, whose end would heal this one as well. It must run to
    /// receive a command, or to be stopped in the middle of something; it may be killed while it starts. The schedule
    /// takes care of both, but lags behind if a start takes long.
    fn can_begin(&self, fault: Fault, fleet: &Fleet) -> bool {
        let Some(application) = fault.application else { return true };
        let is_ready = || match fault.kind {
            Kind::KillApplication => true,
            Kind::CrashApplication => deaths::has_lived(fault, fleet.has_run_for(application)),
            _ => fleet.runs(application),
        };
        !self.fault_log.has_fault(application) && is_ready()
    }

    /// Begins the fault. Returns whether its end has to be scheduled.
    async fn begin(&mut self, fault: Fault, place: usize, fleet: &mut Fleet) -> Result<bool> {
        let application = fault.application.unwrap_or(0);
        let slow = Duration::from_millis(fault.amount);
        match fault.kind {
            Kind::KillApplication => fleet.kill(application).await?,
            Kind::CrashApplication | Kind::CrashConsumer => return self.crash(fault, place, fleet).await,
            Kind::RebalanceStorm => return Ok(self.storm(fault, place)),
            Kind::DeliverTwice => return Ok(self.deliver_twice(fault, place)),
            Kind::FailHandlers => fleet.send(application, Command::FailHandlers { for_ms: fault.for_ms }).await?,
            Kind::Pause | Kind::StopConsumer => fleet.signal(application, Signal::STOP)?,
            Kind::Restart | Kind::RestartConsumer => {
                fleet.request_end(application).await?;
                self.plan(Instant::now(), Action::AwaitEnd(fault, place, Instant::now() + END_MAX));
                return Ok(false);
            }
            Kind::KillBroker => return Ok(self.restart(self.environment.broker_killer(), place)),
            Kind::KillDatabase => return Ok(self.restart(self.environment.database_killer(), place)),
            Kind::DatabaseAhead => self.environment.set_database_ahead(fault.amount.cast_signed())?,
            Kind::DatabaseBehind => self.environment.set_database_ahead(-fault.amount.cast_signed())?,
            Kind::CutDatabase | Kind::CutConsumerDatabase => {
                self.proxies_of(fault).for_each(|proxies| proxies.database.cut(true));
            }
            Kind::CutBroker | Kind::CutConsumerBroker => {
                self.proxies_of(fault).for_each(|proxies| proxies.broker.cut(true))
            }
            Kind::DelayDatabase => self.proxies_of(fault).for_each(|proxies| proxies.database.delay(slow)),
            Kind::DelayBroker => self.proxies_of(fault).for_each(|proxies| proxies.broker.delay(slow)),
            Kind::LoseAcks => fleet.send(application, Command::LoseAcks { for_ms: fault.for_ms }).await?,
            Kind::LateAcks => {
                let command = Command::LateAcks { for_ms: fault.for_ms, by_ms: fault.amount };
                fleet.send(application, command).await?;
            }
            Kind::FailSends => fleet.send(application, Command::FailSends { for_ms: fault.for_ms }).await?,
            Kind::Jump => fleet.send(application, Command::Jump { by_ms: fault.amount }).await?,
            Kind::Burst => fleet.send(application, Command::Burst { messages: fault.amount }).await?,
            Kind::PauseTopic => {
                let topic = i16::try_from(fault.amount).context("a topic has a small index")?;
                fleet.send(application, Command::PauseTopic { topic }).await?;
            }
            Kind::Redrive => fleet.send(application, Command::Redrive).await?,
            Kind::PanicPolicies => fleet.send(application, Command::PanicPolicies { for_ms: fault.for_ms }).await?,
            Kind::LockTable => return Ok(self.lock_table(fault, place)),
            Kind::HoldSnapshot => {
                self.release();
                let (url, topic) = (self.environment.url(self.database), Topics::of_run(self.database).plain);
                let holder = tokio::spawn(hold_snapshot(url, topic.clone(), fault.amount));
                self.snapshot = Some(Snapshot { holder, place, topic, dead_rows: fault.amount });
                return Ok(false);
            }
            Kind::ReuseIds => {
                fleet.send(application, Command::LateAcks { for_ms: LATE_MS, by_ms: LATE_MS }).await?;
                self.plan(Instant::now() + CUT_AT, Action::CutOff(fault));
                self.plan(Instant::now() + SETTLE_AT, Action::LetSettle(fault));
            }
        }
        Ok(true)
    }

    async fn end(&self, fault: Fault, fleet: &mut Fleet) -> Result<()> {
        let application = fault.application.unwrap_or(0);
        match fault.kind {
            Kind::PauseTopic => fleet.send(application, Command::ResumeTopics).await?,
            Kind::KillApplication
            | Kind::CrashApplication
            | Kind::Restart
            | Kind::CrashConsumer
            | Kind::RestartConsumer => fleet.start(application)?,
            Kind::Pause | Kind::StopConsumer => fleet.signal(application, Signal::CONT)?,
            Kind::CutDatabase | Kind::CutConsumerDatabase => {
                self.proxies_of(fault).for_each(|proxies| proxies.database.cut(false));
            }
            Kind::CutBroker | Kind::CutConsumerBroker => {
                self.proxies_of(fault).for_each(|proxies| proxies.broker.cut(false));
            }
            Kind::DelayDatabase => self.proxies_of(fault).for_each(|proxies| proxies.database.delay(Duration::ZERO)),
            Kind::DelayBroker => self.proxies_of(fault).for_each(|proxies| proxies.broker.delay(Duration::ZERO)),
            Kind::ReuseIds => self.environment.heal(),
            Kind::LoseAcks | Kind::LateAcks | Kind::FailSends | Kind::Jump | Kind::Burst | Kind::Redrive => {}
            Kind::RebalanceStorm | Kind::DeliverTwice | Kind::FailHandlers => {}
            Kind::KillBroker | Kind::KillDatabase | Kind::LockTable | Kind::HoldSnapshot | Kind::PanicPolicies => {}
            Kind::DatabaseAhead | Kind::DatabaseBehind => self.environment.set_database_ahead(0)?,
        }
        Ok(())
    }

    /// Kills and starts a server in the background; its end is logged when it is back.
    fn restart(&mut self, restart: impl FnOnce() -> Result<()> + Send + 'static, place: usize) -> bool {
        let fault_log = self.fault_log.clone();
        self.servers.spawn(async move {
            spawn_blocking(restart).await??;
            fault_log.end(place);
            Ok(())
        });
        false
    }

    /// Locks the table in the background; the end is logged when it is free again.
    fn lock_table(&mut self, fault: Fault, place: usize) -> bool {
        let (fault_log, url) = (self.fault_log.clone(), self.environment.url(self.database));
        self.servers.spawn(async move {
            let locked = lock_table(&url, Duration::from_millis(fault.for_ms)).await;
            fault_log.end(place);
            // It waited for a transaction of a stopped process, or the database was killed meanwhile; a phase that lags
            // behind causes that. Everybody waited behind it anyway, and the report checks how many locks lasted.
            if let Err(error) = locked {
                eprintln!("a table lock ended early: {error:#}");
            }
            Ok(())
        });
        false
    }

    fn proxies_of(&self, fault: Fault) -> impl Iterator<Item = &crate::environment::AppProxies> {
        let proxies = self.environment.proxies.iter().enumerate();
        proxies.filter(move |(place, _)| fault.application.is_none_or(|of| of == *place)).map(|(_, proxies)| proxies)
    }

    fn proxies_of_others(&self, fault: Fault) -> impl Iterator<Item = &crate::environment::AppProxies> {
        let proxies = self.environment.proxies.iter().enumerate();
        proxies.filter(move |(place, _)| fault.application != Some(*place)).map(|(_, proxies)| proxies)
    }
}
