//! One run: applications under load, the phases of a schedule, a steady state after each, and the audit.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use diesel_outbox::Topic;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::audit::{Audit, Evidence, Finding};
use crate::connection_monitor::ConnectionMonitor;
use crate::consumer::{self, AgedTopicReader};
use crate::environment::Environment;
use crate::fault_log::{FaultLog, FaultWindow};
use crate::fleet::Fleet;
use crate::group;
use crate::injector::FaultInjector;
use crate::ledger;
use crate::plans::Plan;
use crate::recovery::{QUIESCE_DURATION, RunContext, STEADY_STATE};
use crate::releaser::Releaser;
use crate::schedule::{APPLICATIONS, PROCESSES};
use crate::stalls::{BrokerMonitor, DatabaseMonitor};
use crate::steady_state::SteadyState;
use crate::truth;
use crate::verify;
use crate::wire::{Command, Config, Role, TWICE, Topics};
use xtask::stop::Stop;

/// History rows of this year expire in the first phase; each later phase uses the next year.
const YEAR: usize = 1900;

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct RunResult {
    pub(crate) audit: Audit,
    pub(crate) windows: Vec<FaultWindow>,
    pub(crate) transactions: BTreeMap<String, u64>,
    /// The library's counters over all applications, by metric.
    pub(crate) metrics: BTreeMap<String, u64>,
    pub(crate) phases: Vec<PhaseResult>,
    /// The most connections that a relay had at once.
    pub(crate) connections: i64,
    pub(crate) took: Duration,
}

/// The outcome of a phase.
#[derive(Debug, Clone)]
pub(crate) struct PhaseResult {
    /// Unsettled when everything healed.
    pub(crate) rows: i64,
    /// The time until every application ran; `None` if one did not.
    pub(crate) running: Option<Duration>,
    /// The time from then on until the backlog was sent; `None` if it was not.
    pub(crate) recovery: Option<Duration>,
    /// The time from then on until consumers had processed it; `None` without consumers, or if they had not.
    pub(crate) processed: Option<Duration>,
    /// Committed since the previous phase recovered, and the time since then.
    pub(crate) committed: i64,
    pub(crate) took: Duration,
}

impl PhaseResult {
    pub(crate) fn committed_per_second(&self) -> f64 {
        self.committed as f64 / self.took.as_secs_f64().max(0.001)
    }
}

impl fmt::Display for PhaseResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows at its end, ", self.rows)?;
        match (self.running, self.recovery) {
            (Some(running), Some(recovery)) => {
                let (running, recovery) = (running.as_secs_f64(), recovery.as_secs_f64());
                write!(f, "all ran after {running:.1} s and recovered in {recovery:.1} s")?;
            }
            (Some(running), None) => write!(f, "all ran after {:.1} s and are stuck", running.as_secs_f64())?,
            (None, _) => write!(f, "not all ran")?,
        }
        if let Some(processed) = self.processed {
            write!(f, ", processed {:.1} s later", processed.as_secs_f64())?;
        }
        write!(f, ", {:.0} committed per second", self.committed_per_second())
    }
}

/// Runs a plan in its own database and topics. The findings are in the outcome.
///
/// # Errors
///
/// Returns an error if the harness itself failed, or a signal asked for the end.
pub(crate) async fn run(
    environment: &Environment,
    plan: &Plan,
    name: &str,
    results: &Path,
    stop: &Stop,
) -> Result<RunResult> {
    let started = Instant::now();
    environment.heal();
    environment.new_database(name).await?;
    let topics = Topics::of_run(name);
    let fault_log = FaultLog::default();
    let configs = environment.proxies.iter().enumerate().map(|(place, proxies)| {
        Ok(Config {
            role: if place < APPLICATIONS { Role::Application } else { Role::Consumer },
            process: 0,
            seed: plan.seed,
            database_url: environment.url_by(proxies, name)?,
            bootstrap: format!("127.0.0.1:{}", proxies.broker.port()),
            topics: topics.clone(),
            times: plan.times,
            load: plan.load,
            run: name.to_owned(),
            bug: plan.bug.clone(),
        })
    });
    let configs = configs.collect::<Result<Vec<Config>>>()?;
    let log = results.join(format!("{name}.log"));
    let connections = ConnectionMonitor::count(environment.url(name));
    let _database = DatabaseMonitor::start(environment.url(name), fault_log.clone());
    let stalls = format!("{name}.stalls");
    let _broker = BrokerMonitor::start(environment.bootstrap(), stalls, fault_log.clone()).await?;
    let follower = AgedTopicReader::start(environment.bootstrap(), &topics);
    let mut fleet = Fleet::new(configs, fault_log.clone(), &log)?;
    (0..APPLICATIONS).try_for_each(|application| fleet.start(application))?;
    fleet.watch(QUIESCE_DURATION, stop).await?;
    let context = RunContext { environment, database: name, stop };
    let releaser = start_consumers(&context, plan, &topics, &mut fleet).await?;
    let PhaseResults { phases, steady_states, delivered, stuck } =
        run_phases(&context, plan, &fault_log, &mut fleet).await?;
    for application in 0..APPLICATIONS {
        fleet.send(application, Command::StopLoad).await?;
    }
    // The longest transaction ends, and the last row is written.
    fleet.watch(QUIESCE_DURATION, stop).await?;
    // Also after a stuck phase: this shows what is only late, and redrives dead letters that would look wrongly dead.
    let redriven = context.redriven(&mut fleet).await?;
    let processed = match plan.load.consumers {
        true => context.processed(&mut fleet, 0, i64::MAX, delivered).await?.map(drop),
        false => Ok(()),
    };
    end_all(&mut fleet).await?;
    drop(releaser);
    let read = Read { steady_states, aged: follower.end().await?, is_all_redriven: redriven.is_ok() };
    let mut audit = audited(&context, plan, &topics, &fault_log, &fleet, &connections, read).await?;
    // An injected bug has to be found by the audit.
    if plan.load.all_features && plan.bug.is_none() {
        find_disagreements(&context, plan, &topics, &mut audit).await?;
    }
    let at_the_end =
        [redriven, processed].into_iter().filter_map(Result::err).map(|what| format!("at the end: {what}"));
    for what in stuck.into_iter().chain(at_the_end) {
        audit.find(Finding::Stuck, || what);
    }
    let (windows, transactions, metrics) = (fault_log.windows(), fleet.transactions(), fleet.metrics());
    let connections = connections.most();
    Ok(RunResult { audit, windows, transactions, metrics, phases, connections, took: started.elapsed() })
}

async fn end_all(fleet: &mut Fleet) -> Result<()> {
    // An application that never ran cannot receive the command to end.
    for application in fleet.starting() {
        fleet.kill(application).await?;
    }
    for process in 0..PROCESSES {
        fleet.end(process).await?;
    }
    Ok(())
}

/// Where the tables and the topics disagree, as `outbox verify` sees it.
async fn find_disagreements(context: &RunContext<'_>, plan: &Plan, topics: &Topics, audit: &mut Audit) -> Result<()> {
    let (url, bootstrap) = (context.environment.url(context.database), context.environment.bootstrap());
    for topic in [Topic::new(topics.plain.as_str()), Topic::new(topics.ordered.as_str()).ordered_by_key()] {
        for what in verify::disagreements(&url, &bootstrap, topic, plan.is_skewed).await? {
            audit.find(Finding::Disagreement, || what);
        }
    }
    Ok(())
}

/// The outcomes of a plan's phases.
#[derive(Debug, Default)]
struct PhaseResults {
    phases: Vec<PhaseResult>,
    steady_states: Vec<SteadyState>,
    /// How many messages the driver has delivered to two partitions.
    delivered: u64,
    /// What was stuck after the last of them.
    stuck: Option<String>,
}

/// What was read during the run.
struct Read {
    steady_states: Vec<SteadyState>,
    aged: Vec<consumer::Record>,
    is_all_redriven: bool,
}

/// Starts the consumers, if the plan has some: once the topics are there, which the relays create.
async fn start_consumers(
    context: &RunContext<'_>,
    plan: &Plan,
    topics: &Topics,
    fleet: &mut Fleet,
) -> Result<Option<Releaser>> {
    if !plan.load.consumers {
        return Ok(None);
    }
    group::create_topic(&context.environment.bootstrap(), topics.name(TWICE), group::PARTITIONS).await?;
    if let Err(what) = context.running(fleet).await? {
        bail!("before the first fault, {what}");
    }
    (APPLICATIONS..PROCESSES).try_for_each(|consumer| fleet.start(consumer))?;
    Ok(Some(Releaser::start(context.environment.url(context.database), context.database.to_owned())))
}

/// Runs the phases of a plan.
async fn run_phases(
    context: &RunContext<'_>,
    plan: &Plan,
    fault_log: &FaultLog,
    fleet: &mut Fleet,
) -> Result<PhaseResults> {
    let mut phase_results = PhaseResults::default();
    let mut injector = FaultInjector::new(context.environment, context.database, fault_log, plan.times);
    let (mut committed, mut since) = (truth::count(&mut context.connect().await?).await?, Instant::now());
    let mut processed_until = 0;
    for (number, phase) in plan.phases.iter().enumerate() {
        if plan.load.all_features {
            truth::insert_expired_history(&mut context.connect().await?, YEAR + number).await?;
        }
        injector.run_phase(phase, fleet, context.stop).await?;
        let rows = context.waiting().await?;
        let running = context.running(fleet).await?;
        let recovered = match &running {
            Ok(_) => context.recovered(fleet).await?,
            Err(what) => Err(what.clone()),
        };
        let processed = match (&recovered, plan.load.consumers) {
            (Ok(_), true) => {
                let (after, until) = (processed_until, ledger::last_committed(&mut context.connect().await?).await?);
                processed_until = until;
                Some(context.processed(fleet, after, until, injector.delivered()).await?)
            }
            _ => None,
        };
        let (before, begin) = (committed, since);
        (committed, since) = (truth::count(&mut context.connect().await?).await?, Instant::now());
        let one = PhaseResult {
            rows,
            running: running.ok(),
            recovery: recovered.as_ref().ok().copied(),
            processed: processed.clone().and_then(Result::ok),
            committed: committed - before,
            took: since - begin,
        };
        eprintln!("phase {} of {}: {one}", number + 1, plan.phases.len());
        phase_results.phases.push(one);
        if recovered.is_ok() {
            fault_log.recovered(plan.times.delivery_ms);
        }
        if let Err(what) = recovered.and_then(|_| processed.unwrap_or(Ok(Duration::ZERO))) {
            phase_results.stuck = Some(format!("after phase {}: {what}", number + 1));
            break;
        }
        let steady_state = SteadyState::begin(&mut context.connect().await?, injector.held()).await?;
        fleet.watch(STEADY_STATE, context.stop).await?;
        let steady_state = steady_state.end(&mut context.connect().await?).await?;
        println!("read in the steady state: {:?}, dead rows: {:?}", steady_state.rows_read, steady_state.dead);
        phase_results.steady_states.push(steady_state);
    }
    injector.release();
    phase_results.delivered = injector.delivered();
    Ok(phase_results)
}

async fn audited(
    context: &RunContext<'_>,
    plan: &Plan,
    topics: &Topics,
    fault_log: &FaultLog,
    fleet: &Fleet,
    connections: &ConnectionMonitor,
    read: Read,
) -> Result<Audit> {
    let (bootstrap, topics, has_consumers) = (context.environment.bootstrap(), topics.clone(), plan.load.consumers);
    let reading = move || {
        let twice = if has_consumers { consumer::read_twice(&bootstrap, &topics)? } else { Vec::new() };
        anyhow::Ok((consumer::read(&bootstrap, &topics)?, twice))
    };
    let (mut records, twice) = spawn_blocking(reading).await?.context("read the topics")?;
    records.extend(read.aged);
    let mut connection = context.connect().await?;
    let ledger = if has_consumers { Some(ledger::all(&mut connection).await?) } else { None };
    let committed = truth::committed(&mut connection).await?;
    let dead = truth::dead(&mut connection).await?;
    let kept = truth::kept(&mut connection).await?;
    if committed.is_empty() {
        bail!("nothing was committed");
    }
    let evidence = Evidence {
        committed: &committed,
        dead: &dead,
        is_all_redriven: read.is_all_redriven,
        kept: plan.load.all_features.then_some(kept.as_slice()),
        records: &records,
        ledger: ledger.as_deref(),
        twice: &twice,
        windows: &fault_log.windows(),
        steady_states: &read.steady_states,
        pool_overruns: &connections.pool_overruns(),
        applications: &fleet.applications,
        late_ms: plan.times.late_ms(),
    };
    Ok(Audit::of(&evidence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_says_how_it_ended() {
        let mut passed = PhaseResult {
            rows: 120,
            running: Some(Duration::from_millis(2_140)),
            recovery: Some(Duration::from_secs(5)),
            processed: None,
            committed: 3_000,
            took: Duration::from_secs(60),
        };
        let whole = "120 rows at its end, all ran after 2.1 s and recovered in 5.0 s, 50 committed per second";
        assert_eq!(passed.to_string(), whole);
        passed.recovery = None;
        let stuck = "120 rows at its end, all ran after 2.1 s and are stuck, 50 committed per second";
        assert_eq!(passed.to_string(), stuck);
        passed.running = None;
        assert_eq!(passed.to_string(), "120 rows at its end, not all ran, 50 committed per second");
    }
}
